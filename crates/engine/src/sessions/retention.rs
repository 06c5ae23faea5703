//! Deletes sessions that have not been used for a long time.

use std::{convert::Infallible, time::Duration};

use protocol::{Millis, SessionId};

use super::Sessions;
use crate::{
    Error,
    ports::{Listing, Owner},
};

/// Time between two searches for old sessions.
const INTERVAL: Duration = Duration::from_hours(24);

/// One search deletes at most this many sessions without a parent. The rest follows with the next one.
const MAX_PRUNED: usize = 10_000;

impl Sessions {
    /// Prunes now and once a day. A search that fails is logged, and the next one tries again.
    pub async fn prune_daily(self, unused_for: Duration) -> Infallible {
        loop {
            match self.prune(unused_for).await {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "deleted sessions that have reached the retention time"),
                Err(error) => tracing::warn!(%error, "failed to delete old sessions; trying again in a day"),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Deletes the sessions that were not updated for this time, with their children, and returns the number of those
    /// without a parent. Keeps sessions that are shared or not idle, and those with such a child.
    pub async fn prune(&self, unused_for: Duration) -> Result<usize, Error> {
        let age = Millis::try_from(unused_for.as_millis()).unwrap_or(Millis::MAX);
        let before = self.shared.mint.now().saturating_sub(age);
        let listing = Listing {
            roots: true,
            updated_before: Some(before),
            limit: Some(MAX_PRUNED),
            ..Listing::default()
        };
        let mut count = 0;
        for session in self.list(listing).await? {
            if !self.is_here(&session.id).await? {
                continue;
            }
            match self.delete_unused(&session.id, before).await {
                Ok(()) => count += 1,
                // A client uses the session, or has deleted it meanwhile.
                Err(Error::Busy(_) | Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// Returns false for a session of another node, which prunes its own. One that was deleted meanwhile is nowhere.
    async fn is_here(&self, id: &SessionId) -> Result<bool, Error> {
        let Some(workspace) = self.shared.reads.workspace(id).await? else { return Ok(false) };
        Ok(self.shared.bus.fleet().owner(&workspace).await? == Owner::Here)
    }
}
