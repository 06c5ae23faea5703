//! Group commit, a full disk, and callers that disappear.

use engine::ports::Reads;
use rusqlite::Connection;

use super::*;
use crate::contract::{busy, commit, created, id, idle, saved, text};

/// An event of about a megabyte.
fn huge(session: &str) -> Encoded {
    saved(&text(session, "msg_1", "prt_1", &"0123456789".repeat(100_000), Some(1)))
}

impl Sqlite {
    async fn limit_pages(&self, pages: u32) {
        self.ask(|reply| Work::LimitPages { pages, reply }).await.unwrap();
    }
}

/// Size of the database in pages.
fn pages(place: &TestDatabase) -> u32 {
    let connection = Connection::open(place.path()).unwrap();
    connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn commits_that_wait_are_written_together() {
    let place = TestDatabase::new();
    let (gate, release) = Gate::closed();
    let store = place.open_with(gate);
    let first = spawn(&store, "ses_a", 0, vec![created("ses_a")]);
    let mut others = Vec::new();
    while store.stats.snapshot().transactions == 0 {
        tokio::task::yield_now().await;
    }
    for n in 0..10 {
        let name = format!("ses_{n}");
        others.push(spawn(&store, &name, 0, vec![created(&name), busy(&name)]));
    }
    waiting(&store, 10).await;
    release.send(()).unwrap();
    first.await.unwrap().unwrap();
    for other in others {
        assert_eq!(other.await.unwrap().unwrap().head, 2);
    }
    let stats = store.stats.snapshot();
    assert_eq!((stats.commits, stats.transactions, stats.waiting), (11, 2, 0));
    assert_eq!((stats.events, stats.latency.count), (21, 11));
    assert_eq!(store.bounds().await.unwrap(), (1, 21));
}

#[tokio::test]
async fn a_refused_commit_does_not_hurt_its_neighbours() {
    let place = TestDatabase::new();
    let (gate, release) = Gate::closed();
    let store = place.open_with(gate);
    let first = spawn(&store, "ses_a", 0, vec![created("ses_a")]);
    while store.stats.snapshot().transactions == 0 {
        tokio::task::yield_now().await;
    }
    let mut group = Vec::new();
    for (expected, wait) in [(1, 1), (1, 2), (2, 3), (7, 4)] {
        group.push(spawn(&store, "ses_a", expected, vec![busy("ses_a")]));
        waiting(&store, wait).await;
    }
    release.send(()).unwrap();
    first.await.unwrap().unwrap();
    let mut heads = Vec::new();
    for job in group {
        heads.push(job.await.unwrap().map(|appended| appended.head).map_err(|refused| refused.failure));
    }
    assert_eq!(heads, [Ok(2), Err(StoreFailure::Conflict), Ok(3), Err(StoreFailure::Conflict)]);
    let stats = store.stats.snapshot();
    assert_eq!((stats.transactions, stats.refused), (2, 2));
    assert_eq!(store.bounds().await.unwrap(), (1, 3), "a refusal costs no position");
}

#[tokio::test]
async fn reads_do_not_wait_for_the_writer() {
    let place = TestDatabase::new();
    let (gate, release) = Gate::closed();
    let store = place.open_with(gate);
    let held = spawn(&store, "ses_a", 0, vec![created("ses_a")]);
    while store.bounds().await.unwrap() != (1, 1) {
        tokio::task::yield_now().await;
    }
    assert!(!held.is_finished());
    assert!(store.session(&id("ses_a")).await.unwrap().is_some());
    release.send(()).unwrap();
    held.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_commit_survives_the_end_of_its_caller() {
    let place = TestDatabase::new();
    let (gate, release) = Gate::closed();
    let store = place.open_with(gate);
    let first = spawn(&store, "ses_a", 0, vec![created("ses_a")]);
    while store.stats.snapshot().transactions == 0 {
        tokio::task::yield_now().await;
    }
    let second = spawn(&store, "ses_a", 1, vec![busy("ses_a")]);
    waiting(&store, 1).await;
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    release.send(()).unwrap();
    first.await.unwrap().unwrap();
    store.append(commit("ses_a", 2, vec![idle("ses_a")])).await.unwrap();
}

#[tokio::test]
async fn closing_writes_the_pending_commits() {
    let place = TestDatabase::new();
    let (gate, release) = Gate::closed();
    let store = place.open_with(gate);
    let first = spawn(&store, "ses_a", 0, vec![created("ses_a")]);
    while store.stats.snapshot().transactions == 0 {
        tokio::task::yield_now().await;
    }
    let second = spawn(&store, "ses_a", 1, vec![busy("ses_a")]);
    waiting(&store, 1).await;
    let closing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.close().await }
    });
    while store.jobs.lock().unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    release.send(()).unwrap();
    closing.await.unwrap().unwrap();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(place.open().bounds().await.unwrap(), (1, 2));
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let place = TestDatabase::new();
    let store = place.open();
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    store.limit_pages(pages(&place) + 40).await;
    for flush in [false, true] {
        let commit = Commit { flush, ..commit("ses_a", 1, vec![huge("ses_a")]) };
        let refused = store.append(commit).await.unwrap_err();
        assert_eq!(refused.failure, StoreFailure::Full, "{refused}");
        assert!(refused.message.contains("free some space"), "{refused}");
    }
    assert_eq!(store.bounds().await.unwrap(), (1, 1), "reads go on");
    let small = store.append(commit("ses_a", 1, vec![busy("ses_a")])).await.unwrap();
    assert_eq!(small, Appended { head: 2, position: 2 }, "what is small still fits");
    store.limit_pages(1_000_000).await;
    let retried = store.append(commit("ses_a", 2, vec![huge("ses_a")])).await.unwrap();
    assert_eq!(retried, Appended { head: 3, position: 3 });
}

#[tokio::test]
async fn a_commit_that_does_not_fit_leaves_room_for_its_neighbours() {
    let place = TestDatabase::new();
    let (gate, release) = Gate::closed();
    let store = place.open_with(gate);
    let first = spawn(&store, "ses_a", 0, vec![created("ses_a")]);
    while store.stats.snapshot().transactions == 0 {
        tokio::task::yield_now().await;
    }
    let limit = tokio::spawn({
        let (store, pages) = (Arc::clone(&store), pages(&place) + 40);
        async move { store.limit_pages(pages).await }
    });
    waiting(&store, 1).await;
    let before = spawn(&store, "ses_b", 0, vec![created("ses_b")]);
    waiting(&store, 2).await;
    let too_large = spawn(&store, "ses_c", 0, vec![created("ses_c"), huge("ses_c")]);
    waiting(&store, 3).await;
    let after = spawn(&store, "ses_d", 0, vec![created("ses_d")]);
    waiting(&store, 4).await;
    release.send(()).unwrap();
    first.await.unwrap().unwrap();
    limit.await.unwrap();
    assert_eq!(before.await.unwrap().unwrap().position, 2);
    assert_eq!(too_large.await.unwrap().unwrap_err().failure, StoreFailure::Full);
    assert_eq!(after.await.unwrap().unwrap().position, 3);
    assert!(store.session(&id("ses_c")).await.unwrap().is_none());
}
