//! Reading, with the words of open parts filled in.

use std::collections::BTreeMap;

use protocol::{
    MessageId, MessageWithParts, Session, SessionId, SessionStatus, Todo,
    request::{PermissionRequest, QuestionRequest, Request},
};

use super::Sessions;
use crate::{
    Error,
    ports::{Listing, Page},
};

impl Sessions {
    /// Sessions, most recently updated first.
    pub async fn list(&self, listing: Listing) -> Result<Vec<Session>, Error> {
        Ok(self.shared.reads.sessions(listing).await?)
    }

    /// Children of a session.
    pub async fn children(&self, id: &SessionId) -> Result<Vec<Session>, Error> {
        self.list(Listing { parent: Some(id.clone()), ..Listing::default() }).await
    }

    /// A page of messages, oldest first. Text that is still streaming is complete up to this moment.
    pub async fn messages(&self, id: &SessionId, page: Page) -> Result<Vec<MessageWithParts>, Error> {
        self.get(id).await?;
        let mut messages = self.shared.reads.messages(id, page).await?;
        for message in &mut messages {
            self.fill(message);
        }
        Ok(messages)
    }

    /// One message.
    pub async fn message(&self, id: &SessionId, message: &MessageId) -> Result<MessageWithParts, Error> {
        self.get(id).await?;
        let found = self.shared.reads.message(id, message).await?;
        let mut found = found.ok_or_else(|| Error::NotFound { kind: "Message", id: message.to_string() })?;
        self.fill(&mut found);
        Ok(found)
    }

    fn fill(&self, message: &mut MessageWithParts) {
        for part in message.parts.iter_mut().filter(|part| part.is_open()) {
            if let Some(text) = self.shared.bus.open_text(&part.id) {
                part.set_text(text);
            }
        }
    }

    /// The todo list.
    pub async fn todos(&self, id: &SessionId) -> Result<Vec<Todo>, Error> {
        self.get(id).await?;
        Ok(self.shared.reads.todos(id).await?)
    }

    /// Every session that is not idle, of one directory or of all.
    pub async fn statuses(
        &self,
        directory: Option<&str>,
    ) -> Result<BTreeMap<SessionId, SessionStatus>, Error> {
        let statuses = self.shared.reads.statuses().await?;
        let wanted =
            statuses.into_iter().filter(|(_, at, _)| directory.is_none_or(|directory| **at == *directory));
        Ok(wanted.map(|(id, _, status)| (id, status)).collect())
    }

    /// Permissions that wait for a person.
    pub async fn permissions(&self, directory: Option<&str>) -> Result<Vec<PermissionRequest>, Error> {
        let permission = |request| match request {
            Request::Permission(request) => Some(request),
            Request::Question(_) => None,
        };
        Ok(self.requests(directory).await?.into_iter().filter_map(permission).collect())
    }

    /// Questions that wait for a person.
    pub async fn questions(&self, directory: Option<&str>) -> Result<Vec<QuestionRequest>, Error> {
        let question = |request| match request {
            Request::Question(request) => Some(request),
            Request::Permission(_) => None,
        };
        Ok(self.requests(directory).await?.into_iter().filter_map(question).collect())
    }

    async fn requests(&self, directory: Option<&str>) -> Result<Vec<Request>, Error> {
        let requests = self.shared.reads.requests().await?;
        let wanted =
            requests.into_iter().filter(|(at, _)| directory.is_none_or(|directory| **at == *directory));
        Ok(wanted.map(|(_, request)| request).collect())
    }
}
