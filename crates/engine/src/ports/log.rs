//! The log: makes accepted events durable, in one global order.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use protocol::{ApprovalId, Event, Part, SessionId, WorkspaceId, project::ProjectNote};

use super::StoreFuture;

/// Appends to the log and keeps the state tables in step with it.
///
/// A backend applies every event of a commit to its tables (sessions, messages, parts, todos, status,
/// requests, approvals, queue) and appends it to the log in *one* transaction. The tables follow from the events
/// alone; [`crate::memory`] is the readable reference.
pub trait Log: Send + Sync {
    /// Makes a commit durable. Resolves after the transaction, and after the observer saw its events.
    fn append(&self, commit: Commit) -> StoreFuture<'_, Appended> {
        self.append_all(vec![commit])
    }

    /// Makes the commits of different sessions durable in one transaction: all of them or, if one is refused, none.
    /// Returns the numbers of the last.
    fn append_all(&self, commits: Vec<Commit>) -> StoreFuture<'_, Appended>;

    /// Saves the current text of open parts without an event, so that a crash loses at most the text since the last
    /// save. A part that is closed or deleted by then is left unchanged.
    fn checkpoint(&self, fence: Fence, parts: Vec<Part>) -> StoreFuture<'_, ()>;

    /// Amends the user's note about a project. Resolves with the whole note, once it would survive a power cut. A
    /// note belongs to no session, so it is not an event of the log.
    fn note(&self, project: &str, newer: ProjectNote) -> StoreFuture<'_, ProjectNote>;

    /// Deletes an approval and returns true if it existed. An approval outlives its session, so this belongs to no
    /// session and is not an event.
    fn forget(&self, approval: &ApprovalId) -> StoreFuture<'_, bool>;
}

/// The right of a node to write for a workspace, which the transaction of every commit checks. The commits of a node
/// that no longer owns the workspace are refused with [`StoreFailure::Fenced`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    pub workspace: WorkspaceId,
    /// Grows each time that the workspace gets another owner.
    pub epoch: u64,
}

/// The events that one transaction adds to a session.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The session; its events are numbered from 1.
    pub session: SessionId,
    /// The session's workspace, to which the session, its approvals and its events belong, and the writer's right to
    /// commit for it.
    pub fence: Fence,
    /// The session's directory, for the global stream's envelope.
    pub directory: Arc<str>,
    /// The session's project, for the global stream's envelope.
    pub project: Arc<str>,
    /// Number of events that the writer expects the session to have. A commit from a writer that is behind is
    /// refused with [`StoreFailure::Conflict`], so two owners can never both end a turn.
    pub expected: u64,
    /// The events, in order. All are durable kinds.
    pub events: Vec<Encoded>,
    /// True if the commit must survive a power cut before it is acknowledged (prompts and replies). Otherwise it
    /// only has to survive the death of the process (events of a running turn).
    pub flush: bool,
}

/// An event and its JSON, encoded once for the log and all subscribers.
#[derive(Debug, Clone)]
pub struct Encoded {
    pub event: Event,
    /// `{"id":…,"type":…,"properties":…}`
    pub json: Bytes,
}

/// The numbers that a commit received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Number of events that the session has now.
    pub head: u64,
    /// Global position of the commit's last event.
    pub position: u64,
}

/// An event in the log.
#[derive(Debug, Clone)]
pub struct Logged {
    /// Global position, from 1, in commit order: the cursor of event streams.
    pub position: u64,
    pub session: SessionId,
    pub workspace: WorkspaceId,
    pub directory: Arc<str>,
    pub project: Arc<str>,
    pub event: Event,
    /// `{"id":…,"type":…,"properties":…}`
    pub json: Bytes,
}

/// Receives every commit, in commit order and before the writer's future resolves. Publication order therefore *is*
/// log order, and a cursor means "everything up to here".
pub trait Observer: Send + Sync {
    /// Must not block.
    fn committed(&self, events: Vec<Logged>);
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("{failure}: {message}")]
pub struct Error {
    /// The kind of failure, for callers to branch on.
    pub failure: StoreFailure,
    /// The details, for logs and users.
    pub message: String,
}

impl Error {
    pub fn new(failure: StoreFailure, message: impl Into<String>) -> Self {
        Self { failure, message: message.into() }
    }
}

/// The kinds of store failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFailure {
    /// Another writer has appended to the session.
    Conflict,
    /// Another node owns the workspace, or another process has become this node.
    Fenced,
    /// No disk space is left for the database.
    Full,
    /// The database is damaged.
    Corrupt,
    /// The database cannot be reached or is closed.
    Unavailable,
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Conflict => "another writer has changed the session",
            Self::Fenced => "another server has taken over",
            Self::Full => "no space is left for the database",
            Self::Corrupt => "the database is damaged",
            Self::Unavailable => "the database is not available",
        })
    }
}
