//! Limits the size of the log.
//!
//! All three limits compare an event with the newest one, so the events to remove are always the oldest. Events
//! that were deleted with their session still count: the log may be shorter than its limits, never longer.

use std::time::Duration;

use protocol::Millis;
use rusqlite::{Connection, params};

use super::project::End;

/// Default maximum number of events.
pub const KEEP_EVENTS: u64 = 200_000;
/// Default maximum size of all events, in bytes.
pub const KEEP_BYTES: u64 = 256 * 1024 * 1024;
/// Default maximum age of events.
pub const KEEP_AGE: Duration = Duration::from_hours(7 * 24);

/// Maximum number of events that one transaction removes, because commits wait for it.
const BATCH: u64 = 128;

/// Number of new events after which a busy writer trims again. Fewer than [`BATCH`], so that trimming keeps up.
const EVERY: u64 = 64;

/// Limits of the log. An event is removed when it exceeds any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLimits {
    pub events: u64,
    /// Maximum size of the events' JSON.
    pub bytes: u64,
    pub age: Duration,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        Self { events: KEEP_EVENTS, bytes: KEEP_BYTES, age: KEEP_AGE }
    }
}

/// Keeps the log within its limits, in small steps.
#[derive(Debug)]
pub(super) struct Retention {
    keep: RetentionLimits,
    /// The log's end at the last check.
    looked: u64,
    more: bool,
}

/// The result of one step.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trimmed {
    pub(super) events: usize,
    /// True if there is more to remove.
    pub(super) more: bool,
}

impl Retention {
    pub(super) fn new(keep: RetentionLimits) -> Self {
        // Checks at once what an earlier process left.
        Self { keep, looked: 0, more: true }
    }

    /// Removes at most one batch, if a check is due.
    pub(super) fn trim(
        &mut self,
        connection: &mut Connection,
        end: End,
        now: Millis,
        idle: bool,
    ) -> rusqlite::Result<Trimmed> {
        if !idle && !self.more && end.position < self.looked + EVERY {
            return Ok(Trimmed::default());
        }
        self.looked = end.position;
        self.more = false;
        let Some(upto) = self.expired(connection, end, now)? else { return Ok(Trimmed::default()) };
        let removal = connection.transaction()?;
        let events = removal.prepare_cached("DELETE FROM log WHERE position <= ?1")?.execute([upto])?;
        removal.prepare_cached("UPDATE retention SET trimmed = ?1")?.execute([upto])?;
        removal.commit()?;
        self.more = events as u64 == BATCH;
        Ok(Trimmed { events, more: self.more })
    }

    /// The last position of the oldest batch to remove.
    fn expired(&self, connection: &Connection, end: End, now: Millis) -> rusqlite::Result<Option<u64>> {
        let last_event = end.position.saturating_sub(self.keep.events);
        let first_total = end.total.saturating_sub(self.keep.bytes);
        let age = Millis::try_from(self.keep.age.as_millis()).unwrap_or(Millis::MAX);
        connection
            .prepare_cached(
                "SELECT MAX(position) FROM
                     (SELECT position, total, at FROM log ORDER BY position LIMIT ?1)
                 WHERE position <= ?2 OR total < ?3 OR at < ?4",
            )?
            .query_row(params![BATCH, last_event, first_total, now.saturating_sub(age)], |row| row.get(0))
    }
}
