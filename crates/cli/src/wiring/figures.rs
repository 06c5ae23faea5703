//! What the store counts, for the server that does not know it.

use std::sync::Arc;

use server::metrics::{Store, StoreFigures};
use store::sqlite::{Snapshot, Stats};

/// A store's counters.
#[derive(Debug)]
pub(crate) struct Counted(pub(super) Arc<Stats>);

impl Store for Counted {
    fn figures(&self) -> StoreFigures {
        let Snapshot { latency, waiting, refused, .. } = self.0.snapshot();
        StoreFigures { latency: latency.buckets, commits: latency.count, time: latency.sum, refused, waiting }
    }
}
