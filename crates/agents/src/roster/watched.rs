//! An external agent under supervision: snapshots around its steps, budgets, and the history that it does not know.
//!
//! An external agent changes files in its own process without asking, so its steps are treated as commands are: the tree is
//! compared before and after, and every change that no other tool has claimed is the agent's. Its usage is counted where
//! the agent reports it; an exhausted budget stops the agent alone, and the turn ends as `budget`.
//!
//! The last prompt that an agent took is noted in the session. Turns of other agents and commands of the user since then
//! are told to the agent with its next prompt. If that prompt was reverted, the agent begins a new conversation.

use std::fmt;
use std::sync::Arc;

use engine::ports::{Draft, Prepared, Runner};
use engine::session::{Call, Turn};
use futures::future::{BoxFuture, FutureExt};
use protocol::config::Budget;
use protocol::message::Origin;
use protocol::prompt::Delivery;
use protocol::{AgentEvent, Message, MessageError, MessageWithParts, Session, SessionId, TurnEnd};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::handover::Missed;
use super::{About, External, handover};
use crate::Snapshots;
use crate::budget::Meter;
use crate::snapshots::{BeforeCommand, Changes};

/// An external agent whose steps are watched.
#[derive(Clone)]
pub struct Watched {
    runner: Arc<dyn External>,
    snapshots: Option<Arc<Snapshots>>,
    budget: Budget,
}

impl Watched {
    /// Watches over a runner. Without snapshots its changes of files are not known.
    pub fn new(runner: Arc<dyn External>, snapshots: Option<Arc<Snapshots>>, budget: Budget) -> Self {
        Self { runner, snapshots, budget }
    }

    /// Tells an agent with its prompt what it does not know about the session, and the user that it does not know more.
    async fn introduce(&self, turn: &Turn, tapped: &mut Turn) {
        let about = self.about();
        if turn.session.parent_id.is_some() || !is_prompt(turn).await {
            return;
        }
        let seen = seen(about);
        let missed = match (turn.session.note(&about.id), turn.session.note(&seen)) {
            (Some(_), Some(last)) => handover::missed(turn, &about.id, last).await,
            (Some(_), None) => Missed::Nothing,
            (None, _) => Missed::Undone,
        };
        let message = match missed {
            Missed::Nothing => None,
            Missed::Turns { text, by_others } => {
                tapped.preface(text);
                by_others.then(|| {
                    format!(
                        "{}'s prompt also contains the turns of other agents since its last turn",
                        about.name
                    )
                })
            }
            Missed::Undone => {
                self.runner.forget(&turn.session.id).await;
                forget_note(&mut tapped.session, &about.id);
                handover::conversation(turn).await.map(|conversation| {
                    tapped.preface(conversation);
                    format!(
                        "{} starts a new conversation; its prompt contains the earlier conversation as text",
                        about.name
                    )
                })
            }
        };
        if let Some(message) = message {
            turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
        }
        let note = turn.prompt.to_string();
        turn.emit(AgentEvent::Noted { name: seen, note }).await;
    }
}

/// The name of the note with the last prompt that an agent took.
fn seen(about: &About) -> String {
    format!("{}:prompt", about.id)
}

/// Tells whether a turn begins with a prompt for the agent.
async fn is_prompt(turn: &Turn) -> bool {
    match turn.message(&turn.prompt).await {
        Ok(Some(MessageWithParts { info: Message::User(user), .. })) => {
            !matches!(user.origin(), Some(Origin::Shell { .. } | Origin::Wake))
        }
        _ => false,
    }
}

fn forget_note(session: &mut Session, name: &str) {
    if let Some(notes) = session.extra.get_mut(Session::NOTES).and_then(serde_json::Value::as_object_mut) {
        notes.remove(name);
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

    fn delivery(&self) -> Delivery {
        self.runner.delivery()
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
    around: Option<BeforeCommand>,
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

    /// Checks the budgets after a step.
    async fn afford(&mut self) {
        if let Err(error) = self.meter.add_children(self.turn).await {
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
