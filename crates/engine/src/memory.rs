//! The log and its tables in memory: for tests, for simulations, and as the readable reference for backends.
//! `memory/tables.rs` defines the projection of events to tables, [`faults`] the failures that a simulation can
//! cause.

pub mod faults;
mod messages;
mod outbox;
mod search;
mod tables;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures::{FutureExt, future};
use protocol::{
    ApprovalId, MessageId, MessageWithParts, Part, PartId, Session, SessionId, SessionStatus, Todo,
    WorkspaceId,
    project::ProjectNote,
    request::{Approval, Request},
};

pub use faults::{Fault, Faults};
use outbox::Waiting;
use tables::Tables;

use crate::ports::{
    Alone, Appended, Commit, Cursor, Error, Fence, Found, Listing, Log, Observer, OpenPrompt, Page, Reads,
    Record, Search, Span, StoreFailure, StoreFuture, Stored, Stretch,
};

/// A log that loses everything when the last handle is dropped.
pub struct Memory {
    shared: Arc<Mutex<Shared>>,
    observer: Arc<dyn Observer>,
    faults: Faults,
    /// The opening of the log that this handle belongs to; see [`Memory::reopen`].
    opening: u64,
}

struct Shared {
    tables: Tables,
    outbox: Waiting,
    opening: u64,
    commits: u64,
    /// Epochs of workspaces that have changed their owner.
    epochs: BTreeMap<WorkspaceId, u64>,
}

impl Shared {
    fn check(&self, fence: &Fence) -> Result<(), Error> {
        let epoch = self.epochs.get(&fence.workspace).copied().unwrap_or(Alone::EPOCH);
        if epoch == fence.epoch {
            return Ok(());
        }
        let message = format!("{} is in epoch {epoch}, the writer in {}", fence.workspace, fence.epoch);
        Err(Error::new(StoreFailure::Fenced, message))
    }
}

impl Memory {
    /// Creates an empty log.
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        let shared = Shared {
            tables: Tables::default(),
            outbox: Waiting::default(),
            opening: 0,
            commits: 0,
            epochs: BTreeMap::new(),
        };
        Self { shared: Arc::new(Mutex::new(shared)), observer, faults: Faults::default(), opening: 0 }
    }

    /// Opens the same log as a restarted process does. The old handle is dead from now on: its writes fail, as
    /// after `kill -9`.
    #[must_use]
    pub fn reopen(&self, observer: Arc<dyn Observer>) -> Self {
        let mut shared = self.lock();
        shared.opening += 1;
        Self {
            shared: Arc::clone(&self.shared),
            observer,
            faults: Faults::default(),
            opening: shared.opening,
        }
    }

    /// The failures that this log simulates.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The number of commits so far, for tests of how much is stored at once.
    pub fn commits(&self) -> u64 {
        self.lock().commits
    }

    /// Gives a workspace to another owner: writers of the present epoch are fenced from now on.
    pub fn change_owner(&self, workspace: &WorkspaceId) {
        *self.lock().epochs.entry(workspace.clone()).or_insert(Alone::EPOCH) += 1;
    }

    /// Removes the log's events up to a position, as retention does.
    pub fn trim(&self, upto: u64) {
        self.lock().tables.trim(upto);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Tables change only after a commit passed its checks, so a panic elsewhere leaves them consistent.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, change: impl FnOnce(&mut Shared) -> Result<T, Error>) -> Result<T, Error> {
        if let Some(failure) = self.faults.outage() {
            return Err(Error::new(failure, "simulated outage: every write is refused"));
        }
        let mut shared = self.lock();
        if shared.opening == self.opening {
            change(&mut shared)
        } else {
            Err(Error::new(StoreFailure::Unavailable, "another process has opened the log"))
        }
    }

    /// Reads when it is called, not when the answer is awaited; only [`Faults::slow_reads`] delays the answer.
    fn read<T: Send + 'static>(&self, query: impl FnOnce(&Tables) -> T) -> StoreFuture<'_, T> {
        let found = query(&self.lock().tables);
        let delay = self.faults.read_delay();
        if delay.is_zero() {
            return future::ready(Ok(found)).boxed();
        }
        async move {
            tokio::time::sleep(delay).await;
            Ok(found)
        }
        .boxed()
    }
}

impl Log for Memory {
    fn append_all(&self, commits: Vec<Commit>) -> StoreFuture<'_, Appended> {
        Box::pin(async move {
            let fault = self.faults.take();
            match fault {
                Some(Fault::Refuse(failure)) => {
                    return Err(Error::new(failure, "simulated fault: the commit was refused"));
                }
                Some(Fault::Delay(delay)) => tokio::time::sleep(delay).await,
                _ => {}
            }
            let appended = self.write(|shared| {
                commits.iter().try_for_each(|commit| shared.check(&commit.fence))?;
                let (appended, events) = shared.tables.append(commits)?;
                shared.commits += 1;
                // Still under the lock: the order of publication is the order of the log.
                if !events.is_empty() {
                    self.observer.committed(events);
                }
                Ok(appended)
            })?;
            match fault {
                Some(Fault::LoseAcknowledgement) => Err(Error::new(
                    StoreFailure::Unavailable,
                    "simulated fault: the acknowledgement was lost",
                )),
                Some(Fault::DelayAcknowledgement(delay)) => {
                    tokio::time::sleep(delay).await;
                    Ok(appended)
                }
                _ => Ok(appended),
            }
        })
    }

    fn checkpoint(&self, fence: Fence, parts: Vec<Part>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.write(|shared| {
                shared.check(&fence)?;
                shared.tables.checkpoint(parts);
                Ok(())
            })
        })
    }

    fn note(&self, project: &str, newer: ProjectNote) -> StoreFuture<'_, ProjectNote> {
        let project = project.to_owned();
        Box::pin(async move { self.write(|shared| Ok(shared.tables.note(project, newer))) })
    }

    fn forget(&self, approval: &ApprovalId) -> StoreFuture<'_, bool> {
        let approval = approval.clone();
        Box::pin(async move { self.write(|shared| Ok(shared.tables.forget(&approval))) })
    }
}

impl Reads for Memory {
    fn session(&self, id: &SessionId) -> StoreFuture<'_, Option<(Session, u64)>> {
        self.read(|tables| tables.session(id))
    }

    fn workspace(&self, session: &SessionId) -> StoreFuture<'_, Option<WorkspaceId>> {
        self.read(|tables| tables.workspace(session))
    }

    fn sessions(&self, listing: Listing) -> StoreFuture<'_, Vec<Session>> {
        self.read(|tables| tables.sessions(&listing))
    }

    fn messages(&self, session: &SessionId, page: Page) -> StoreFuture<'_, Vec<MessageWithParts>> {
        self.read(|tables| tables.messages(session, &page))
    }

    fn stretch(&self, session: &SessionId, stretch: Stretch) -> StoreFuture<'_, Vec<Record>> {
        future::ready(self.lock().tables.stretch(session, &stretch)).boxed()
    }

    fn nth_before(
        &self,
        session: &SessionId,
        before: Option<Cursor>,
        count: usize,
    ) -> StoreFuture<'_, Option<Cursor>> {
        self.read(|tables| tables.nth_before(session, before.as_ref(), count))
    }

    fn nth_after(&self, session: &SessionId, after: Cursor, count: usize) -> StoreFuture<'_, Option<Cursor>> {
        self.read(|tables| tables.nth_after(session, &after, count))
    }

    fn newest_summary(&self, session: &SessionId) -> StoreFuture<'_, Option<Cursor>> {
        self.read(|tables| tables.newest_summary(session))
    }

    fn message(&self, session: &SessionId, id: &MessageId) -> StoreFuture<'_, Option<MessageWithParts>> {
        self.read(|tables| tables.message(session, id))
    }

    fn part(&self, session: &SessionId, message: &MessageId, id: &PartId) -> StoreFuture<'_, Option<Part>> {
        self.read(|tables| tables.part(session, message, id))
    }

    fn open(&self, session: &SessionId) -> StoreFuture<'_, Vec<MessageWithParts>> {
        self.read(|tables| tables.open(session))
    }

    fn last_answer(
        &self,
        session: &SessionId,
        prompt: Option<&MessageId>,
    ) -> StoreFuture<'_, Option<MessageWithParts>> {
        self.read(|tables| tables.last_answer(session, prompt))
    }

    fn todos(&self, session: &SessionId) -> StoreFuture<'_, Vec<Todo>> {
        self.read(|tables| tables.todos(session))
    }

    fn statuses(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<(SessionId, SessionStatus)>> {
        self.read(|tables| tables.statuses(workspace))
    }

    fn requests(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<Request>> {
        self.read(|tables| tables.requests(workspace))
    }

    fn status(&self, session: &SessionId) -> StoreFuture<'_, Option<SessionStatus>> {
        self.read(|tables| tables.status(session))
    }

    fn requests_of(&self, session: &SessionId) -> StoreFuture<'_, Vec<Request>> {
        self.read(|tables| tables.requests_of(session))
    }

    fn approvals(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<Approval>> {
        self.read(|tables| tables.approvals(workspace))
    }

    fn prompts(&self, session: &SessionId) -> StoreFuture<'_, Vec<OpenPrompt>> {
        self.read(|tables| tables.prompts(session))
    }

    fn is_withdrawn(&self, session: &SessionId, prompt: &MessageId) -> StoreFuture<'_, bool> {
        self.read(|tables| tables.is_withdrawn(session, prompt))
    }

    fn find(&self, search: Search) -> StoreFuture<'_, Vec<Found>> {
        self.read(|tables| tables.find(&search))
    }

    fn unfinished(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<SessionId>> {
        self.read(|tables| tables.unfinished(workspace))
    }

    fn replay(&self, span: Span) -> StoreFuture<'_, Vec<Stored>> {
        self.read(|tables| tables.replay(&span))
    }

    fn events(&self, session: &SessionId, after: u64, limit: usize) -> StoreFuture<'_, Vec<(u64, Bytes)>> {
        self.read(|tables| tables.events(session, after, limit))
    }

    fn bounds(&self) -> StoreFuture<'_, (u64, u64)> {
        self.read(Tables::bounds)
    }

    fn count(&self) -> StoreFuture<'_, u64> {
        self.read(Tables::count)
    }

    fn notes(&self) -> StoreFuture<'_, BTreeMap<String, ProjectNote>> {
        self.read(Tables::notes)
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (oldest, newest) = self.lock().tables.bounds();
        out.debug_struct("Memory")
            .field("oldest", &oldest)
            .field("newest", &newest)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
