//! Prompts that the user does not type: slash commands, command lines and wake-ups of agents.

use protocol::{
    MessageWithParts, SessionId,
    continuation::ContinuationAction,
    message::Origin,
    prompt::{CommandInput, Delivery, PartInputBody, PromptInput, ShellInput},
};

use super::{Sessions, Submitted};
use crate::{
    Error,
    session::{Command, Prompt},
};

/// The text that precedes the user's command line in the conversation.
const RAN: &str = "The user ran the following command; nothing is asked about it.";

/// The built-in command that stops continuations, unless the user has defined a command of that name.
const STOP: &str = "stop";

impl Sessions {
    /// Expands a slash command, submits the prompt and waits for its answer.
    pub async fn command(&self, id: &SessionId, input: CommandInput) -> Result<MessageWithParts, Error> {
        let session = self.get(id).await?;
        let prompt = self.shared.runners.command(&session, &input).await?;
        if input.command == STOP && adds_nothing(&prompt, &input.arguments) {
            return self.stop_going_on(id).await;
        }
        let prompt =
            PromptInput { sender: input.sender, ..self.shape_command(&session, &input, prompt).await? };
        let prompt = self.prepare(id, prompt).await?;
        let origin = Origin::Command { name: input.command, arguments: input.arguments };
        self.invoke(id, Prompt { origin: Some(origin), ..prompt }).await
    }

    async fn stop_going_on(&self, id: &SessionId) -> Result<MessageWithParts, Error> {
        self.continuation(id, ContinuationAction::Stop).await?;
        let newest = self.shared.reads.last_answer(id, None).await?;
        newest
            .ok_or_else(|| Error::Invalid("there is nothing to stop: this session has no answer yet".into()))
    }

    /// Runs a command line of the user as a turn of its own. Fails if the session is busy.
    pub async fn shell(&self, id: &SessionId, input: ShellInput) -> Result<MessageWithParts, Error> {
        let ShellInput { message_id, agent, model, command, .. } = input;
        let mut prompt = PromptInput { message_id, agent: Some(agent), model, ..PromptInput::text(RAN) };
        mark_synthetic(&mut prompt);
        let origin = Some(Origin::Shell { command });
        self.invoke(id, Prompt { origin, ..Prompt::from(prompt) }).await
    }

    /// Opens a turn for an agent that started working by itself; `why` is shown to users. Resolves when it is
    /// stored durably.
    pub async fn wake(&self, id: &SessionId, why: &str) -> Result<Submitted, Error> {
        let mut prompt = PromptInput { delivery: Some(Delivery::Queue), ..PromptInput::text(why) };
        let session = self.get(id).await?;
        prompt.agent = session.agent;
        mark_synthetic(&mut prompt);
        let prompt = Prompt { origin: Some(Origin::Wake), ..Prompt::from(prompt) };
        self.ask(id, |reply| Command::Submit(Box::new(prompt), reply)).await?
    }

    async fn invoke(&self, id: &SessionId, prompt: Prompt) -> Result<MessageWithParts, Error> {
        let submitted = self.ask(id, |reply| Command::Submit(Box::new(prompt), reply)).await??;
        self.finished(id, submitted).await
    }
}

/// Marks the text as not written by the user.
fn mark_synthetic(prompt: &mut PromptInput) {
    for part in &mut prompt.parts {
        if let PartInputBody::Text(text) = &mut part.body {
            text.synthetic = Some(true);
        }
    }
}

/// Returns true if the command's expansion is empty or only its arguments.
fn adds_nothing(prompt: &PromptInput, arguments: &str) -> bool {
    prompt.parts.iter().all(|part| match &part.body {
        PartInputBody::Text(text) => ["", arguments.trim()].contains(&text.text.trim()),
        _ => false,
    })
}
