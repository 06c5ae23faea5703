//! One round's server with its model, its clients and its data, and the inspection at the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use protocol::MessageWithParts;
use serde_json::{Value, json};
use testkit::process::{Baton, Home};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    follow::{self, Frame, Heard},
    judge::{self, Promise, Violation},
    ledger::{Fate, Ledger},
    line::Line,
    load,
    model::Model,
    script::EFFECTS,
};

/// Time for everything that was accepted to end. Even a slow machine needs only a part of it.
const DRAIN: Duration = Duration::from_mins(2);
/// Time for one replay of a round's log.
const REPLAY: Duration = Duration::from_mins(1);
/// Pause between two checks of a busy server.
const LOOK: Duration = Duration::from_millis(100);

/// The part of the log that must exist at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogRange {
    Everything,
    /// Events older than a week may have been removed.
    Recent,
}

/// A server under test with everything around it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) home: Home,
    pub(crate) model: Model,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) starts: Vec<Duration>,
    address: watch::Sender<String>,
    server: Option<Baton>,
}

impl Site {
    /// Configures a home for the scripted model; nothing runs yet.
    pub(crate) async fn open(home: Home) -> Result<Self> {
        let model = Model::start().await?;
        configure(&home, &model)?;
        let address = watch::Sender::new(String::new());
        Ok(Self { home, model, ledger: Arc::default(), starts: Vec::new(), address, server: None })
    }

    pub(crate) fn line(&self) -> Line {
        Line::new(self.address.subscribe())
    }

    pub(crate) async fn start(&mut self) -> Result<()> {
        self.model.begin_life();
        let server = self
            .home
            .start()
            .await
            .with_context(|| format!("the server did not start: {}", self.last_words()))?;
        self.starts.push(server.started_in);
        self.address.send_replace(server.url.clone());
        self.server = Some(server);
        Ok(())
    }

    pub(crate) fn server(&self) -> Result<&Baton> {
        self.server.as_ref().context("no server is running")
    }

    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.server.take().context("no server is running")?.kill().await
    }

    /// Ends the server with SIGTERM; anything but success is a violation.
    pub(crate) async fn terminate(&mut self) -> Result<Option<Violation>> {
        let (status, _) = self.server.take().context("no server is running")?.terminate().await?;
        let detail = || format!("after SIGTERM the server ended with {status}: {}", self.last_words());
        Ok((!status.success()).then(|| Violation::new(Promise::Alive, detail())))
    }

    fn last_words(&self) -> String {
        let errors = self.home.errors();
        let lines: Vec<_> = errors.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }

    /// Sends unanswered prompts again, answers open requests, and waits until nothing is busy.
    pub(crate) async fn drain(&self) -> Vec<Violation> {
        let line = self.line();
        for (id, prompt) in self.ledger.prompts() {
            if prompt.fate == Fate::Unsure {
                let body = load::prompt(&id, prompt.script);
                load::submit(&line, &self.ledger, &prompt.session, &id, prompt.script, &body).await;
            }
        }
        let deadline = Instant::now() + DRAIN;
        loop {
            let waiting = self.answer_all(&line).await;
            let status = line.get("/session/status").await.ok().map(|answer| answer.body);
            let is_idle = status.as_ref().and_then(Value::as_object).is_some_and(serde_json::Map::is_empty);
            if is_idle && waiting == 0 {
                return Vec::new();
            }
            if Instant::now() >= deadline {
                let detail = format!(
                    "after {DRAIN:?} without new prompts: status {status:?}, {waiting} requests wait"
                );
                return vec![Violation::new(Promise::Closed, detail)];
            }
            sleep(LOOK).await;
        }
    }

    /// Answers requests for as long as it is polled.
    pub(crate) async fn keep_answering(&self) {
        let line = self.line();
        loop {
            self.answer_all(&line).await;
            sleep(LOOK).await;
        }
    }

    /// Answers every open request; returns their number.
    async fn answer_all(&self, line: &Line) -> usize {
        let mut count = 0;
        for kind in ["permission", "question"] {
            let Ok(waiting) = line.get(&format!("/{kind}")).await else { continue };
            for request in waiting.list() {
                count += 1;
                let _ = load::answer_request(line, kind, request, false).await;
            }
        }
        count
    }

    /// Creates the session that tells every follower that the round is over.
    pub(crate) async fn say_last(&self) -> Result<()> {
        let answer = self.line().post("/session", &json!({ "title": follow::LAST })).await;
        let answer = answer.ok().context("the last session could not be created")?;
        anyhow::ensure!(answer.is_success(), "the last session was refused with {}", answer.status);
        Ok(())
    }

    /// Restarts the server once more and compares its data with what followers received and clients know.
    pub(crate) async fn inspect(&mut self, heard: &Heard, kept: LogRange) -> Result<Vec<Violation>> {
        let mut found = Vec::new();
        found.extend(self.terminate().await?);
        self.start().await?;
        match self.replay().await? {
            Some(replayed) => found.extend(judge::log(&heard.frames, &replayed, &heard.deleted)),
            None if kept == LogRange::Recent => {}
            None => found.push(Violation::new(Promise::Resume, "the beginning of the log is missing")),
        }
        let told = self.model.heard();
        let sent = self.ledger.prompts();
        found.extend(judge::prompts(&sent, &heard.prompts, &told.prompts));
        found.extend(judge::steps(&told.asks));
        found.extend(judge::sessions(&sent, &self.sessions(&heard.sessions).await?));
        let effects = std::fs::read_to_string(self.home.project().join(EFFECTS)).unwrap_or_default();
        found.extend(judge::effects(&effects));
        let status = self.line().get("/session/status").await.ok().map(|answer| answer.body);
        if status != Some(json!({})) {
            found
                .push(Violation::new(Promise::Closed, format!("after the restart the status is {status:?}")));
        }
        self.kill().await?;
        found.extend(self.integrity());
        Ok(found)
    }

    /// The whole log; `None` if its beginning was removed.
    pub(crate) async fn replay(&self) -> Result<Option<Vec<Frame>>> {
        follow::replay(&self.line().url(), Instant::now() + REPLAY).await
    }

    pub(crate) async fn sessions(
        &self,
        ids: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Vec<MessageWithParts>>> {
        let line = self.line();
        let mut sessions = BTreeMap::new();
        for id in ids {
            let answer =
                line.get(&format!("/session/{id}/message")).await.ok().context("no answer to a list")?;
            anyhow::ensure!(answer.is_success(), "the messages of {id} were refused with {}", answer.status);
            sessions.insert(id.clone(), serde_json::from_value(answer.body)?);
        }
        Ok(sessions)
    }

    /// Checks the database of a server that has ended, and that no server has panicked.
    pub(crate) fn integrity(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        match integrity(&self.home.data().join("baton.db")) {
            Ok(verdict) if verdict == "ok" => {}
            Ok(verdict) => found.push(Violation::new(Promise::Sound, format!("integrity_check: {verdict}"))),
            Err(error) => {
                found.push(Violation::new(Promise::Sound, format!("integrity_check failed: {error:#}")));
            }
        }
        if self.home.errors().contains("panicked") {
            found.push(Violation::new(Promise::Alive, format!("a server panicked: {}", self.last_words())));
        }
        found
    }

    /// Keeps everything for inspection.
    pub(crate) fn keep(self) -> PathBuf {
        self.home.keep()
    }
}

/// Writes the user's configuration of a home.
pub(crate) fn configure(home: &Home, model: &Model) -> Result<()> {
    let directory = home.configuration();
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("opencode.json"), model.configuration().to_string())?;
    Ok(())
}

fn integrity(database: &std::path::Path) -> Result<String> {
    let connection = rusqlite::Connection::open(database)?;
    Ok(connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?)
}
