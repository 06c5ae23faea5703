//! The store's counters as the server's metrics: the server does not know the store.

use std::sync::Arc;

use server::metrics::{Store, StoreFigures};
use store::stats::{Snapshot, Stats};

#[derive(Debug)]
pub(crate) struct StoreCounters(pub(super) Arc<Stats>);

impl Store for StoreCounters {
    fn figures(&self) -> StoreFigures {
        let Snapshot { latency, waiting, refused, .. } = self.0.snapshot();
        StoreFigures { latency: latency.buckets, commits: latency.count, time: latency.sum, refused, waiting }
    }
}
