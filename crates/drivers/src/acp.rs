//! Agents that speak the Agent Client Protocol, version 1, over their standard input and output.
//!
//! `wire` reads their messages and `outgoing` makes ours, both in the types of the official schema crate; `lenient` repairs
//! messages that break the schema, and `translate` turns updates into agent events. All four are pure. `conversation` is a
//! process with one ACP session, `turn` interprets a turn of it, and `host` serves the agent's requests for permissions,
//! files and commands.

mod conversation;
mod host;
mod lenient;
mod limits;
mod mcp;
mod options;
mod outgoing;
mod prompt;
mod question;
mod subject;
mod terminal;
#[cfg(test)]
mod tests;
mod tool;
mod translate;
mod turn;
mod wire;

use std::sync::Arc;

use engine::session::Turn;
use protocol::config::PermissionMode;
use protocol::request::{Action, Rule};
use protocol::{AgentEvent, MessageError, TurnEnd};
use supervision::permission::Permissions;
use supervision::root;

use crate::external::{self, Agent, Context, Opened, Outcome, Task, exchange};
use conversation::{Conversation, Note};
use host::Host;

pub use options::Options;

/// An agent that speaks the Agent Client Protocol.
#[derive(Debug)]
pub struct Acp {
    options: Arc<Options>,
}

impl Acp {
    pub fn new(options: Options) -> Self {
        Self { options: Arc::new(options) }
    }

    /// Chooses the model of the turn and makes the process ready to serve the agent's requests in it.
    async fn prepare(&self, turn: &Arc<Turn>, process: &mut Conversation) -> Result<(), MessageError> {
        process.choose_model(&turn.model.model_id).await?;
        let root = root(&turn.session, &self.options.closed).map_err(MessageError::unknown)?;
        let approved = turn.approved().await.unwrap_or_default();
        let permissions = Permissions::new(rules(&self.options, turn), approved);
        process.begin(Host::new(Arc::clone(turn), Arc::clone(&self.options), root, permissions));
        Ok(())
    }
}

impl Agent for Acp {
    type Process = Conversation;

    const OPENS_STEP: bool = true;
    const COMPACTS: bool = false;

    fn options(&self) -> &external::Options {
        &self.options.agent
    }

    async fn open(&self, turn: &Turn, resume: Option<&str>) -> Result<Opened<Conversation>, MessageError> {
        let root = root(&turn.session, &self.options.closed).map_err(MessageError::unknown)?;
        let directory = root.directory().to_string_lossy();
        Conversation::open(&self.options, &directory, resume.and_then(Note::read)).await
    }

    async fn work(&self, context: Context<'_>, process: &mut Conversation, task: Task<'_>) -> Outcome {
        let turn = context.turn;
        let prepared = tokio::select! {
            biased;
            () = turn.cancelled() => return Outcome::broken(TurnEnd::Cancelled),
            prepared = self.prepare(turn, process) => prepared,
        };
        if let Err(error) = prepared {
            return Outcome::broken(TurnEnd::Error(error));
        }
        if let Task::Prompt(prompt) = task
            && let Some(unsupported) = process.unsupported(prompt)
        {
            let message = format!("{} cannot take these attachments: {unsupported}", self.options.id());
            turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
        }
        let before = process.note();
        let outcome = exchange(&self.options.agent, context, process, task).await;
        let note = process.note();
        if note != before {
            turn.emit(AgentEvent::Noted { name: self.options.id().to_owned(), note }).await;
        }
        outcome
    }
}

/// The rules for an agent: the configured ones, those of its mode, and those of the session.
fn rules(options: &Options, turn: &Turn) -> Vec<Rule> {
    let program = &options.agent.program;
    let mut rules = program.rules.clone();
    match program.mode {
        PermissionMode::Ask | PermissionMode::Bypass => {}
        PermissionMode::AcceptEdits => rules.push(Rule::new("edit", "*", Action::Allow)),
        PermissionMode::Plan => rules.push(Rule::new("edit", "*", Action::Deny)),
    }
    rules.extend(turn.session.permission.iter().flatten().cloned());
    rules
}
