//! The outbox: notices for receivers outside, such as webhooks, until they are delivered.

use protocol::{EventId, Millis, SessionId};

use super::StoreFuture;

/// Keeps notices across restarts.
///
/// The outbox follows the log: notices are stored together with the log position up to which events were read. A
/// crash between an event and its notice therefore neither loses the notice nor duplicates it.
pub trait Outbox: Send + Sync {
    /// The position up to which the log was read; `None` if it never was.
    fn read_upto(&self) -> StoreFuture<'_, Option<u64>>;

    /// Stores notices and the position up to which the log was read for them, in one transaction. A notice that is
    /// already stored is left unchanged. At most [`MAX_NOTICES`](crate::limits::MAX_NOTICES) are kept for one
    /// receiver; returns the number of older ones that were dropped.
    fn put(&self, upto: u64, notices: Vec<Notice>) -> StoreFuture<'_, usize>;

    /// The oldest notice of each session for a receiver, soonest due first: notices of one session are delivered
    /// one after the other.
    fn heads(&self, receiver: &str, limit: usize) -> StoreFuture<'_, Vec<Notice>>;

    /// Records a failed delivery and the time of the next attempt.
    fn postpone(&self, receiver: &str, id: &EventId, attempts: u32, due: Millis) -> StoreFuture<'_, ()>;

    fn remove(&self, receiver: &str, id: &EventId) -> StoreFuture<'_, ()>;

    /// Deletes the notices of all other receivers. With an empty list it also resets the log position.
    fn retain(&self, receivers: Vec<String>) -> StoreFuture<'_, ()>;
}

/// A notice for one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub receiver: String,
    /// The event that the notice is about. Receivers use it to detect a repeated delivery.
    pub id: EventId,
    pub session: SessionId,
    pub body: String,
    pub created: Millis,
    /// Failed delivery attempts so far.
    pub attempts: u32,
    /// Time of the next attempt.
    pub due: Millis,
}
