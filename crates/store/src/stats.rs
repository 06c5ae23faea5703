//! Counters of a store's writer, for metrics. Reading them never disturbs the writer.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

/// Upper bounds of the latency buckets; a last bucket counts the rest.
pub const LATENCY_BOUNDS: [Duration; 14] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
];

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub struct Stats {
    buckets: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
    waiting: AtomicUsize,
    commits: AtomicU64,
    refused: AtomicU64,
    transactions: AtomicU64,
    events: AtomicU64,
    trimmed: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Time from the call to the acknowledgement of commits.
    pub latency: Latency,
    /// Commits and checkpoints in the writer's queue.
    pub waiting: usize,
    /// Acknowledged commits.
    pub commits: u64,
    /// Commits that failed, for any reason.
    pub refused: u64,
    pub transactions: u64,
    /// Appended events.
    pub events: u64,
    /// Events removed by retention.
    pub trimmed: u64,
}

/// A cumulative histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// For each of [`LATENCY_BOUNDS`], the number of commits that took at most that long.
    pub buckets: Vec<(Duration, u64)>,
    pub count: u64,
    /// The sum of all latencies.
    pub sum: Duration,
}

impl Stats {
    pub fn snapshot(&self) -> Snapshot {
        let mut count = 0;
        let mut cumulative = self.buckets.iter().map(|bucket| {
            count += bucket.load(Relaxed);
            count
        });
        let buckets = LATENCY_BOUNDS.into_iter().zip(cumulative.by_ref()).collect();
        let count = cumulative.last().unwrap_or_default();
        Snapshot {
            latency: Latency { buckets, count, sum: Duration::from_nanos(self.nanoseconds.load(Relaxed)) },
            waiting: self.waiting.load(Relaxed),
            commits: self.commits.load(Relaxed),
            refused: self.refused.load(Relaxed),
            transactions: self.transactions.load(Relaxed),
            events: self.events.load(Relaxed),
            trimmed: self.trimmed.load(Relaxed),
        }
    }

    pub(super) fn queued(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    pub(super) fn taken(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    pub(super) fn transaction(&self) {
        self.transactions.fetch_add(1, Relaxed);
    }

    pub(super) fn committed(&self, events: usize, took: Duration) {
        let bucket = LATENCY_BOUNDS.partition_point(|bound| *bound < took);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Relaxed);
        }
        self.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.commits.fetch_add(1, Relaxed);
        self.events.fetch_add(events as u64, Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn trimmed(&self, events: usize) {
        self.trimmed.fetch_add(events as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_its_bucket_and_all_larger_ones() {
        let stats = Stats::default();
        stats.committed(2, Duration::from_millis(1));
        stats.committed(1, Duration::from_secs(9));
        let snapshot = stats.snapshot();
        let at = |bound: Duration| {
            snapshot.latency.buckets.iter().find(|(known, _)| *known == bound).map(|(_, count)| *count)
        };
        assert_eq!(at(Duration::from_micros(500)), Some(0));
        assert_eq!(at(Duration::from_millis(1)), Some(1));
        assert_eq!(at(Duration::from_millis(2_500)), Some(1));
        assert_eq!((snapshot.latency.count, snapshot.events), (2, 3));
        assert_eq!(snapshot.latency.sum, Duration::from_millis(9_001));
    }
}
