//! [`Reads`] for the store: each query runs on one of the reading connections.

use std::collections::BTreeMap;

use bytes::Bytes;
use engine::ports::{
    Cursor, Found, Listing, OpenPrompt, Page, Reads, Record, Search, Span, StoreFuture, Stored, Stretch,
};
use protocol::{
    MessageId, MessageWithParts, Part, PartId, Session, SessionId, SessionStatus, Todo, WorkspaceId,
    project::ProjectNote,
    request::{Approval, Request},
};

use super::{Postgres, messages, note, query};

/// Runs a query on a reading connection. `$client` is the connection; the arguments are cloned into the future.
macro_rules! read {
    ($store:ident, $query:path $(, $argument:expr)*) => { read!($store, bulk false, $query $(, $argument)*) };
    ($store:ident, bulk $bulk:expr, $query:path $(, $argument:expr)*) => {
        Box::pin(async move {
            let lease = $store.readers.take($bulk).await?;
            let answer = lease.answer($query(&lease.client $(, $argument)*)).await;
            lease.finish(answer)
        })
    };
}

impl Reads for Postgres {
    fn session(&self, id: &SessionId) -> StoreFuture<'_, Option<(Session, u64)>> {
        let id = id.clone();
        read!(self, query::session, &id)
    }

    fn workspace(&self, session: &SessionId) -> StoreFuture<'_, Option<WorkspaceId>> {
        let session = session.clone();
        read!(self, query::workspace, &session)
    }

    fn sessions(&self, listing: Listing) -> StoreFuture<'_, Vec<Session>> {
        read!(self, query::sessions, &listing)
    }

    fn count(&self) -> StoreFuture<'_, u64> {
        read!(self, query::sessions_count)
    }

    fn notes(&self) -> StoreFuture<'_, BTreeMap<String, ProjectNote>> {
        read!(self, note::all)
    }

    fn messages(&self, session: &SessionId, page: Page) -> StoreFuture<'_, Vec<MessageWithParts>> {
        let session = session.clone();
        read!(self, messages::messages, &session, &page)
    }

    fn stretch(&self, session: &SessionId, stretch: Stretch) -> StoreFuture<'_, Vec<Record>> {
        let session = session.clone();
        read!(self, bulk stretch.bulk, messages::stretch, &session, &stretch)
    }

    fn nth_before(
        &self,
        session: &SessionId,
        before: Option<Cursor>,
        count: usize,
    ) -> StoreFuture<'_, Option<Cursor>> {
        let session = session.clone();
        read!(self, messages::nth_before, &session, before.as_ref(), count)
    }

    fn nth_after(&self, session: &SessionId, after: Cursor, count: usize) -> StoreFuture<'_, Option<Cursor>> {
        let session = session.clone();
        read!(self, messages::nth_after, &session, &after, count)
    }

    fn newest_summary(&self, session: &SessionId) -> StoreFuture<'_, Option<Cursor>> {
        let session = session.clone();
        // Without a summary, this scans every message of the session.
        read!(self, bulk true, messages::newest_summary, &session)
    }

    fn message(&self, session: &SessionId, id: &MessageId) -> StoreFuture<'_, Option<MessageWithParts>> {
        let (session, id) = (session.clone(), id.clone());
        read!(self, messages::message, &session, &id)
    }

    fn part(&self, session: &SessionId, message: &MessageId, id: &PartId) -> StoreFuture<'_, Option<Part>> {
        let (session, message, id) = (session.clone(), message.clone(), id.clone());
        read!(self, query::part, &session, &message, &id)
    }

    fn open(&self, session: &SessionId) -> StoreFuture<'_, Vec<MessageWithParts>> {
        let session = session.clone();
        read!(self, messages::open, &session)
    }

    fn last_answer(
        &self,
        session: &SessionId,
        prompt: Option<&MessageId>,
    ) -> StoreFuture<'_, Option<MessageWithParts>> {
        let (session, prompt) = (session.clone(), prompt.cloned());
        read!(self, messages::last_answer, &session, prompt.as_ref())
    }

    fn todos(&self, session: &SessionId) -> StoreFuture<'_, Vec<Todo>> {
        let session = session.clone();
        read!(self, query::todos, &session)
    }

    fn statuses(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<(SessionId, SessionStatus)>> {
        let workspace = workspace.cloned();
        read!(self, query::statuses, workspace.as_ref())
    }

    fn status(&self, session: &SessionId) -> StoreFuture<'_, Option<SessionStatus>> {
        let session = session.clone();
        read!(self, query::status, &session)
    }

    fn requests(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<Request>> {
        let workspace = workspace.cloned();
        read!(self, query::requests, workspace.as_ref())
    }

    fn requests_of(&self, session: &SessionId) -> StoreFuture<'_, Vec<Request>> {
        let session = session.clone();
        read!(self, query::requests_of, &session)
    }

    fn approvals(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<Approval>> {
        let workspace = workspace.cloned();
        read!(self, query::approvals, workspace.as_ref())
    }

    fn prompts(&self, session: &SessionId) -> StoreFuture<'_, Vec<OpenPrompt>> {
        let session = session.clone();
        read!(self, query::prompts, &session)
    }

    fn is_withdrawn(&self, session: &SessionId, prompt: &MessageId) -> StoreFuture<'_, bool> {
        let (session, prompt) = (session.clone(), prompt.clone());
        read!(self, query::is_withdrawn, &session, &prompt)
    }

    fn find(&self, search: Search) -> StoreFuture<'_, Vec<Found>> {
        read!(self, messages::find, &search)
    }

    fn unfinished(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<SessionId>> {
        let workspace = workspace.cloned();
        read!(self, query::unfinished, workspace.as_ref())
    }

    fn replay(&self, span: Span) -> StoreFuture<'_, Vec<Stored>> {
        read!(self, query::replay, &span)
    }

    fn events(&self, session: &SessionId, after: u64, limit: usize) -> StoreFuture<'_, Vec<(u64, Bytes)>> {
        let session = session.clone();
        read!(self, query::events, &session, after, limit)
    }

    fn bounds(&self) -> StoreFuture<'_, (u64, u64)> {
        read!(self, query::bounds)
    }
}
