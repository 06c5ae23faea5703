//! Limits the size of the log, as in SQLite. The newest row stays, because the next position follows from it.

use std::time::Duration;

use protocol::Millis;
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use super::{
    connect::LOCK_TRIM,
    query::{Found, column, number},
};
use crate::sqlite::RetentionLimits;

/// Default maximum number of events.
pub const KEEP_EVENTS: u64 = 5_000_000;
/// Default maximum size of all events, in bytes. The log may exceed it by one event.
pub const KEEP_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Default maximum age of events.
pub const KEEP_AGE: Duration = Duration::from_hours(7 * 24);

/// Maximum number of events that one transaction removes, because commits wait for it.
const BATCH: u64 = 2_000;

/// Number of new events after which a busy writer trims again. Fewer than [`BATCH`], so that trimming keeps up.
const EVERY: u64 = 1_000;

/// Decides when to trim.
#[derive(Debug)]
pub(super) struct Retention {
    keep: RetentionLimits,
    /// The log's end at the last check.
    looked: u64,
    more: bool,
}

impl Retention {
    pub(super) fn new(keep: RetentionLimits) -> Self {
        // Checks at once what an earlier process left.
        Self { keep, looked: 0, more: true }
    }

    /// Returns true if a check is due.
    pub(super) fn is_due(&self, end: u64, idle: bool) -> bool {
        idle || self.more || end >= self.looked.saturating_add(EVERY)
    }

    /// Removes at most one batch and returns the number of removed events. The caller has opened a transaction.
    pub(super) async fn trim(
        &mut self,
        client: &Client,
        end: u64,
        now: Millis,
        is_node: bool,
    ) -> Found<usize> {
        self.looked = end;
        self.more = false;
        // Nodes trim in turns: two of them would delete the same rows and wait for each other.
        if is_node && !client.query_typed_one(LOCK_TRIM, &[]).await?.get::<_, bool>(0) {
            return Ok(0);
        }
        let Some(upto) = self.expired(client, now).await? else { return Ok(0) };
        let events = "DELETE FROM event USING log
            WHERE log.position <= $1 AND event.session = log.session AND event.seq = log.seq";
        let removed = client.execute_typed(events, &[(&upto, Type::INT8)]).await?;
        let rows = "DELETE FROM log WHERE position <= $1";
        let rows = client.execute_typed(rows, &[(&upto, Type::INT8)]).await?;
        client
            .execute_typed("UPDATE fleet SET trimmed = greatest(trimmed, $1)", &[(&upto, Type::INT8)])
            .await?;
        self.more = rows >= BATCH;
        Ok(usize::try_from(removed).unwrap_or(usize::MAX))
    }

    /// Returns true if the last batch was full.
    pub(super) fn has_more(&self) -> bool {
        self.more
    }

    /// The last position of the oldest batch to remove.
    async fn expired(&self, client: &Client, now: Millis) -> Found<Option<i64>> {
        let sql = "SELECT max(oldest.position)
            FROM (SELECT position, session, seq, total FROM log ORDER BY position LIMIT $1) AS oldest
            CROSS JOIN (SELECT position, total FROM log ORDER BY position DESC LIMIT 1) AS newest
            LEFT JOIN event ON event.session = oldest.session AND event.seq = oldest.seq
            WHERE oldest.position < newest.position AND (oldest.position <= newest.position - $2
                OR oldest.total <= newest.total - $3 OR event.at < $4)";
        let age = Millis::try_from(self.keep.age.as_millis()).unwrap_or(Millis::MAX);
        let values: [(&(dyn ToSql + Sync), Type); 4] = [
            (&number(BATCH), Type::INT8),
            (&number(self.keep.events), Type::INT8),
            (&number(self.keep.bytes), Type::INT8),
            (&now.saturating_sub(age), Type::INT8),
        ];
        column(&client.query_typed_one(sql, &values).await?, 0)
    }
}
