//! The queue of a session: its waiting prompts, and the changes that clients make to them.

use protocol::{
    Message, MessageError, MessageId, SessionId,
    prompt::{PartInput, PromptInput},
    queue::{QueuePatch, QueuedPrompt},
};

use super::Sessions;
use crate::{
    Error,
    limits::MAX_PARTS,
    session::{Command, Requeue},
};

impl Sessions {
    /// The waiting prompts in the order in which turns take them up.
    pub async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedPrompt>, Error> {
        self.get(id).await?;
        let open = self.shared.reads.prompts(id).await?;
        let mut queue = Vec::new();
        for prompt in open.into_iter().filter(|prompt| !prompt.started) {
            // A prompt that was withdrawn since the list was read has no message.
            let message = self.shared.reads.message(id, &prompt.message).await?;
            queue.extend(message.and_then(|message| QueuedPrompt::new(message, prompt.delivery)));
        }
        Ok(queue)
    }

    /// Changes a waiting prompt. Resolves after the change is stored durably. Fails if a turn has taken the prompt up.
    pub async fn requeue(
        &self,
        id: &SessionId,
        prompt: MessageId,
        mut patch: QueuePatch,
    ) -> Result<QueuedPrompt, Error> {
        let mut warnings = Vec::new();
        if let Some(parts) = patch.parts.take() {
            let (parts, told) = self.prepare_parts(id, &prompt, parts).await?;
            (patch.parts, warnings) = (Some(parts), told);
        }
        let change = Requeue { prompt, patch, warnings };
        self.ask(id, |reply| Command::Requeue(Box::new(change), reply)).await?
    }

    /// Ends a waiting prompt without running it, and returns its content. Resolves after that is stored durably. Fails
    /// if a turn has taken the prompt up.
    pub async fn withdraw(&self, id: &SessionId, prompt: MessageId) -> Result<QueuedPrompt, Error> {
        self.ask(id, |reply| Command::Withdraw(prompt, reply)).await?
    }

    /// Completes the new parts of a waiting prompt as those of a new one.
    async fn prepare_parts(
        &self,
        id: &SessionId,
        prompt: &MessageId,
        parts: Vec<PartInput>,
    ) -> Result<(Vec<PartInput>, Vec<MessageError>), Error> {
        let count = parts.len();
        if count == 0 || count > MAX_PARTS {
            return Err(Error::Invalid(format!(
                "a prompt needs 1 to {MAX_PARTS} parts, this one has {count}; to remove a prompt, withdraw it"
            )));
        }
        let session = self.get(id).await?;
        let missing = || Error::NotFound { kind: "Prompt", id: prompt.to_string() };
        let message = self.shared.reads.message(id, prompt).await?.ok_or_else(missing)?;
        let Message::User(user) = message.info else { return Err(Error::Started(prompt.clone())) };
        let mut input = PromptInput {
            message_id: Some(prompt.clone()),
            agent: Some(user.agent),
            model: Some(user.model),
            parts,
            ..PromptInput::text("")
        };
        let resolved = self.resolve(&session, &input).await?;
        let warnings = self.complete(&session, &resolved, &mut input).await?;
        // Plugins may change the parts; the agent and the model stay as they were accepted.
        let (input, _) = self.shape(&session, resolved, input).await;
        Ok((input.parts, warnings))
    }
}
