//! Lets plugins change a prompt before it is stored.
//!
//! This happens here and not in the session's actor, for the same reason as [`prepare`](super::prepare): a hook may
//! take long.

use protocol::{
    Message, MessageWithParts, Part, PartBody, Session,
    prompt::{CommandInput, PartInput, PartInputBody, PromptInput},
};

use super::Sessions;
use crate::{
    Error,
    ports::{
        HookPoint, Resolved,
        hooks::{ChatMessage, CommandBefore, CommandParts, Prompted},
    },
    session::stored,
};

impl Sessions {
    /// Lets hooks change a prompt. Returns no runner if they chose another agent or model, which has to be resolved
    /// again.
    pub(super) async fn shape(
        &self,
        session: &Session,
        resolved: Resolved,
        input: PromptInput,
    ) -> (PromptInput, Option<Resolved>) {
        if !resolved.hooks.wants(HookPoint::ChatMessage) {
            return (input, Some(resolved));
        }
        let about = ChatMessage {
            session_id: session.id.clone(),
            agent: input.agent.clone(),
            model: input.model.clone(),
            message_id: input.message_id.clone(),
            variant: input.variant.clone(),
        };
        let mint = &self.shared.mint;
        let draft = stored(input.clone(), &resolved, &session.id, mint.now(), mint);
        let MessageWithParts { info: Message::User(message), parts, .. } = draft else {
            return (input, Some(resolved));
        };
        let id = message.id.clone();
        let before = Prompted { message: *message, parts };
        let limit = self.shared.limits.hook;
        let Prompted { message, parts } = resolved.hooks.change_within(limit, &about, before).await;
        let same = message.agent == resolved.agent && message.model == resolved.model;
        let input = PromptInput {
            message_id: Some(id),
            agent: Some(message.agent),
            model: Some(message.model),
            format: message.format,
            system: message.system,
            tools: message.tools,
            parts: parts.into_iter().filter_map(as_input).collect(),
            ..input
        };
        (input, same.then_some(resolved))
    }

    /// Lets hooks change the prompt that a slash command expands to.
    pub(super) async fn shape_command(
        &self,
        session: &Session,
        input: &CommandInput,
        prompt: PromptInput,
    ) -> Result<PromptInput, Error> {
        let hooks = self.resolve(session, &prompt).await?.hooks;
        if !hooks.wants(HookPoint::CommandBefore) {
            return Ok(prompt);
        }
        let about = CommandBefore {
            command: input.command.clone(),
            session_id: session.id.clone(),
            arguments: input.arguments.clone(),
        };
        let before = CommandParts { parts: prompt.parts };
        let CommandParts { parts } = hooks.change_within(self.shared.limits.hook, &about, before).await;
        Ok(PromptInput { parts, ..prompt })
    }
}

/// Converts a stored part to a prompt's part; `None` for kinds that only answers contain.
fn as_input(part: Part) -> Option<PartInput> {
    let body = match part.body {
        PartBody::Text(text) => PartInputBody::Text(text),
        PartBody::File(file) => PartInputBody::File(file),
        PartBody::Agent(agent) => PartInputBody::Agent(agent),
        PartBody::Subtask(task) => PartInputBody::Subtask(task),
        PartBody::Compaction(compaction) => PartInputBody::Compaction(compaction),
        _ => return None,
    };
    Some(PartInput { id: Some(part.id), body })
}
