//! One `codex app-server`, and the thread of a session in it.

use std::ffi::OsString;

use engine::session::Turn;
use protocol::request::Rule;
use protocol::{AgentEvent, MessageError};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tracing::{debug, info};

use super::options::policy;
use super::translate::Counted;
use super::wire::Notice;
use super::{Inner, NAME, ask, options, wire};
use crate::external::{Kept, Launch, Rested};
use crate::jsonrpc::{self, Dialect, Incoming, Link, Options};
use crate::roster::DEFAULT_MODEL;

/// The argument that makes Codex talk to programs.
const MODE: &str = "app-server";

/// What a session is told when Codex begins to work between turns.
const UNASKED: &str = "Codex began to work by itself.";

/// A thread in a running Codex.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) link: Link,
    pub(super) thread: String,
    /// The model it uses unless told otherwise.
    pub(super) model: Option<String>,
    /// What was counted so far.
    pub(super) counted: Counted,
    /// Whether it works on something turn after turn, without being told to.
    pub(super) goal: bool,
    /// The turn that it has begun by itself, until somebody follows it.
    pub(super) begun: Option<String>,
}

#[derive(Deserialize)]
struct Opened {
    thread: Thread,
    #[serde(default)]
    model: Option<String>,
}

#[derive(Deserialize)]
struct Thread {
    id: String,
}

impl Process {
    /// Starts Codex and takes up the session's thread, or begins one.
    pub(super) async fn open(inner: &Inner, turn: &Turn) -> Result<Self, String> {
        let options = Options { dialect: Dialect::Bare, methods: ask::METHODS, ..Options::default() };
        let mut link = Link::open(&launch(inner, &turn.session.directory), options)
            .map_err(|failure| failure.to_string())?;
        match Self::greet(&link, inner, turn).await {
            Ok((thread, model, counted)) => {
                Ok(Self { link, thread, model, counted, goal: false, begun: None })
            }
            Err(error) => Err(explain(&mut link, error).await),
        }
    }

    /// Whether it begins to work by itself.
    fn wakes(&mut self, method: &str, params: Value) -> bool {
        let Ok(told) = wire::told(method, params) else { return false };
        if told.thread.as_ref() == Some(&self.thread) {
            match told.notice {
                Notice::Goal { active } => self.goal = active,
                Notice::TurnStarted => self.begun = told.turn,
                _ => {}
            }
        }
        self.begun.is_some()
    }

    async fn greet(
        link: &Link,
        inner: &Inner,
        turn: &Turn,
    ) -> Result<(String, Option<String>, Counted), jsonrpc::Error> {
        let peer = link.peer();
        let hello = json!({
            "clientInfo": { "name": "baton", "title": "Baton", "version": env!("CARGO_PKG_VERSION") },
            "capabilities": { "experimentalApi": true },
        });
        peer.request("initialize", hello, inner.options.patience.start).await?;
        peer.notify("initialized", Value::Null, inner.options.answer).await?;
        if let Some(thread) = turn.session.note(NAME) {
            let mut params = settings(&inner.options, turn);
            params.insert("threadId".into(), thread.into());
            params.insert("excludeTurns".into(), true.into());
            match peer.request("thread/resume", params.into(), inner.options.patience.start).await {
                Ok(answer) => {
                    let opened = opened("thread/resume", answer)?;
                    return Ok((opened.thread.id, opened.model, Counted::older()));
                }
                Err(jsonrpc::Error::Refused { fault, .. }) => {
                    info!(session = %turn.session.id, thread, %fault, "a thread could not be taken up again");
                    let message = format!(
                        "Codex does not know this conversation any more and begins anew: {}",
                        fault.message
                    );
                    turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
                }
                Err(error) => return Err(error),
            }
        }
        let params = settings(&inner.options, turn);
        let answer = peer.request("thread/start", params.into(), inner.options.patience.start).await?;
        let opened = opened("thread/start", answer)?;
        turn.emit(AgentEvent::Noted { name: NAME.into(), note: opened.thread.id.clone() }).await;
        let counted = Counted::fresh(&opened.thread.id);
        Ok((opened.thread.id, opened.model, counted))
    }
}

impl Kept for Process {
    async fn rest(&mut self) -> Rested {
        loop {
            match self.link.next().await {
                None => return Rested::Ended(self.link.failure().await),
                // Nobody is there to be asked: dropping it says so.
                Some(Incoming::Asked(asked)) => debug!(asked.method, "Codex asks between turns"),
                Some(Incoming::Told { method, params }) => {
                    if self.wakes(&method, params) {
                        return Rested::Woke(UNASKED.to_owned());
                    }
                }
                Some(Incoming::Malformed(_)) => {}
            }
        }
    }

    async fn stop(self) {
        self.link.stop().await;
    }
}

/// Why Codex did not answer, with its last words if it has ended.
pub(super) async fn explain(link: &mut Link, error: jsonrpc::Error) -> String {
    match error {
        jsonrpc::Error::Ended { .. } => link.failure().await,
        error => format!("Codex: {error}"),
    }
}

fn opened(method: &str, answer: Value) -> Result<Opened, jsonrpc::Error> {
    serde_json::from_value(answer).map_err(|error| jsonrpc::Error::Refused {
        method: method.into(),
        fault: jsonrpc::Fault::new(jsonrpc::INTERNAL_ERROR, format!("its answer names no thread: {error}"))
            .into(),
    })
}

fn launch(inner: &Inner, directory: &str) -> Launch {
    let program = &inner.options;
    let mut words = program.command.iter().map(OsString::from);
    let name = words.next().unwrap_or_else(|| NAME.into());
    // A command that was configured may say it already.
    let mode = (!program.command.iter().any(|word| word == MODE)).then(|| MODE.into());
    let mut launch = Launch::new(name, words.chain(mode), directory);
    launch.environment =
        program.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    launch.hidden = program.hidden.iter().map(OsString::from).collect();
    launch.bounds = program.bounds;
    launch
}

/// How a thread is to be run.
fn settings(options: &options::Options, turn: &Turn) -> Map<String, Value> {
    let mut settings = Map::new();
    settings.insert("cwd".into(), turn.session.directory.as_str().into());
    if turn.model.model_id != DEFAULT_MODEL {
        settings.insert("model".into(), turn.model.model_id.as_str().into());
    }
    let own = turn.session.permission.iter().flatten();
    let rules: Vec<Rule> = options.rules.iter().chain(own).cloned().collect();
    let (approval, sandbox) = policy(options.mode, &rules);
    if let Some(approval) = approval {
        settings.insert("approvalPolicy".into(), approval.into());
    }
    if let Some(sandbox) = sandbox {
        settings.insert("sandbox".into(), sandbox.into());
    }
    settings
}
