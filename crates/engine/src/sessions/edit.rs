//! Changes that a person makes by hand.

use protocol::{
    MessageId, Part, PartId, Session, SessionId, continuation::ContinuationAction, prompt::SessionPatch,
};

use super::Sessions;
use crate::{
    Error,
    session::{Command, Edit},
};

impl Sessions {
    /// Changes title, metadata, rules, archiving, agent, model, or whether turns go on by themselves.
    pub async fn update(&self, id: &SessionId, patch: SessionPatch) -> Result<Session, Error> {
        if patch.agent.is_some() || patch.model.is_some() {
            let SessionPatch { agent, model, .. } = patch.clone();
            let session = self.get(id).await?;
            self.check_names(&Session { agent, model, ..session }).await?;
        }
        self.ask(id, |reply| Command::Update(Box::new(patch), reply)).await?
    }

    /// Stops a session from going on by itself until a person says something new, or lets it again.
    pub async fn continuation(&self, id: &SessionId, action: ContinuationAction) -> Result<Session, Error> {
        self.ask(id, |reply| Command::Continuation(action, reply)).await?
    }

    /// Takes back everything from a message or part on, with what it did to files; not while the session is busy.
    /// The messages are removed when the session goes on.
    pub async fn revert(
        &self,
        id: &SessionId,
        message: MessageId,
        part: Option<PartId>,
    ) -> Result<Session, Error> {
        self.ask(id, |reply| Command::Revert(message, part, reply)).await?
    }

    /// Takes a revert back, if there is one; not while the session is busy.
    pub async fn unrevert(&self, id: &SessionId) -> Result<Session, Error> {
        self.ask(id, Command::Unrevert).await?
    }

    /// Makes a revert final, if there is one: what it took back is removed for good. Not while the session is busy.
    pub async fn settle_revert(&self, id: &SessionId) -> Result<(), Error> {
        self.ask(id, Command::Forget).await?
    }

    /// Removes a message; not while the session is busy.
    pub async fn delete_message(&self, id: &SessionId, message: &MessageId) -> Result<(), Error> {
        self.message(id, message).await?;
        self.edit(id, Edit::RemoveMessage(message.clone())).await
    }

    /// Replaces a part; not while its message is being written.
    pub async fn update_part(&self, id: &SessionId, part: Part) -> Result<Part, Error> {
        self.part(id, &part.message_id, &part.id).await?;
        if part.is_open() {
            return Err(Error::Invalid("a part cannot be opened by hand; give it an end".into()));
        }
        self.edit(id, Edit::ReplacePart(Box::new(part.clone()))).await?;
        Ok(part)
    }

    /// Removes a part; not while its message is being written.
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
