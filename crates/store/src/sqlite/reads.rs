//! [`Reads`] for the store: each query runs on one of the reading threads.

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
use rusqlite::Connection;

use super::{Sqlite, messages, note, query, search};

impl Sqlite {
    fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.readers.run(query))
    }
}

impl Reads for Sqlite {
    fn session(&self, id: &SessionId) -> StoreFuture<'_, Option<(Session, u64)>> {
        let id = id.clone();
        self.read(move |connection| query::session(connection, &id))
    }

    fn workspace(&self, session: &SessionId) -> StoreFuture<'_, Option<WorkspaceId>> {
        let session = session.clone();
        self.read(move |connection| query::workspace(connection, &session))
    }

    fn sessions(&self, listing: Listing) -> StoreFuture<'_, Vec<Session>> {
        self.read(move |connection| query::sessions(connection, &listing))
    }

    fn messages(&self, session: &SessionId, page: Page) -> StoreFuture<'_, Vec<MessageWithParts>> {
        let session = session.clone();
        self.read(move |connection| query::messages(connection, &session, &page))
    }

    fn stretch(&self, session: &SessionId, stretch: Stretch) -> StoreFuture<'_, Vec<Record>> {
        let session = session.clone();
        let bulk = stretch.bulk;
        let query = move |connection: &Connection| messages::stretch(connection, &session, &stretch);
        if bulk { Box::pin(self.readers.run_bulk(query)) } else { self.read(query) }
    }

    fn nth_before(
        &self,
        session: &SessionId,
        before: Option<Cursor>,
        count: usize,
    ) -> StoreFuture<'_, Option<Cursor>> {
        let session = session.clone();
        self.read(move |connection| messages::nth_before(connection, &session, before.as_ref(), count))
    }

    fn nth_after(&self, session: &SessionId, after: Cursor, count: usize) -> StoreFuture<'_, Option<Cursor>> {
        let session = session.clone();
        self.read(move |connection| messages::nth_after(connection, &session, &after, count))
    }

    fn newest_summary(&self, session: &SessionId) -> StoreFuture<'_, Option<Cursor>> {
        let session = session.clone();
        // Without a summary, this scans every message of the session.
        Box::pin(self.readers.run_bulk(move |connection| messages::newest_summary(connection, &session)))
    }

    fn message(&self, session: &SessionId, id: &MessageId) -> StoreFuture<'_, Option<MessageWithParts>> {
        let (session, id) = (session.clone(), id.clone());
        self.read(move |connection| query::message(connection, &session, &id))
    }

    fn part(&self, session: &SessionId, message: &MessageId, id: &PartId) -> StoreFuture<'_, Option<Part>> {
        let (session, message, id) = (session.clone(), message.clone(), id.clone());
        self.read(move |connection| query::part(connection, &session, &message, &id))
    }

    fn open(&self, session: &SessionId) -> StoreFuture<'_, Vec<MessageWithParts>> {
        let session = session.clone();
        self.read(move |connection| query::open(connection, &session))
    }

    fn last_answer(
        &self,
        session: &SessionId,
        prompt: Option<&MessageId>,
    ) -> StoreFuture<'_, Option<MessageWithParts>> {
        let (session, prompt) = (session.clone(), prompt.cloned());
        self.read(move |connection| query::last_answer(connection, &session, prompt.as_ref()))
    }

    fn todos(&self, session: &SessionId) -> StoreFuture<'_, Vec<Todo>> {
        let session = session.clone();
        self.read(move |connection| query::todos(connection, &session))
    }

    fn statuses(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<(SessionId, SessionStatus)>> {
        let workspace = workspace.cloned();
        self.read(move |connection| query::statuses(connection, workspace.as_ref()))
    }

    fn requests(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<Request>> {
        let workspace = workspace.cloned();
        self.read(move |connection| query::requests(connection, workspace.as_ref()))
    }

    fn status(&self, session: &SessionId) -> StoreFuture<'_, Option<SessionStatus>> {
        let session = session.clone();
        self.read(move |connection| query::status(connection, &session))
    }

    fn requests_of(&self, session: &SessionId) -> StoreFuture<'_, Vec<Request>> {
        let session = session.clone();
        self.read(move |connection| query::requests_of(connection, &session))
    }

    fn approvals(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<Approval>> {
        let workspace = workspace.cloned();
        self.read(move |connection| query::approvals(connection, workspace.as_ref()))
    }

    fn prompts(&self, session: &SessionId) -> StoreFuture<'_, Vec<OpenPrompt>> {
        let session = session.clone();
        self.read(move |connection| query::prompts(connection, &session))
    }

    fn is_withdrawn(&self, session: &SessionId, prompt: &MessageId) -> StoreFuture<'_, bool> {
        let (session, prompt) = (session.clone(), prompt.clone());
        self.read(move |connection| query::is_withdrawn(connection, &session, &prompt))
    }

    fn find(&self, search: Search) -> StoreFuture<'_, Vec<Found>> {
        self.read(move |connection| search::find(connection, &search))
    }

    fn unfinished(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<SessionId>> {
        let workspace = workspace.cloned();
        self.read(move |connection| query::unfinished(connection, workspace.as_ref()))
    }

    fn replay(&self, span: Span) -> StoreFuture<'_, Vec<Stored>> {
        self.read(move |connection| query::replay(connection, &span))
    }

    fn events(&self, session: &SessionId, after: u64, limit: usize) -> StoreFuture<'_, Vec<(u64, Bytes)>> {
        let session = session.clone();
        self.read(move |connection| query::events(connection, &session, after, limit))
    }

    fn bounds(&self) -> StoreFuture<'_, (u64, u64)> {
        self.read(query::bounds)
    }

    fn notes(&self) -> StoreFuture<'_, BTreeMap<String, ProjectNote>> {
        self.read(note::all)
    }

    fn count(&self) -> StoreFuture<'_, u64> {
        self.read(query::count)
    }
}
