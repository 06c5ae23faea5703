//! What is to be told to receivers outside, until they have taken it.

use protocol::{EventId, Millis, SessionId};

use super::Answer;

/// Keeps notices across restarts.
///
/// The outbox follows the log: what is put into it is stored together with how far the log was read for it, so that
/// a crash between an event and its notice neither loses the notice nor doubles it.
pub trait Outbox: Send + Sync {
    /// Up to which position the log was read; nothing if it never was.
    fn read_upto(&self) -> Answer<'_, Option<u64>>;

    /// Stores notices and up to which position the log was read for them, in one transaction. A notice that is known
    /// already is left alone. Of more than [`MAX_NOTICES`](crate::limits::MAX_NOTICES) for one receiver the oldest
    /// go; the answer is how many did.
    fn put(&self, upto: u64, notices: Vec<Notice>) -> Answer<'_, usize>;

    /// The oldest notice of each session that waits for a receiver, soonest due first: a session's notices are told
    /// one after the other.
    fn heads(&self, receiver: &str, limit: usize) -> Answer<'_, Vec<Notice>>;

    /// Notes that a receiver could not be told, and when to try again.
    fn postpone(&self, receiver: &str, id: &EventId, attempts: u32, due: Millis) -> Answer<'_, ()>;

    /// Forgets a notice.
    fn remove(&self, receiver: &str, id: &EventId) -> Answer<'_, ()>;

    /// Forgets the notices of all receivers but these. Without any receiver it is as if the log was never read.
    fn retain(&self, receivers: Vec<String>) -> Answer<'_, ()>;
}

/// Something that one receiver is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The receiver's name.
    pub receiver: String,
    /// The event it is about; a receiver that is told twice knows by this.
    pub id: EventId,
    /// The event's session.
    pub session: SessionId,
    /// What is told.
    pub body: String,
    /// When it was put here.
    pub created: Millis,
    /// How often it was tried in vain.
    pub attempts: u32,
    /// When to try next.
    pub due: Millis,
}
