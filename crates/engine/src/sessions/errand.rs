//! Prompts that a person does not write out: slash commands, command lines of their own, and what wakes an agent.

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

/// What a model is told before a command line that a person ran.
const RAN: &str = "The user ran the following command; nothing is asked about it.";

/// The command that keeps a session from going on by itself, unless people have defined another one of that name.
const STOP: &str = "stop";

impl Sessions {
    /// Runs a slash command: what it stands for is submitted and waited for.
    pub async fn command(&self, id: &SessionId, input: CommandInput) -> Result<MessageWithParts, Error> {
        let session = self.get(id).await?;
        let prompt = self.shared.runners.command(&session, &input).await?;
        if input.command == STOP && adds_nothing(&prompt, &input.arguments) {
            return self.stop_going_on(id).await;
        }
        let prompt = self.shape_command(&session, &input, prompt).await?;
        let prompt = self.prepare(id, prompt).await?;
        let origin = Origin::Command { name: input.command, arguments: input.arguments };
        self.errand(id, Prompt { origin: Some(origin), ..prompt }).await
    }

    async fn stop_going_on(&self, id: &SessionId) -> Result<MessageWithParts, Error> {
        self.continuation(id, ContinuationAction::Stop).await?;
        let newest = self.shared.reads.last_answer(id, None).await?;
        newest
            .ok_or_else(|| Error::Invalid("there is nothing to stop: this session has no answer yet".into()))
    }

    /// Runs a command line for a person, as a turn of its own. A busy session refuses.
    pub async fn shell(&self, id: &SessionId, input: ShellInput) -> Result<MessageWithParts, Error> {
        let ShellInput { message_id, agent, model, command, .. } = input;
        let mut prompt = PromptInput { message_id, agent: Some(agent), model, ..PromptInput::text(RAN) };
        mark_synthetic(&mut prompt);
        let origin = Some(Origin::Shell { command });
        self.errand(id, Prompt { origin, ..Prompt::from(prompt) }).await
    }

    /// Opens a turn for an agent that began to work by itself; `why` is for people. Resolves when it is stored for good.
    pub async fn wake(&self, id: &SessionId, why: &str) -> Result<Submitted, Error> {
        let mut prompt = PromptInput { delivery: Some(Delivery::Queue), ..PromptInput::text(why) };
        let session = self.get(id).await?;
        prompt.agent = session.agent;
        mark_synthetic(&mut prompt);
        let prompt = Prompt { origin: Some(Origin::Wake), ..Prompt::from(prompt) };
        self.ask(id, |reply| Command::Submit(Box::new(prompt), reply)).await?
    }

    async fn errand(&self, id: &SessionId, prompt: Prompt) -> Result<MessageWithParts, Error> {
        let submitted = self.ask(id, |reply| Command::Submit(Box::new(prompt), reply)).await??;
        self.finished(id, submitted).await
    }
}

/// No person wrote it.
fn mark_synthetic(prompt: &mut PromptInput) {
    for part in &mut prompt.parts {
        if let PartInputBody::Text(text) = &mut part.body {
            text.synthetic = Some(true);
        }
    }
}

/// Whether what a command stands for is nothing but what was written after it.
fn adds_nothing(prompt: &PromptInput, arguments: &str) -> bool {
    prompt.parts.iter().all(|part| match &part.body {
        PartInputBody::Text(text) => ["", arguments.trim()].contains(&text.text.trim()),
        _ => false,
    })
}
