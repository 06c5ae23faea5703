//! A wrapper around the runner of an external agent: snapshots around its steps, budgets, and the earlier conversation.
//!
//! An external agent changes files in its own process without asking, so its steps are treated like commands: the tree
//! is compared before and after, and changes that no other tool has claimed are its work. Its usage is counted where it
//! reports it; a budget that is used up stops only the agent, and the turn ends as `budget`.

use std::fmt;
use std::sync::Arc;

use engine::ports::{Draft, Prepared, Runner};
use engine::session::{Call, Turn};
use futures::future::{BoxFuture, FutureExt};
use protocol::config::Budget;
use protocol::{AgentEvent, MessageError, SessionId, TurnEnd};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{About, External, handover};
use crate::Snapshots;
use crate::budget::Meter;
use crate::snapshots::{Around, Changes};

/// A runner with snapshots around its steps and with budgets.
#[derive(Clone)]
pub struct Watched {
    runner: Arc<dyn External>,
    snapshots: Option<Arc<Snapshots>>,
    budget: Budget,
}

impl Watched {
    /// Wraps a runner. Without snapshots its file changes are not recorded.
    pub fn new(runner: Arc<dyn External>, snapshots: Option<Arc<Snapshots>>, budget: Budget) -> Self {
        Self { runner, snapshots, budget }
    }

    /// Gives the earlier messages to an agent that begins a new conversation in a session with a history (a fork, or a
    /// session of another agent), and tells the user that the agent knows nothing else. Two sessions never share a
    /// conversation.
    async fn introduce(&self, turn: &Turn, tapped: &mut Turn) {
        let about = self.about();
        if turn.session.parent_id.is_some() || turn.session.note(&about.id).is_some() {
            return;
        }
        let Some(conversation) = handover::conversation(turn).await else { return };
        tapped.preface(conversation);
        let message = format!(
            "{} begins a conversation of its own: of what was said here before it knows only the words, which it is told \
             with this prompt",
            about.name
        );
        turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Watched").field(&self.about().id).finish()
    }
}

impl External for Watched {
    fn about(&self) -> &About {
        self.runner.about()
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        self.runner.forget(session)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.runner.close()
    }
}

impl Runner for Watched {
    fn run(&self, mut turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let watched = self.clone();
        async move {
            let (mut tapped, calls) = turn.tapped();
            let meter = match Meter::start(&watched.budget, &turn).await {
                Ok(meter) => meter,
                Err(error) => return TurnEnd::Error(MessageError::unknown(error.to_string())),
            };
            watched.introduce(&turn, &mut tapped).await;
            let stop = tapped.cancellation().clone();
            let changes = Changes::new(watched.snapshots.as_deref(), &turn).await;
            let mut watch = Watch {
                turn: &turn,
                changes,
                meter,
                around: None,
                worked: false,
                changed: false,
                over: None,
            };
            watch.afford().await;
            if let Some(message) = watch.over {
                return TurnEnd::Budget { message };
            }
            watch.follow(watched.runner.run(tapped), calls, &stop).await
        }
        .boxed()
    }

    fn prepare<'a>(&'a self, draft: Draft<'a>) -> BoxFuture<'a, Result<Prepared, String>> {
        self.runner.prepare(draft)
    }
}

/// The state of one turn.
struct Watch<'a> {
    turn: &'a Turn,
    changes: Changes<'a>,
    meter: Meter<'a>,
    /// The state of the files at the beginning of the open step.
    around: Option<Around>,
    /// True if a tool ran in the open step.
    worked: bool,
    /// True if a step has changed files and the new diff is not published yet.
    changed: bool,
    /// The message of the budget that is used up.
    over: Option<String>,
}

impl Watch<'_> {
    async fn follow(
        &mut self,
        work: BoxFuture<'static, TurnEnd>,
        mut calls: mpsc::Receiver<Call>,
        stop: &CancellationToken,
    ) -> TurnEnd {
        let mut work = work;
        let deadline = self.meter.deadline();
        let end = loop {
            tokio::select! {
                biased;
                Some(call) = calls.recv() => self.hear(call).await,
                end = &mut work => break end,
                () = until(deadline.as_ref().map(|(at, _)| *at)), if self.over.is_none() => {
                    self.over = deadline.as_ref().map(|(_, message)| message.clone());
                }
            }
            if self.over.is_some() {
                stop.cancel();
            }
        };
        while let Ok(call) = calls.try_recv() {
            self.hear(call).await;
        }
        self.leave().await;
        match self.over.take() {
            Some(message) if !self.turn.cancellation().is_cancelled() => TurnEnd::Budget { message },
            _ => end,
        }
    }

    /// Passes on the runner's calls, with snapshots and patches added.
    async fn hear(&mut self, call: Call) {
        let call = match call {
            Call::Emit(event) => Call::Emit(self.complete(event).await),
            other => other,
        };
        self.turn.pass(call).await;
        if self.changed
            && let Some(diffed) = self.changes.diffed().await
        {
            self.changed = false;
            self.turn.emit(diffed).await;
        }
    }

    async fn complete(&mut self, event: AgentEvent) -> AgentEvent {
        match event {
            AgentEvent::StepStarted { snapshot: None, speaker } => {
                let snapshot = self.changes.begin().await;
                self.around = self.changes.around().await;
                self.worked = false;
                AgentEvent::StepStarted { snapshot, speaker }
            }
            AgentEvent::StepFinished { reason, tokens, cost, snapshot: None, patch: None, error } => {
                self.meter.step(cost, &tokens);
                self.afford().await;
                let (snapshot, patch) = self.settle().await;
                AgentEvent::StepFinished { reason, tokens, cost, snapshot, patch, error }
            }
            AgentEvent::ToolRunning { .. }
            | AgentEvent::ToolCompleted { .. }
            | AgentEvent::ToolFailed { .. } => {
                self.worked = true;
                event
            }
            event => event,
        }
    }

    async fn settle(&mut self) -> (Option<String>, Option<protocol::part::PatchPart>) {
        let around = self.around.take();
        if self.worked {
            self.changes.settle(around).await;
        }
        let (snapshot, patch) = self.changes.finish().await;
        self.changed |= patch.is_some();
        (snapshot, patch)
    }

    /// Checks the budgets after a step.
    async fn afford(&mut self) {
        if let Err(error) = self.meter.look(self.turn).await {
            tracing::warn!(session = %self.turn.session.id, %error, "what subagents have used is not known");
        }
        if self.over.is_none() {
            self.over = self.meter.exceeded();
        }
    }

    /// Publishes the changes of a step that the runner has left unfinished.
    async fn leave(&mut self) {
        if self.around.is_none() {
            return;
        }
        if let (_, Some(patch)) = self.settle().await {
            self.turn.emit(AgentEvent::Patched(patch)).await;
            if let Some(diffed) = self.changes.diffed().await {
                self.turn.emit(diffed).await;
            }
        }
    }
}

/// Waits until a time, or for ever if there is none.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
