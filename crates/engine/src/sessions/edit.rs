//! Changes that clients make to stored sessions and messages.

use protocol::{
    MessageId, Part, PartId, Session, SessionId, continuation::ContinuationAction, prompt::SessionPatch,
};

use super::Sessions;
use crate::{
    Error,
    session::{Command, Edit},
};

impl Sessions {
    /// Changes title, metadata, rules, archiving, agent, model, or whether turns continue by themselves.
    pub async fn update(&self, id: &SessionId, patch: SessionPatch) -> Result<Session, Error> {
        if patch.agent.is_some() || patch.model.is_some() {
            let SessionPatch { agent, model, .. } = patch.clone();
            let session = self.get(id).await?;
            self.check_names(&Session { agent, model, ..session }).await?;
        }
        self.ask(id, |reply| Command::Update(Box::new(patch), reply)).await?
    }

    /// Stores the position in the log up to which the user has seen a session. It does not count as a change of the
    /// session: its time and its place in lists stay.
    pub async fn mark_seen(&self, id: &SessionId, cursor: u64) -> Result<(), Error> {
        let (_, newest) = self.shared.reads.bounds().await?;
        if cursor > newest {
            return Err(Error::Invalid(format!(
                "cursor: the newest event is {newest}, so {cursor} cannot have been seen"
            )));
        }
        self.ask(id, |reply| Command::Seen(cursor, reply)).await?
    }

    /// Stops continuations until the user's next prompt, or allows them again.
    pub async fn continuation(&self, id: &SessionId, action: ContinuationAction) -> Result<Session, Error> {
        self.ask(id, |reply| Command::Continuation(action, reply)).await?
    }

    /// Reverts everything from a message or part on, including file changes. Fails while the session is busy. The
    /// messages are deleted with the next prompt.
    pub async fn revert(
        &self,
        id: &SessionId,
        message: MessageId,
        part: Option<PartId>,
    ) -> Result<Session, Error> {
        self.ask(id, |reply| Command::Revert(message, part, reply)).await?
    }

    /// Undoes a revert, if there is one. Fails while the session is busy.
    pub async fn unrevert(&self, id: &SessionId) -> Result<Session, Error> {
        self.ask(id, Command::Unrevert).await?
    }

    /// Makes a revert final, if there is one, by deleting the reverted messages. Fails while the session is busy.
    pub async fn settle_revert(&self, id: &SessionId) -> Result<(), Error> {
        self.ask(id, Command::Forget).await?
    }

    /// Removes a message. Fails while the session is busy.
    pub async fn delete_message(&self, id: &SessionId, message: &MessageId) -> Result<(), Error> {
        self.message(id, message).await?;
        self.edit(id, Edit::RemoveMessage(message.clone())).await
    }

    /// Replaces a part. Fails while its message is being written.
    pub async fn update_part(&self, id: &SessionId, part: Part) -> Result<Part, Error> {
        self.part(id, &part.message_id, &part.id).await?;
        if part.is_open() {
            return Err(Error::Invalid("a client cannot open a part; set its end time".into()));
        }
        self.edit(id, Edit::ReplacePart(Box::new(part.clone()))).await?;
        Ok(part)
    }

    /// Removes a part. Fails while its message is being written.
    pub async fn delete_part(&self, id: &SessionId, message: &MessageId, part: &PartId) -> Result<(), Error> {
        self.part(id, message, part).await?;
        self.edit(id, Edit::RemovePart(message.clone(), part.clone())).await
    }

    async fn part(&self, id: &SessionId, message: &MessageId, part: &PartId) -> Result<Part, Error> {
        self.get(id).await?;
        let found = self.shared.reads.part(id, message, part).await?;
        found.ok_or_else(|| Error::NotFound { kind: "Part", id: part.to_string() })
    }

    async fn edit(&self, id: &SessionId, edit: Edit) -> Result<(), Error> {
        self.ask(id, |reply| Command::Edit(edit, reply)).await?
    }
}
