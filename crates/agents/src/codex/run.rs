//! One turn of Codex, from the prompt to its end.

use std::collections::{BTreeMap, BTreeSet};

use engine::session::Turn;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use protocol::config::PermissionMode;
use protocol::{MessageError, MessageId, TurnEnd};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::ask::Reply;
use super::failure::failure;
use super::input::{Wanted, wanted};
use super::process::{Process, explain};
use super::threads::Thread;
use super::translate::Translation;
use super::wire::{self, Notice, Status, Told, TurnStatus};
use super::{Inner, NAME};
use crate::external::{Family, family};
use crate::jsonrpc::{self, Asked, Id, Incoming};
use crate::roster::DEFAULT_MODEL;

/// Lines that nobody understands which are put up with in one turn.
const MAX_NOISE: usize = 1_000;

/// What people are told who want to go on with another agent of Codex.
const SUBAGENT: &str = "This session shows what another agent of Codex did, and cannot go on; ask in the session that started it.";

/// How a turn ended, and what became of its process.
pub(super) struct Ended {
    end: TurnEnd,
    process: Condition,
}

/// What a process is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// The next turn.
    Usable,
    /// Nothing.
    Broken,
    /// Nothing, and it was gone before it took this turn's prompt.
    Gone,
}

impl Ended {
    fn usable(end: TurnEnd) -> Self {
        Self { end, process: Condition::Usable }
    }

    fn failed(error: MessageError) -> Self {
        Self { end: TurnEnd::Error(error), process: Condition::Broken }
    }

    fn broken(message: impl Into<String>) -> Self {
        Self::failed(MessageError::unknown(message))
    }
}

/// Answers a prompt.
pub(super) async fn run(inner: &Inner, turn: &Turn) -> TurnEnd {
    let (session, rules) = (&turn.session.id, &inner.options.rules);
    if let Some(adopted) = inner.nursery.take(&turn.session).await {
        return family::follow(&inner.nursery, turn, rules, NAME, adopted).await;
    }
    if family::is_subagent(&turn.session, NAME) {
        return TurnEnd::Error(MessageError::unknown(SUBAGENT));
    }
    let wanted = said(turn, &turn.prompt).await;
    if let Some(kept) = inner.keeper.take(session).await {
        let ended = answer(inner, turn, kept, &wanted).await;
        // If it died while nobody looked, another one takes its place.
        if ended.process != Condition::Gone {
            return ended.end;
        }
    }
    if wanted == Wanted::Wake {
        // What began by itself is gone.
        return TurnEnd::Completed;
    }
    match open(inner, turn).await {
        Ok(process) => {
            let ended = answer(inner, turn, process, &wanted).await;
            if ended.process == Condition::Gone {
                inner.keeper.failed(session);
            }
            ended.end
        }
        Err(end) => end,
    }
}

/// Lets a process answer, and keeps or ends it.
async fn answer(inner: &Inner, turn: &Turn, mut process: Process, wanted: &Wanted) -> Ended {
    let session = &turn.session.id;
    let ended = work(inner, turn, &mut process, wanted).await;
    if ended.process == Condition::Usable {
        inner.keeper.keep(session.clone(), process);
        return ended;
    }
    if ended.process == Condition::Broken && !matches!(ended.end, TurnEnd::Cancelled) {
        inner.keeper.failed(session);
    }
    process.link.stop().await;
    ended
}

/// A new process for the session.
async fn open(inner: &Inner, turn: &Turn) -> Result<Process, TurnEnd> {
    let session = &turn.session.id;
    let start = async {
        if let Some(pause) = inner.keeper.pause(session) {
            sleep(pause).await;
        }
        Process::open(inner, turn).await
    };
    let started = tokio::select! {
        biased;
        () = turn.cancelled() => return Err(TurnEnd::Cancelled),
        started = start => started,
    };
    started.map_err(|message| {
        inner.keeper.failed(session);
        TurnEnd::Error(MessageError::unknown(message))
    })
}

async fn work(inner: &Inner, turn: &Turn, process: &mut Process, wanted: &Wanted) -> Ended {
    let counted = std::mem::take(&mut process.counted);
    let mut work = Work {
        inner,
        turn,
        translation: Translation::new(&process.thread, &turn.session.directory, counted),
        process,
        has_begun: false,
        current: None,
        asks: FuturesUnordered::new(),
        open: Vec::new(),
        family: Family::new(&inner.nursery, turn, &inner.options.rules),
        threads: BTreeMap::new(),
        known: BTreeSet::new(),
        held: None,
        next: None,
        sent: FuturesUnordered::new(),
        refused: false,
        joining: FuturesUnordered::new(),
        unsent: Vec::new(),
        heard: Instant::now(),
        farewell: None,
        noise: 0,
    };
    let ended = match work.begin(wanted).await {
        Ok(()) => {
            work.has_begun = true;
            work.follow().await
        }
        Err(ended) => ended,
    };
    work.family.settle().await;
    work.process.counted = std::mem::take(&mut work.translation.counted);
    ended
}

/// What was to join, and what Codex says to that.
pub(super) type Joined = (Vec<Value>, Result<Value, jsonrpc::Error>);

/// The thread that has asked if it is not the session's own, what, and what is said to it.
type Replied = (Option<String>, Asked, Reply);

/// One turn that is going on.
pub(super) struct Work<'a> {
    pub(super) inner: &'a Inner,
    pub(super) turn: &'a Turn,
    pub(super) process: &'a mut Process,
    pub(super) translation: Translation,
    /// The session and other agents.
    pub(super) family: Family<'a>,
    /// The threads of other agents that work.
    pub(super) threads: BTreeMap<String, Thread>,
    /// Those that ever had a session.
    pub(super) known: BTreeSet<String>,
    /// How the turn ended, while other agents work on.
    pub(super) held: Option<Ended>,
    /// When Codex has to have begun another turn by itself, if it is to.
    pub(super) next: Option<Instant>,
    /// What Codex was told about other threads.
    pub(super) sent: FuturesUnordered<BoxFuture<'static, ()>>,
    /// Codex has taken the prompt.
    has_begun: bool,
    /// What Codex calls this turn, once it has said so.
    pub(super) current: Option<String>,
    /// What a person is asked.
    pub(super) asks: FuturesUnordered<BoxFuture<'a, Option<Replied>>>,
    /// Requests that were neither answered nor taken back, and how to take them back.
    pub(super) open: Vec<(Id, CancellationToken)>,
    /// A person said no.
    pub(super) refused: bool,
    /// What is to join, until Codex has said whether it does.
    pub(super) joining: FuturesUnordered<BoxFuture<'static, Joined>>,
    /// What was to join and came too late.
    pub(super) unsent: Vec<Value>,
    /// When Codex last said something.
    pub(super) heard: Instant,
    /// When the turn has to have ended, and why it should have.
    farewell: Option<(Instant, &'static str)>,
    noise: usize,
}

impl Work<'_> {
    async fn begin(&mut self, wanted: &Wanted) -> Result<(), Ended> {
        let begun = self.process.begun.take();
        match wanted {
            // If Codex has begun something by itself, this joins it.
            Wanted::Turn(input) => self.start(input).await,
            Wanted::Wake => {
                // Nothing of it is left if another turn has seen it.
                self.current = Some(begun.ok_or_else(|| Ended::usable(TurnEnd::Completed))?);
                Ok(())
            }
            Wanted::Compaction => {
                let params = json!({ "threadId": self.process.thread });
                self.call("thread/compact/start", params).await.map(drop)
            }
        }
    }

    async fn start(&mut self, input: &[Value]) -> Result<(), Ended> {
        let mut params = json!({ "threadId": self.process.thread, "input": input });
        let model = Some(&self.turn.model.model_id).filter(|model| *model != DEFAULT_MODEL);
        if let Some(params) = params.as_object_mut() {
            if let Some(model) = model {
                params.insert("model".into(), model.as_str().into());
            }
            if let Some(effort) = &self.turn.model.variant {
                params.insert("effort".into(), effort.as_str().into());
            }
            let model = model.or(self.process.model.as_ref());
            if let (PermissionMode::Plan, Some(model)) = (self.inner.options.mode, model) {
                let settings =
                    json!({ "model": model, "reasoning_effort": null, "developer_instructions": null });
                params.insert("collaborationMode".into(), json!({ "mode": "plan", "settings": settings }));
            }
        }
        let answer = self.call("turn/start", params).await?;
        self.current = answer.pointer("/turn/id").and_then(Value::as_str).map(str::to_owned);
        Ok(())
    }

    /// Asks Codex something, unless the turn is stopped meanwhile.
    pub(super) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Ended> {
        let peer = self.process.link.peer().clone();
        let answer = tokio::select! {
            biased;
            () = self.turn.cancelled() => return Err(self.interrupt().await),
            answer = peer.request(method, params, self.inner.options.answer) => answer,
        };
        self.heard = Instant::now();
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let is_gone = matches!(error, jsonrpc::Error::Ended { .. }) && !self.has_begun;
                let process = if is_gone { Condition::Gone } else { Condition::Broken };
                Err(Ended { process, ..Ended::broken(explain(&mut self.process.link, error).await) })
            }
        }
    }

    async fn follow(&mut self) -> Ended {
        loop {
            let deadline = self.deadline();
            let ended = tokio::select! {
                biased;
                () = self.turn.cancelled() => Some(self.interrupt().await),
                incoming = self.process.link.next() => match incoming {
                    Some(incoming) => self.hear(incoming).await,
                    None => Some(Ended::broken(self.process.link.failure().await)),
                },
                Some(answered) = self.asks.next() => match answered {
                    Some((thread, asked, reply)) => self.answered(thread, asked, reply).await,
                    None => None,
                },
                Some(()) = self.sent.next() => None,
                Some(joined) = self.joining.next() => {
                    self.joined(joined);
                    self.resume().await
                }
                thread = self.family.stopped() => {
                    self.stop_thread(&thread);
                    None
                }
                () = self.turn.prompted() => {
                    self.join().await;
                    None
                }
                () = sleep_until(deadline) => self.overdue(),
            };
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// When this has waited long enough. A person may take their time.
    fn deadline(&self) -> Instant {
        let silence = match self.open.as_slice() {
            [] => self.inner.options.patience.silence,
            _ => self.inner.options.patience.silence + self.heard.elapsed(),
        };
        let farewell = self.farewell.map(|(farewell, _)| farewell);
        [farewell, self.next].into_iter().flatten().fold(self.heard + silence, Instant::min)
    }

    fn overdue(&mut self) -> Option<Ended> {
        if self.next.is_some_and(|next| next <= Instant::now()) {
            // It does not go on after all.
            self.next = None;
            return self.released();
        }
        Some(match (self.farewell, &self.translation.trouble) {
            (Some(_), Some(trouble)) => Ended::failed(failure(Some(trouble))),
            (Some((_, why)), None) => {
                let farewell = self.inner.options.farewell;
                Ended::broken(format!("Codex {why}, but did not end the turn within {farewell:?}"))
            }
            (None, _) => {
                let silence = self.inner.options.patience.silence;
                Ended::broken(format!("Codex said nothing for {silence:?}, so it was ended"))
            }
        })
    }

    async fn hear(&mut self, incoming: Incoming) -> Option<Ended> {
        self.heard = Instant::now();
        match incoming {
            Incoming::Told { method, params } => match wire::told(&method, params) {
                Ok(told) => self.told(told).await,
                Err(error) => self.noise(&error),
            },
            Incoming::Asked(asked) => {
                self.asked(asked);
                None
            }
            Incoming::Malformed(malformed) => self.noise(&malformed.to_string()),
        }
    }

    fn noise(&mut self, what: &str) -> Option<Ended> {
        debug!(session = %self.turn.session.id, what, "Codex said something that nobody understands");
        self.noise += 1;
        (self.noise > MAX_NOISE).then(|| Ended::broken(format!("Codex talks nonsense: {what}")))
    }

    async fn told(&mut self, told: Told) -> Option<Ended> {
        if let Notice::Resolved(id) = &told.notice {
            self.open.extract_if(.., |(open, _)| open == id).for_each(|(_, taken_back)| taken_back.cancel());
        }
        if let Some(thread) = told.thread.clone().filter(|_| !self.translation.is_own(&told)) {
            return self.told_elsewhere(thread, told).await;
        }
        match &told.notice {
            Notice::Goal { active } => self.process.goal = *active,
            // It goes on by itself.
            Notice::TurnStarted if self.held.is_some() => {
                (self.held, self.next, self.current) = (None, None, told.turn.clone());
            }
            _ => {}
        }
        if self.held.is_none() {
            match &told.notice {
                Notice::TurnCompleted(ended) => {
                    let ours = self.current.as_deref().is_none_or(|current| current == ended.id);
                    return if ours { self.ended(ended.clone()).await } else { None };
                }
                Notice::TurnStarted if self.current.is_none() => self.current.clone_from(&told.turn),
                Notice::Status(Status::Active) => self.farewell = None,
                Notice::Status(Status::Idle) => self.expect_end("says that it is idle"),
                Notice::Status(Status::SystemError) => self.expect_end("says that it has failed"),
                Notice::Error { will_retry: false, .. } => self.expect_end("gave up"),
                Notice::Closed => self.expect_end("closed the thread"),
                Notice::Warning(message) if !message.is_empty() => debug!(message, "Codex warns"),
                _ => {}
            }
        }
        self.expect_threads(None, &told.notice).await;
        let now = self.inner.clock.now();
        for event in self.translation.hear(told, now) {
            self.family.say(None, event).await;
        }
        None
    }

    pub(super) fn expect_end(&mut self, why: &'static str) {
        if self.farewell.is_none() {
            self.farewell = Some((Instant::now() + self.inner.options.farewell, why));
        }
    }

    async fn ended(&mut self, ended: wire::Turn) -> Option<Ended> {
        for event in self.translation.end(&ended) {
            self.family.say(None, event).await;
        }
        self.farewell = None;
        // Whatever has not joined by now never will, but Codex has to say so.
        while let Some(joined) = self.joining.next().await {
            self.joined(joined);
        }
        let late = std::mem::take(&mut self.unsent);
        if !late.is_empty() && !self.refused && ended.status != TurnStatus::Failed {
            self.current = None;
            return self.start(&late).await.err();
        }
        // Codex works on a goal turn after turn.
        let goes_on = self.process.goal && !self.refused && ended.status == TurnStatus::Completed;
        self.next = goes_on.then(|| Instant::now() + self.inner.options.farewell);
        self.hold(Ended::usable(match ended.status {
            _ if self.refused => TurnEnd::Blocked,
            TurnStatus::Completed => TurnEnd::Completed,
            TurnStatus::Failed => {
                TurnEnd::Error(failure(ended.error.as_ref().or(self.translation.trouble.as_ref())))
            }
            TurnStatus::Interrupted => {
                TurnEnd::Error(MessageError::unknown("Codex interrupted the turn without being asked to"))
            }
            TurnStatus::InProgress | TurnStatus::Other => {
                TurnEnd::Error(MessageError::unknown("Codex ended the turn without saying how"))
            }
        }))
    }

    /// What could not join the turn that has ended gets another one, while other agents work on.
    async fn resume(&mut self) -> Option<Ended> {
        if self.held.is_none() || self.unsent.is_empty() {
            return None;
        }
        (self.held, self.next, self.current) = (None, None, None);
        let late = std::mem::take(&mut self.unsent);
        self.start(&late).await.err()
    }

    /// Stops the turn because somebody wants it stopped.
    async fn interrupt(&mut self) -> Ended {
        self.asks.clear();
        self.joining.clear();
        self.family.end_all(&TurnEnd::Cancelled).await;
        let usable = match self.current.clone() {
            // Other agents would work on.
            Some(turn) if self.threads.is_empty() => {
                timeout(self.inner.options.patience.interrupt, self.wind_down(turn)).await.unwrap_or(false)
            }
            // Nobody knows what it is doing.
            _ => false,
        };
        let process = if usable { Condition::Usable } else { Condition::Broken };
        Ended { end: TurnEnd::Cancelled, process }
    }

    /// Whether Codex has really stopped.
    async fn wind_down(&mut self, turn: String) -> bool {
        let peer = self.process.link.peer().clone();
        let params = json!({ "threadId": self.process.thread, "turnId": turn });
        if peer.request("turn/interrupt", params, self.inner.options.patience.interrupt).await.is_err() {
            return false;
        }
        while let Some(incoming) = self.process.link.next().await {
            let Incoming::Told { method, params } = incoming else { continue };
            let Ok(told) = wire::told(&method, params) else { continue };
            if self.translation.is_own(&told)
                && matches!(&told.notice, Notice::TurnCompleted(ended) if ended.id == turn)
            {
                return true;
            }
            // For the counting; nobody listens to the rest any more.
            self.translation.hear(told, self.inner.clock.now());
        }
        false
    }
}

/// What a prompt says.
pub(super) async fn said(turn: &Turn, prompt: &MessageId) -> Wanted {
    match turn.message(prompt).await {
        Ok(Some(message)) => wanted(&message),
        Ok(None) => Wanted::Turn(Vec::new()),
        Err(error) => {
            warn!(session = %turn.session.id, %error, "a prompt could not be read");
            Wanted::Turn(Vec::new())
        }
    }
}
