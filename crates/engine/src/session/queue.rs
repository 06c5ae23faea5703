//! Changes that clients make to waiting prompts. The actor decides them, so a change never races with the start of the
//! prompt: either the change is stored before the prompt starts, or the client learns that it has started.

use protocol::{
    EndReason, EventBody, MessageId, MessageWithParts, PartBody,
    event::{PartInfo, QueueChanged, SessionFailed},
    prompt::{Delivery, PartInput},
    queue::{QueuePatch, QueuedPrompt, Waiting},
};

use super::{actor::Actor, command::Requeue, run::Running, submit::stored_parts};
use crate::Error;

impl Actor {
    /// Changes the content, delivery or position of a waiting prompt, in one commit.
    pub(super) async fn requeue(&mut self, change: Requeue) -> Result<QueuedPrompt, Error> {
        let Requeue { prompt, patch: QueuePatch { parts, delivery, position, .. }, warnings } = change;
        let mut message = self.waiting_message(&prompt).await?;
        if let Some(parts) = parts {
            self.replace_parts(&mut message, parts)?;
        }
        for warning in warnings {
            let (session_id, error) = (Some(self.session.id.clone()), Some(warning));
            self.unsaved.push(EventBody::SessionError(SessionFailed::new(session_id, error)));
        }
        let (life, before) = (self.life.clone(), self.queue());
        self.life.rearrange(&prompt, delivery, position);
        let queue = self.queue();
        if queue != before {
            let changed = QueueChanged::new(self.session.id.clone(), queue);
            self.unsaved.push(EventBody::QueueUpdated(changed));
        }
        if let Err(error) = self.save(true).await {
            self.life = life;
            return Err(error);
        }
        let delivery = self.delivery_of(&prompt).unwrap_or_default();
        if delivery == Delivery::Steer {
            // An agent that takes prompts up at once has to learn that this one may join now.
            self.run.iter().for_each(Running::knock);
        }
        self.described(message, delivery)
    }

    /// Ends a waiting prompt and removes its message, in one commit, so that no model ever reads it.
    pub(super) async fn withdraw_prompt(&mut self, prompt: MessageId) -> Result<QueuedPrompt, Error> {
        let message = self.waiting_message(&prompt).await?;
        let withdrawn = self.described(message, self.delivery_of(&prompt).unwrap_or_default())?;
        self.push_prompt_ended(prompt.clone(), EndReason::Withdrawn);
        self.push_message_removed(prompt.clone());
        self.save(true).await?;
        self.counting(|life| life.withdraw(&prompt));
        self.resolved.remove(&prompt);
        self.commands.remove(&prompt);
        self.invocations.remove(&prompt);
        for waiter in self.prompt_waiters.remove(&prompt).into_iter().flatten() {
            let _ = waiter.send(EndReason::Withdrawn);
        }
        Ok(withdrawn)
    }

    fn queue(&self) -> Vec<Waiting> {
        self.life.queue().map(|(prompt, delivery)| Waiting::new(prompt.clone(), delivery)).collect()
    }

    fn delivery_of(&self, prompt: &MessageId) -> Option<Delivery> {
        self.life.queue().find(|(waiting, _)| *waiting == prompt).map(|(_, delivery)| delivery)
    }

    /// The message of a waiting prompt.
    async fn waiting_message(&self, prompt: &MessageId) -> Result<MessageWithParts, Error> {
        if self.shared().registry.is_closed() {
            return Err(Error::Closing);
        }
        let message = self.shared().reads.message(&self.session.id, prompt).await?;
        match message {
            Some(message) if self.delivery_of(prompt).is_some() => Ok(message),
            Some(_) => Err(Error::Started(prompt.clone())),
            None => Err(Error::NotFound { kind: "Prompt", id: prompt.to_string() }),
        }
    }

    /// Queues the events that replace the content of a message. Parts are sorted by id, so all get new ones.
    fn replace_parts(&mut self, message: &mut MessageWithParts, parts: Vec<PartInput>) -> Result<(), Error> {
        if message.parts.iter().any(|part| matches!(part.body, PartBody::Compaction(_))) {
            return Err(Error::Invalid("a request for a summary has no content to change".into()));
        }
        let (session_id, prompt) = (self.session.id.clone(), message.info.id().clone());
        let parts = parts.into_iter().map(|part| PartInput { id: None, ..part }).collect();
        let (parts, now) =
            (stored_parts(parts, &session_id, &prompt, &self.shared().mint), self.shared().mint.now());
        for old in std::mem::replace(&mut message.parts, parts) {
            self.push_part_removed(prompt.clone(), old.id);
        }
        for part in &message.parts {
            let info = PartInfo::new(session_id.clone(), part.clone(), now);
            self.unsaved.push(EventBody::PartUpdated(info));
        }
        Ok(())
    }

    fn described(&self, message: MessageWithParts, delivery: Delivery) -> Result<QueuedPrompt, Error> {
        let id = message.info.id().clone();
        QueuedPrompt::new(message, delivery).ok_or(Error::Started(id))
    }
}
