//! How much of the log is kept.
//!
//! All three limits compare an event with the newest one, so the events to remove are always the oldest.
//! Events that went with a deleted session still count as if they were there: the log may be shorter than
//! its limits, never longer.

use std::time::Duration;

use protocol::Millis;
use rusqlite::{Connection, params};

use super::project::End;

/// So many events are kept by default.
pub const KEEP_EVENTS: u64 = 200_000;
/// So many bytes of events are kept by default.
pub const KEEP_BYTES: u64 = 256 * 1024 * 1024;
/// So long events are kept by default.
pub const KEEP_AGE: Duration = Duration::from_hours(7 * 24);

/// One transaction removes at most this many: it stands between a commit and its turn.
const BATCH: u64 = 128;

/// A busy writer looks again after so many events. Fewer than [`BATCH`], so that removing always wins.
const EVERY: u64 = 64;

/// What is kept of the log. An event goes when it exceeds any of the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// At most this many events.
    pub events: u64,
    /// At most this many bytes of their JSON.
    pub bytes: u64,
    /// None older than this.
    pub age: Duration,
}

impl Default for Keep {
    fn default() -> Self {
        Self { events: KEEP_EVENTS, bytes: KEEP_BYTES, age: KEEP_AGE }
    }
}

/// Keeps the log within its limits, a little at a time.
#[derive(Debug)]
pub(super) struct Retention {
    keep: Keep,
    /// Where the log ended when it was last looked at.
    looked: u64,
    more: bool,
}

/// What one look removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trimmed {
    pub(super) events: usize,
    /// Whether there is more to remove.
    pub(super) more: bool,
}

impl Retention {
    pub(super) fn new(keep: Keep) -> Self {
        // Whatever an earlier process left is looked at right away.
        Self { keep, looked: 0, more: true }
    }

    /// Removes at most one batch, if it is time to.
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

    /// The last position of the oldest batch that is to go.
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
