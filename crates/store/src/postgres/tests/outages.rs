//! Lost connections, lost answers and a database that is gone for a while.

use std::time::Duration;

use tokio::time::timeout;

use super::{
    proxy::{Line, Proxy},
    *,
};
use crate::contract::{commit, created, idle};
use engine::ports::{Log as _, Reads as _, StoreFailure};

/// Ends the session that holds the store's lock.
const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
    AND classid = 1113683054 AND objid = 1";

/// Longer than any step takes on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// Waits until the database contains a number of events.
async fn until_stored(url: &str, events: i64) {
    let client = connect(url).await;
    let stored = async {
        let sql = "SELECT count(*) FROM baton.event";
        while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) != events {}
    };
    timeout(DEADLINE, stored).await.expect("the events are stored");
}

/// Waits until a condition holds.
async fn until(condition: impl Fn() -> bool) {
    let holds = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, holds).await.expect("the condition holds");
}

/// Waits until the writer has nothing left to do: it looks for expired events after its first commit.
async fn until_settled(store: &Postgres) {
    store.forget(&crate::contract::id("psv_1")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_replaced_and_nothing_is_lost() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (store, seen) = open(&url, Options::default()).await;
    let client = connect(&url).await;
    for number in 0..5 {
        let name = format!("ses_{number}");
        let appended = store.append(commit(&name, 0, vec![created(&name)])).await.unwrap();
        assert_eq!(appended.position, number + 1);
        client.query(TERMINATE, &[]).await.unwrap();
    }
    assert_eq!(seen.positions(), [1, 2, 3, 4, 5]);
    assert_eq!(store.bounds().await.unwrap(), (1, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_is_acknowledged_once() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let proxy = Proxy::start(databases.socket());
    let (store, seen) = open(&proxy.url("test0"), Options::default()).await;
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    until_settled(&store).await;
    proxy.set(Line::Mute);
    let writer = store.clone();
    let waiting = tokio::spawn(async move { writer.append(commit("ses_a", 1, vec![idle("ses_a")])).await });
    until_stored(&url, 2).await;
    proxy.cut();
    let appended = waiting.await.unwrap().unwrap();
    assert_eq!((appended.head, appended.position), (2, 2));
    assert_eq!(seen.positions(), [1, 2]);
    let next = store.append(commit("ses_a", 2, vec![idle("ses_a")])).await.unwrap();
    assert_eq!(next.position, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_did_not_arrive_is_sent_again() {
    let Some(databases) = Databases::start() else { return };
    databases.url();
    let proxy = Proxy::start(databases.socket());
    let (store, seen) = open(&proxy.url("test0"), Options::default()).await;
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    until_settled(&store).await;
    proxy.set(Line::Deaf);
    let writer = store.clone();
    let waiting = tokio::spawn(async move { writer.append(commit("ses_a", 1, vec![idle("ses_a")])).await });
    until(|| store.stats().snapshot().waiting == 0).await;
    proxy.cut();
    let appended = waiting.await.unwrap().unwrap();
    assert_eq!((appended.head, appended.position), (2, 2));
    assert_eq!(seen.positions(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_fail_while_the_database_is_unreachable_and_succeed_afterwards() {
    let Some(mut databases) = Databases::start() else { return };
    let url = databases.url();
    let (store, seen) = open(&url, Options { patience: Duration::ZERO, ..Options::default() }).await;
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    databases.cluster().kill().unwrap();
    let error = store.append(commit("ses_a", 1, vec![idle("ses_a")])).await.unwrap_err();
    assert_eq!(error.failure, StoreFailure::Unavailable);
    assert!(store.count().await.is_err());
    databases.cluster().run().unwrap();
    let again = async {
        loop {
            match store.append(commit("ses_a", 1, vec![idle("ses_a")])).await {
                Ok(appended) => return appended,
                Err(error) => assert_eq!(error.failure, StoreFailure::Unavailable),
            }
        }
    };
    assert_eq!(timeout(DEADLINE, again).await.expect("the database is back").position, 2);
    assert_eq!(seen.positions(), [1, 2]);
    assert_eq!(store.count().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_commit_that_was_given_up_is_published_when_the_database_is_back() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let proxy = Proxy::start(databases.socket());
    let options = Options { patience: Duration::ZERO, ..Options::default() };
    let (store, seen) = open(&proxy.url("test0"), options).await;
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    until_settled(&store).await;
    proxy.set(Line::Mute);
    let writer = store.clone();
    let waiting = tokio::spawn(async move { writer.append(commit("ses_a", 1, vec![idle("ses_a")])).await });
    until_stored(&url, 2).await;
    proxy.refuse(true);
    proxy.cut();
    assert_eq!(waiting.await.unwrap().unwrap_err().failure, StoreFailure::Unavailable);
    proxy.refuse(false);
    until(|| seen.newest() == 2).await;
    assert_eq!(seen.positions(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_has_lost_commits_begins_a_new_generation() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (store, _) = open(&url, Options::default()).await;
    store.append(commit("ses_a", 0, vec![created("ses_a"), idle("ses_a")])).await.unwrap();
    let client = connect(&url).await;
    let lose = "DELETE FROM baton.log WHERE position = 2; DELETE FROM baton.event WHERE seq = 2;
        UPDATE baton.session SET head = 1";
    client.batch_execute(lose).await.unwrap();
    client.query(TERMINATE, &[]).await.unwrap();
    let error = store.append(commit("ses_a", 2, vec![idle("ses_a")])).await.unwrap_err();
    assert!(error.message.contains("lost acknowledged commits"), "{}", error.message);
    store.close().await.unwrap();
    let (store, _) = open(&url, Options::default()).await;
    let appended = store.append(commit("ses_a", 1, vec![idle("ses_a")])).await.unwrap();
    assert_eq!(appended.position, (1 << 40) + 1, "no position of the old generation is used again");
}
