//! Runners: the port to the agents that execute turns.

use std::sync::Arc;

use futures::future::{self, BoxFuture, FutureExt};
use protocol::{
    AgentEvent, EndReason, MessageError, Session, SessionId, TurnEnd,
    agent_event::{Answer, Ask},
    message::ModelRef,
    prompt::{CommandInput, Delivery, PartInput, PromptInput},
    request::Rule,
};

use super::{Hooks, NoHooks};
use crate::{lifecycle::continuation::ContinuationPolicy, session::Turn};

/// Executes turns. It emits agent events through the turn while it works and *returns* how the turn ended; it has
/// no way to publish idle. It must return promptly after `turn.cancelled()`: after a grace period the actor drops
/// it.
pub trait Runner: Send + Sync {
    /// Works on one prompt until its answer is complete.
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd>;

    /// Completes a prompt before it is stored, for example by reading the attached files: the stored prompt
    /// contains them as they were when it was submitted. An error refuses the prompt. The future is dropped after
    /// [`Limits::prepare`](crate::limits::Limits::prepare).
    fn prepare<'a>(&'a self, draft: Draft<'a>) -> BoxFuture<'a, Result<Prepared, String>> {
        future::ready(Ok(Prepared { parts: draft.parts, warnings: Vec::new() })).boxed()
    }
}

/// Sees the events and the requests of a supervised runner before the session receives them.
pub trait Supervision: Send + Sync {
    /// Returns the events for the session in place of this one, in order. The runner waits for them, so work that
    /// must precede or follow an event, such as a snapshot, is done when the runner goes on.
    fn filter(&self, event: AgentEvent) -> BoxFuture<'_, Vec<AgentEvent>>;

    /// Answers a request of the runner's turn by rules, or asks the user with [`Turn::ask_unless`].
    fn answer<'a>(&'a self, turn: &'a Turn, ask: Ask) -> BoxFuture<'a, Answer>;
}

/// A prompt that is about to be stored.
#[derive(Debug)]
pub struct Draft<'a> {
    pub session: &'a Session,
    /// The agent that will answer.
    pub agent: &'a str,
    /// The approvals of the session's workspace, as rules.
    pub approved: Vec<Rule>,
    pub parts: Vec<PartInput>,
}

/// A prompt that is ready to be stored.
#[derive(Debug, Default)]
pub struct Prepared {
    pub parts: Vec<PartInput>,
    /// Errors about parts that could not be completed, for the user.
    pub warnings: Vec<MessageError>,
}

/// Finds the runner for a prompt.
pub trait Runners: Send + Sync {
    /// Chooses agent, model and runner, or names what does not exist, before the prompt is accepted. Asynchronous
    /// because each directory has its own configuration, which may have to be loaded.
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>>;

    /// Called when a session is deleted: releases everything that is kept for it.
    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        let _ = session;
        future::ready(()).boxed()
    }

    /// Expands a slash command to its prompt.
    fn command<'a>(
        &'a self,
        session: &'a Session,
        input: &'a CommandInput,
    ) -> BoxFuture<'a, Result<PromptInput, Unresolved>> {
        let _ = session;
        let unknown = Unresolved::Command { name: input.command.clone(), known: String::new() };
        future::ready(Err(unknown)).boxed()
    }
}

/// A prompt's request for an agent and a model.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub session: &'a Session,
    /// The agent that the prompt names.
    pub agent: Option<&'a str>,
    /// The model that the prompt names.
    pub model: Option<&'a ModelRef>,
}

/// The agent, model and runner for a prompt.
#[derive(Clone)]
pub struct Resolved {
    pub agent: String,
    pub model: ModelRef,
    pub runner: Arc<dyn Runner>,
    /// The hooks of the session's directory.
    pub hooks: Arc<dyn Hooks>,
    /// Limits for turns that continue by themselves.
    pub continuation: ContinuationPolicy,
    /// The delivery of a prompt that names none.
    pub delivery: Delivery,
}

impl Resolved {
    /// A runner without hooks, whose turns do not continue by themselves.
    pub fn new(agent: impl Into<String>, model: ModelRef, runner: Arc<dyn Runner>) -> Self {
        let (hooks, continuation) = (NoHooks::shared(), ContinuationPolicy::default());
        Self { agent: agent.into(), model, runner, hooks, continuation, delivery: Delivery::default() }
    }
}

impl std::fmt::Debug for Resolved {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Resolved")
            .field("agent", &self.agent)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Something that a prompt names and that does not exist or cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// The agent does not exist.
    #[error("agent \"{name}\" does not exist; known agents: {known}")]
    Agent {
        name: String,
        /// The names of existing agents.
        known: String,
    },
    /// The model does not exist or cannot be called.
    #[error("model \"{name}\" cannot be used: {reason}; models that can: {known}")]
    Model {
        name: String,
        /// The cause, and how to fix it.
        reason: String,
        /// The names of usable models.
        known: String,
    },
    /// The slash command does not exist.
    #[error("command \"{name}\" does not exist; known commands: {known}")]
    Command {
        name: String,
        /// The names of existing commands.
        known: String,
    },
    /// The slash command cannot be run with these arguments.
    #[error("command \"{name}\" cannot be run: {message}")]
    Unusable { name: String, message: String },
    /// The configuration of the session's directory is invalid.
    #[error("the configuration of {directory} cannot be used: {message}")]
    Configuration {
        directory: String,
        /// The error in the configuration, for the user.
        message: String,
    },
}

/// A child session to start within a turn, or an existing child to prompt again.
#[derive(Debug, Clone, Default)]
pub struct ChildSpec {
    pub title: String,
    pub agent: Option<String>,
    /// `None` uses the parent's model.
    pub model: Option<ModelRef>,
    pub prompt: String,
    /// A descendant session to prompt again, instead of creating a new one.
    pub resume: Option<SessionId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnd {
    pub session: SessionId,
    pub reason: EndReason,
    /// The text of the child's last answer.
    pub text: String,
}
