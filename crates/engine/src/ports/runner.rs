//! Who takes a turn.

use std::sync::Arc;

use futures::future::{self, BoxFuture, FutureExt};
use protocol::{
    EndReason, MessageError, Session, SessionId, TurnEnd,
    message::ModelRef,
    prompt::{CommandInput, PartInput, PromptInput},
    request::Rule,
};

use super::{Hooks, NoHooks};
use crate::{lifecycle::continuation::Policy, session::Turn};

/// Executes turns. It emits agent events through the turn while it works and *returns* how it ended; it has
/// no way to say idle. It must return promptly after `turn.cancelled()`: after a grace it is dropped.
pub trait Runner: Send + Sync {
    /// Works on one prompt until there is nothing left to say.
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd>;

    /// Completes what a person says before it is stored, such as by reading the files that come with it: what is
    /// stored is what was there when it was said. An error refuses the prompt. It is dropped after
    /// [`Limits::prepare`](crate::limits::Limits::prepare).
    fn prepare<'a>(&'a self, draft: Draft<'a>) -> BoxFuture<'a, Result<Prepared, String>> {
        future::ready(Ok(Prepared { parts: draft.parts, warnings: Vec::new() })).boxed()
    }
}

/// A prompt that is about to be stored.
#[derive(Debug)]
pub struct Draft<'a> {
    /// The session it is for.
    pub session: &'a Session,
    /// The agent that is to answer.
    pub agent: &'a str,
    /// What people have allowed for good in the session's directory, as rules.
    pub approved: Vec<Rule>,
    /// What is said.
    pub parts: Vec<PartInput>,
}

/// A prompt that is complete.
#[derive(Debug, Default)]
pub struct Prepared {
    /// What is stored.
    pub parts: Vec<PartInput>,
    /// What could not be completed, for people.
    pub warnings: Vec<MessageError>,
}

/// Finds the runner for what a prompt asks for.
pub trait Runners: Send + Sync {
    /// Chooses agent, model and runner, or says what is unknown, before anything is accepted. Each directory may
    /// have its own, so the answer may have to be looked up.
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>>;

    /// A session is gone for good: whatever is kept for it can go, too.
    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        let _ = session;
        future::ready(()).boxed()
    }

    /// The prompt that a slash command stands for in a session.
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

/// What a prompt asks for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The session.
    pub session: &'a Session,
    /// Agent named in the request.
    pub agent: Option<&'a str>,
    /// Model named in the request.
    pub model: Option<&'a ModelRef>,
}

/// What a prompt gets.
#[derive(Clone)]
pub struct Resolved {
    /// The agent's name.
    pub agent: String,
    /// The model.
    pub model: ModelRef,
    /// Who runs it.
    pub runner: Arc<dyn Runner>,
    /// Who looks on in the session's directory, and may shape what happens.
    pub hooks: Arc<dyn Hooks>,
    /// How far its turns may go by themselves.
    pub continuation: Policy,
}

impl Resolved {
    /// A runner where nobody looks on, and whose turns do not go on by themselves.
    pub fn new(agent: impl Into<String>, model: ModelRef, runner: Arc<dyn Runner>) -> Self {
        Self { agent: agent.into(), model, runner, hooks: NoHooks::shared(), continuation: Policy::default() }
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

/// What a prompt asked for and nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// No such agent.
    #[error("agent \"{name}\" does not exist; known agents: {known}")]
    Agent {
        /// As asked.
        name: String,
        /// Names that would do.
        known: String,
    },
    /// No such model, or none that can be asked.
    #[error("model \"{name}\" cannot be used: {reason}; models that can: {known}")]
    Model {
        /// As asked.
        name: String,
        /// Why not, and what to do about it.
        reason: String,
        /// Names that would do.
        known: String,
    },
    /// No such slash command.
    #[error("command \"{name}\" does not exist; known commands: {known}")]
    Command {
        /// As asked.
        name: String,
        /// Names that would do.
        known: String,
    },
    /// A slash command that makes no sense like this.
    #[error("command \"{name}\" cannot be run: {message}")]
    Unusable {
        /// The command.
        name: String,
        /// Why.
        message: String,
    },
    /// The session's directory has a configuration that cannot be used.
    #[error("the configuration of {directory} cannot be used: {message}")]
    Configuration {
        /// The directory.
        directory: String,
        /// What is wrong with it, for people.
        message: String,
    },
}

/// A child session to start within a turn, or one to give more work to.
#[derive(Debug, Clone, Default)]
pub struct ChildSpec {
    /// Its title.
    pub title: String,
    /// Its agent.
    pub agent: Option<String>,
    /// Its model, if not the parent's.
    pub model: Option<ModelRef>,
    /// What it is told.
    pub prompt: String,
    /// A session below this one that goes on, instead of a new one.
    pub resume: Option<SessionId>,
}

/// How a child's turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnd {
    /// The child.
    pub session: SessionId,
    /// How.
    pub reason: EndReason,
    /// The text of its last answer.
    pub text: String,
}
