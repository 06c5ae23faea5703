//! Retention: keeping the log short.

use std::ops::RangeInclusive;

use engine::ports::{Reads, Span};

use super::*;
use crate::contract::{busy, commit, created, deleted, id, idle};

/// Fills a session until it has `total` events.
async fn fill(store: &Sqlite, session: &str, total: u64) {
    let mut head = store.session(&id(session)).await.unwrap().map_or(0, |(_, head)| head);
    while head < total {
        let event = if head == 0 { created(session) } else { busy(session) };
        head = store.append(commit(session, head, vec![event])).await.unwrap().head;
    }
}

/// Waits until the writer has nothing more to remove. It checks after every commit, also an empty one.
async fn settled(store: &Sqlite, session: &str) {
    let head = store.session(&id(session)).await.unwrap().unwrap().1;
    let mut quiet = 0;
    while quiet < 3 {
        let before = store.stats.snapshot().trimmed;
        store.append(commit(session, head, vec![])).await.unwrap();
        quiet = if store.stats.snapshot().trimmed == before { quiet + 1 } else { 0 };
    }
}

async fn positions(store: &Sqlite) -> Vec<u64> {
    let all = Span { after: 0, upto: u64::MAX, workspace: None, limit: usize::MAX };
    store.replay(all).await.unwrap().iter().map(|event| event.position).collect()
}

async fn holds(store: &Sqlite, kept: RangeInclusive<u64>) {
    assert_eq!(store.bounds().await.unwrap(), (*kept.start(), *kept.end()));
    assert_eq!(positions(store).await, kept.collect::<Vec<_>>());
}

fn place(keep: RetentionLimits) -> (TestDatabase, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let mut place = TestDatabase::new();
    place.options = Options { keep, clock: clock.clone(), ..Options::default() };
    (place, clock)
}

const EVERYTHING: RetentionLimits = RetentionLimits { events: u64::MAX, bytes: u64::MAX, age: Duration::MAX };

#[tokio::test]
async fn everything_is_kept_within_the_limits() {
    let (place, _) = place(RetentionLimits::default());
    let store = place.open();
    fill(&store, "ses_a", 300).await;
    settled(&store, "ses_a").await;
    holds(&store, 1..=300).await;
}

#[tokio::test]
async fn old_events_go_when_there_are_too_many() {
    let (place, _) = place(RetentionLimits { events: 50, ..EVERYTHING });
    let store = place.open();
    fill(&store, "ses_a", 640).await;
    let (oldest, newest) = store.bounds().await.unwrap();
    assert!(newest - oldest < 50 + 2 * 64, "a busy writer keeps up: {oldest} to {newest}");
    store.close().await.unwrap();
    // Tables are not touched, and a start removes the rest.
    let store = place.open();
    settled(&store, "ses_a").await;
    holds(&store, 591..=640).await;
    assert_eq!(store.session(&id("ses_a")).await.unwrap().unwrap().1, 640);
    assert_eq!(store.statuses(None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn old_events_go_when_they_are_too_large() {
    let (small, _) = place(EVERYTHING);
    let store = small.open();
    fill(&store, "ses_a", 200).await;
    let event = busy("ses_a").json.len() as u64;
    store.close().await.unwrap();
    let small = TestDatabase {
        options: Options { keep: RetentionLimits { bytes: event * 10, ..EVERYTHING }, ..small.options },
        ..small
    };
    let store = small.open();
    settled(&store, "ses_a").await;
    holds(&store, 191..=200).await;
}

#[tokio::test]
async fn old_events_go_when_their_time_is_over() {
    let (place, clock) = place(RetentionLimits { age: Duration::from_millis(100), ..EVERYTHING });
    let store = place.open();
    fill(&store, "ses_a", 100).await;
    clock.0.store(60, Ordering::SeqCst);
    fill(&store, "ses_a", 150).await;
    clock.0.store(120, Ordering::SeqCst);
    store.close().await.unwrap();
    let store = place.open();
    settled(&store, "ses_a").await;
    holds(&store, 101..=150).await;
}

#[tokio::test]
async fn positions_continue_when_the_log_is_empty() {
    let (place, clock) = place(RetentionLimits { age: Duration::from_millis(100), ..EVERYTHING });
    let store = place.open();
    fill(&store, "ses_a", 10).await;
    store.close().await.unwrap();
    clock.0.store(1_000, Ordering::SeqCst);
    for _ in 0..2 {
        let store = place.open();
        settled(&store, "ses_a").await;
        assert_eq!(store.bounds().await.unwrap(), (11, 10));
        assert!(positions(&store).await.is_empty());
        store.close().await.unwrap();
    }
    let store = place.open();
    assert_eq!(store.append(commit("ses_a", 10, vec![idle("ses_a")])).await.unwrap().position, 11);
    settled(&store, "ses_a").await;
    holds(&store, 11..=11).await;
}

#[tokio::test]
async fn gaps_of_deleted_sessions_count_as_kept() {
    let (place, _) = place(RetentionLimits { events: 50, ..EVERYTHING });
    let store = place.open();
    fill(&store, "ses_a", 40).await;
    fill(&store, "ses_b", 100).await;
    store.append(commit("ses_b", 100, vec![deleted("ses_b")])).await.unwrap();
    store.close().await.unwrap();
    let store = place.open();
    settled(&store, "ses_a").await;
    assert_eq!(positions(&store).await, [141]);
    let (oldest, newest) = store.bounds().await.unwrap();
    assert!(oldest <= 92 && newest == 141, "{oldest} to {newest}");
}
