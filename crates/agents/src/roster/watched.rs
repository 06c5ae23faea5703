//! A runner under supervision: snapshots around its steps, budgets, and what was said before it came.
//!
//! Somebody else's agent changes files in its own process and asks nobody, so its steps are treated as commands are:
//! the tree is compared before and after, and what nobody else has claimed is its work. Its usage is counted where it
//! tells of it; a budget that is used up stops the agent alone, and the turn ends as `budget`.

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
use crate::snapshots::{BeforeCommand, Changes};

/// A runner whose steps are watched.
#[derive(Clone)]
pub struct Watched {
    runner: Arc<dyn External>,
    snapshots: Option<Arc<Snapshots>>,
    budget: Budget,
}

impl Watched {
    /// Watches over a runner. Without snapshots what it does to files is not known.
    pub fn new(runner: Arc<dyn External>, snapshots: Option<Arc<Snapshots>>, budget: Budget) -> Self {
        Self { runner, snapshots, budget }
    }

    /// Tells an agent that begins a conversation of its own in a session that has a history (a fork, or one that
    /// somebody else has run so far) what was said, and people that this is all it knows. Two sessions never share a
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

/// One turn of it.
struct Watch<'a> {
    turn: &'a Turn,
    changes: Changes<'a>,
    meter: Meter<'a>,
    /// The open step's beginning.
    around: Option<BeforeCommand>,
    /// Whether a tool ran in the open step.
    worked: bool,
    /// Whether a step has changed anything.
    changed: bool,
    /// The budget that is used up.
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

    /// Passes on what the runner says, with what it cannot know.
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
                self.around = self.changes.before_command().await;
                self.worked = false;
                AgentEvent::StepStarted { snapshot, speaker }
            }
            AgentEvent::StepFinished { reason, tokens, cost, snapshot: None, patch: None, error } => {
                self.meter.add_step(cost, &tokens);
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
            self.changes.after_command(around).await;
        }
        let (snapshot, patch) = self.changes.finish().await;
        self.changed |= patch.is_some();
        (snapshot, patch)
    }

    /// Notes whether there is nothing left to pay another step with.
    async fn afford(&mut self) {
        if let Err(error) = self.meter.add_children(self.turn).await {
            tracing::warn!(session = %self.turn.session.id, %error, "what subagents have used is not known");
        }
        if self.over.is_none() {
            self.over = self.meter.exceeded();
        }
    }

    /// Says what a step has changed that is left unfinished, if there is one.
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

/// Waits for a moment; for ever if there is none.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
