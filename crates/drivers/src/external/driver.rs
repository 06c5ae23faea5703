//! The runner for every external agent: it assigns turns to processes, keeps processes between turns, starts and resumes
//! them, and ends those that are broken.

use std::fmt;
use std::sync::Arc;

use engine::ports::{Clock, Runner};
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use protocol::message::Origin;
use protocol::prompt::Delivery;
use protocol::{AgentEvent, Message, MessageError, MessageWithParts, Part, PartBody, SessionId, TurnEnd};
use tokio::time::sleep;

use super::agent::{Agent, Condition, Context, Opened, Options, Outcome, Task};
use super::{ChildRegistry, IdleProcesses, KeptProcess as _, children, keeper, shell};
use crate::roster::{About, External};

/// Characters of a prompt that become the title of a session.
const MAX_TITLE: usize = 50;

/// An external agent as a runner. Cheap to clone; its processes end with the last clone.
pub struct Driver<A: Agent>(Arc<Inner<A>>);

struct Inner<A: Agent> {
    agent: A,
    clock: Arc<dyn Clock>,
    keeper: IdleProcesses<A::Process>,
    children: ChildRegistry,
}

impl<A: Agent> Driver<A> {
    /// Creates the runner and starts nothing. `wake` is called when the agent begins to work between turns.
    pub fn new(agent: A, clock: Arc<dyn Clock>, wake: keeper::Wake) -> Self {
        let Options { keeping, pool, .. } = agent.options();
        let keeper = IdleProcesses::new(*keeping, pool.clone(), wake);
        Self(Arc::new(Inner { agent, clock, keeper, children: ChildRegistry::default() }))
    }
}

impl<A: Agent> Inner<A> {
    async fn run(&self, turn: &Arc<Turn>) -> TurnEnd {
        let Options { about, program, .. } = self.agent.options();
        if let Some(end) = self.agent.follow(turn).await {
            return end;
        }
        if let Some(child) = self.children.take(&turn.session).await {
            return children::follow(&self.children, turn, &program.rules, &about.id, child).await;
        }
        if children::is_subagent(&turn.session, &about.id) {
            return failed(format!(
                "This session shows the work of a subagent of {}, which takes no prompts; prompt the parent session",
                about.name
            ));
        }
        let prompt = match turn.message(&turn.prompt).await {
            Ok(Some(prompt)) => prompt,
            Ok(None) => return TurnEnd::Cancelled,
            Err(error) => return failed(error.to_string()),
        };
        match origin(&prompt) {
            Some(Origin::Shell { command }) => shell::run(turn, &command, &program.hidden).await,
            Some(Origin::Wake) => {
                self.open_step(turn).await;
                self.wake(turn).await
            }
            Some(Origin::Command { .. } | Origin::Plugin) | None => {
                if !A::COMPACTS && asks_for_compaction(&prompt) {
                    return failed(format!("{} cannot compact its conversation on request", about.name));
                }
                if !A::NAMES_SESSIONS {
                    title(turn, &prompt).await;
                }
                self.open_step(turn).await;
                self.answer(turn, &prompt).await
            }
        }
    }

    async fn open_step(&self, turn: &Turn) {
        if A::OPENS_STEP {
            turn.emit(AgentEvent::step_started()).await;
        }
    }

    /// Follows work that the agent has begun by itself. There is nothing to follow if its process has ended, or if
    /// another turn has followed it.
    async fn wake(&self, turn: &Arc<Turn>) -> TurnEnd {
        let Some(process) = self.keeper.take(&turn.session.id).await else { return TurnEnd::Completed };
        let outcome = self.serve(turn, process, Task::Wake).await;
        if outcome.process == Condition::Unused { TurnEnd::Completed } else { outcome.end }
    }

    async fn answer(&self, turn: &Arc<Turn>, prompt: &MessageWithParts) -> TurnEnd {
        let task = Task::Prompt(prompt);
        if let Some(process) = self.keeper.take(&turn.session.id).await {
            let outcome = self.serve(turn, process, task).await;
            if outcome.process != Condition::Unused {
                return outcome.end;
            }
        }
        if let Some(end) = self.pause(turn).await {
            return end;
        }
        let known = turn.session.note(&self.agent.options().about.id);
        let outcome = Box::pin(self.begin(turn, known, task)).await;
        if outcome.process != Condition::Unused {
            return outcome.end;
        }
        if known.is_none() || A::CONFIRMS_RESUME {
            self.keeper.failed(&turn.session.id);
            return outcome.end;
        }
        self.warn_of_lost_conversation(turn, error(&outcome.end)).await;
        let outcome = Box::pin(self.begin(turn, None, task)).await;
        if outcome.process == Condition::Unused {
            self.keeper.failed(&turn.session.id);
        }
        outcome.end
    }

    /// Delays the start of a process after failed ones, and shows the delay as a retry.
    async fn pause(&self, turn: &Turn) -> Option<TurnEnd> {
        let pause = self.keeper.pause(&turn.session.id)?;
        let next = self.clock.now() + i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
        let message = format!("{} failed in the last turn and is restarted", self.agent.options().about.name);
        turn.emit(AgentEvent::Retrying { attempt: 1, limit: None, message, next }).await;
        tokio::select! {
            biased;
            () = turn.cancelled() => return Some(TurnEnd::Cancelled),
            () = sleep(pause) => {}
        }
        turn.emit(AgentEvent::Resumed).await;
        None
    }

    /// Starts a process and lets it work.
    async fn begin(&self, turn: &Arc<Turn>, resume: Option<&str>, task: Task<'_>) -> Outcome {
        let opened = tokio::select! {
            biased;
            // Dropping the future ends the process that it has started.
            () = turn.cancelled() => return Outcome::broken(TurnEnd::Cancelled),
            opened = self.agent.open(turn, resume) => opened,
        };
        let Opened { process, note, lost } = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.keeper.failed(&turn.session.id);
                return Outcome::broken(TurnEnd::Error(error));
            }
        };
        if let Some(note) = note.filter(|note| resume != Some(note)) {
            let name = self.agent.options().about.id.clone();
            turn.emit(AgentEvent::Noted { name, note }).await;
        }
        if let Some(reason) = lost {
            self.warn_of_lost_conversation(turn, &reason).await;
        }
        self.serve(turn, process, task).await
    }

    /// Lets a process work on a turn, and keeps or ends it afterwards.
    async fn serve(&self, turn: &Arc<Turn>, mut process: A::Process, task: Task<'_>) -> Outcome {
        let context = Context { turn, clock: &self.clock, children: &self.children };
        let outcome = self.agent.work(context, &mut process, task).await;
        if outcome.process == Condition::Reusable {
            self.keeper.keep(turn.session.id.clone(), process);
            return outcome;
        }
        process.stop().await;
        if outcome.process == Condition::Broken && matches!(outcome.end, TurnEnd::Error(_)) {
            self.keeper.failed(&turn.session.id);
        }
        outcome
    }

    async fn warn_of_lost_conversation(&self, turn: &Turn, reason: &str) {
        let name = &self.agent.options().about.name;
        let message = format!(
            "{name} could not resume the conversation and begins a new one without memory of this session: {reason}"
        );
        turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
    }
}

fn failed(message: String) -> TurnEnd {
    TurnEnd::Error(MessageError::unknown(message))
}

fn error(end: &TurnEnd) -> &str {
    match end {
        TurnEnd::Error(error) => error.message(),
        _ => "the process ended",
    }
}

fn origin(prompt: &MessageWithParts) -> Option<Origin> {
    match &prompt.info {
        Message::User(user) => user.origin(),
        Message::Assistant(_) => None,
    }
}

fn asks_for_compaction(prompt: &MessageWithParts) -> bool {
    prompt.parts.iter().any(|part| matches!(part.body, PartBody::Compaction(_)))
}

/// Names a session after its first prompt. An agent that has a better title sends it later.
async fn title(turn: &Turn, prompt: &MessageWithParts) {
    if turn.session.parent_id.is_some() || !turn.session.has_default_title() {
        return;
    }
    let is_written = |part: &&Part| !matches!(&part.body, PartBody::Text(it) if it.synthetic == Some(true));
    let mut lines = prompt.parts.iter().filter(is_written).filter_map(Part::text).flat_map(str::lines);
    if let Some(line) = lines.find(|line| !line.trim().is_empty()) {
        let title: String = line.trim().chars().take(MAX_TITLE).collect();
        turn.emit(AgentEvent::Titled(title)).await;
    }
}

impl<A: Agent> External for Driver<A> {
    fn about(&self) -> &About {
        &self.0.agent.options().about
    }

    fn delivery(&self) -> Delivery {
        A::DELIVERY
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        self.0.keeper.forget(session).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            self.0.keeper.close().await;
            self.0.agent.close().await;
        }
        .boxed()
    }
}

impl<A: Agent> Runner for Driver<A> {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let inner = Arc::clone(&self.0);
        async move { inner.run(&Arc::new(turn)).await }.boxed()
    }
}

impl<A: Agent> Clone for Driver<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: Agent> fmt::Debug for Driver<A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Driver").field(&self.0.agent.options().about.id).finish()
    }
}
