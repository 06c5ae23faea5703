//! The log: where accepted things become durable, in one order for everybody.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use protocol::{ApprovalId, Event, Part, SessionId, project::ProjectNote};

use super::Answer;

/// Appends to the log and keeps the state tables in step with it.
///
/// A backend applies every event of a commit to its tables (sessions, messages, parts, todos, status,
/// requests, approvals, queue) and appends it to the log in *one* transaction. The tables follow from the events
/// alone; [`crate::memory`] is the readable reference.
pub trait Log: Send + Sync {
    /// Makes a commit durable. Resolves after the transaction, and after the observer saw its events.
    fn append(&self, commit: Commit) -> Answer<'_, Appended>;

    /// Saves the present text of parts that are still open, without an event: a crash then loses at most
    /// what came since. A part that is closed or gone by then is left alone.
    fn checkpoint(&self, parts: Vec<Part>) -> Answer<'_, ()>;

    /// Amends what a person said about a project; resolves with all that was said, once it would survive a power
    /// cut. It belongs to no session and so is no event of the log.
    fn note(&self, project: &str, newer: ProjectNote) -> Answer<'_, ProjectNote>;

    /// Forgets something that was allowed for good, and tells whether it was known. An approval outlives its
    /// session, so this belongs to no session and is no event.
    fn forget(&self, approval: &ApprovalId) -> Answer<'_, bool>;
}

/// One transaction of one session.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The session; its events are numbered from 1.
    pub session: SessionId,
    /// The session's directory, for scoping streams.
    pub directory: Arc<str>,
    /// The session's project, for the global stream's envelope.
    pub project: Arc<str>,
    /// How many events the writer believes the session has. A commit from a writer that is behind is
    /// refused with [`Failure::Conflict`], so two owners can never both end a turn.
    pub expected: u64,
    /// The events, in order. All are durable kinds.
    pub events: Vec<Encoded>,
    /// Whether it must survive a power cut before it is acknowledged (prompts and replies), or only the
    /// death of the process (everything a running turn says).
    pub flush: bool,
}

/// An event and its JSON, encoded once for the log and all subscribers.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The event.
    pub event: Event,
    /// `{"id":…,"type":…,"properties":…}`
    pub json: Bytes,
}

/// What a commit was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// How many events the session has now.
    pub head: u64,
    /// Global position of the commit's last event.
    pub position: u64,
}

/// An event in the log.
#[derive(Debug, Clone)]
pub struct Logged {
    /// Global position, from 1, in commit order: the cursor of event streams.
    pub position: u64,
    /// The session.
    pub session: SessionId,
    /// Its directory.
    pub directory: Arc<str>,
    /// Its project.
    pub project: Arc<str>,
    /// The event.
    pub event: Event,
    /// Its JSON.
    pub json: Bytes,
}

/// Told of every commit, in commit order and before the writer's future resolves. This is what makes a
/// cursor mean "everything up to here": publication order *is* log order.
pub trait Observer: Send + Sync {
    /// Must not block.
    fn committed(&self, events: Vec<Logged>);
}

/// A store error.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{failure}: {message}")]
pub struct Error {
    /// What callers branch on.
    pub failure: Failure,
    /// What happened, for people.
    pub message: String,
}

impl Error {
    /// An error of a kind, with what happened.
    pub fn new(failure: Failure, message: impl Into<String>) -> Self {
        Self { failure, message: message.into() }
    }
}

/// What can go wrong in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Somebody else wrote to the session.
    Conflict,
    /// No space left.
    Full,
    /// The data cannot be trusted.
    Corrupt,
    /// It cannot be reached, or it is closed.
    Unavailable,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Conflict => "another writer was faster",
            Self::Full => "no space is left for the database",
            Self::Corrupt => "the database is damaged",
            Self::Unavailable => "the database is not available",
        })
    }
}
