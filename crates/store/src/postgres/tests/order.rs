//! The order of the log: what a reader sees is always a dense prefix.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio_postgres::types::Type;

use super::{super::connect::LOCK_LOG, *};
use crate::contract::{created, created_with, deleted, updated};
use engine::ports::{Listing, Log as _, Reads as _};

const WRITERS: i64 = 16;
const COMMITS: i64 = 60;

/// The design rests on one property of Postgres: a commit is visible to new snapshots before its locks are released.
/// If it were not, the next writer could miss the newest row and give a number twice, or a reader could see position 8
/// before position 7.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn visible_positions_are_a_dense_prefix_under_concurrent_writers() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    open(&url, Options::default()).await.0.close().await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(watch(url.clone(), done.clone()));
    let writers: Vec<_> = (0..WRITERS).map(|number| tokio::spawn(write(url.clone(), number))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    assert!(watching.await.unwrap() > 0, "the watcher has looked");
    let row =
        connect(&url).await.query_one("SELECT count(*), max(position) FROM baton.log", &[]).await.unwrap();
    let kept = WRITERS * (COMMITS - COMMITS / 5) * 2;
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (kept, kept));
}

/// Appends two events at a time as a node of its own; every fifth transaction is rolled back.
async fn write(url: String, number: i64) {
    let client = connect(&url).await;
    let node = format!("node{number}");
    client.execute("INSERT INTO baton.node VALUES ($1, 1, 1)", &[&node]).await.unwrap();
    for commit in 1..=COMMITS {
        client.batch_execute(&format!("BEGIN; {LOCK_LOG}")).await.unwrap();
        let sql = "SELECT baton.append($1, 1, 1, pg_backend_pid(), '{}', '{}', $2, $2, $3, $4)";
        let (sessions, seqs) = (vec![&node; 2], vec![commit * 2, commit * 2 + 1]);
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
            (&node, Type::TEXT),
            (&sessions, Type::TEXT_ARRAY),
            (&seqs, Type::INT8_ARRAY),
            (&vec![10_i64, 20], Type::INT8_ARRAY),
        ];
        client.query_typed(sql, &values).await.unwrap();
        client.batch_execute(if commit % 5 == 0 { "ROLLBACK" } else { "COMMIT" }).await.unwrap();
    }
}

/// Looks at the log again and again; every state must be dense.
async fn watch(url: String, done: Arc<AtomicBool>) -> usize {
    let client = connect(&url).await;
    let (mut looks, mut newest) = (0, 0);
    while !done.load(Ordering::SeqCst) {
        let sql = "SELECT count(*), coalesce(max(position), 0), coalesce(max(total), 0) FROM baton.log";
        let row = client.query_one(sql, &[]).await.unwrap();
        let (count, last, total): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        assert_eq!(count, last, "positions are missing below the newest");
        assert_eq!(total, count * 15, "sizes are added up in the order of positions");
        assert!(last >= newest, "a position has vanished");
        newest = last;
        looks += 1;
    }
    looks
}

#[tokio::test]
async fn titles_with_nul_are_stored_and_found() {
    let Some(databases) = Databases::start() else { return };
    let (store, _) = open(&databases.url(), Options::default()).await;
    let title = serde_json::json!({ "title": "Zero \u{0} here" });
    let commit = crate::contract::commit("ses_a", 0, vec![created_with("ses_a", title)]);
    store.append(commit).await.unwrap();
    let search = Some("ZERO \u{0}".to_owned());
    let found = store.sessions(Listing { search, ..Listing::default() }).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].title, "Zero \u{0} here", "the body keeps the character");
}

#[tokio::test]
async fn the_log_is_trimmed_but_its_newest_row_stays() {
    let Some(databases) = Databases::start() else { return };
    let url = databases.url();
    let (store, _) = open(&url, Options::default()).await;
    let events = (0..9).map(|_| updated("ses_a", serde_json::json!({})));
    let events = std::iter::once(created("ses_a")).chain(events).collect();
    store.append(crate::contract::commit("ses_a", 0, events)).await.unwrap();
    store.close().await.unwrap();
    let keep = crate::sqlite::RetentionLimits { events: 3, ..Options::default().keep };
    let (store, _) = open(&url, Options { keep, ..Options::default() }).await;
    let last = store.append(crate::contract::commit("ses_a", 10, vec![deleted("ses_a")])).await.unwrap();
    // The writer trims after a commit and before the next job.
    store.forget(&crate::contract::id("psv_1")).await.unwrap();
    assert_eq!(store.bounds().await.unwrap(), (9, last.position));
    let again = store.append(crate::contract::commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    assert_eq!((again.head, again.position), (1, last.position + 1), "no position is used twice");
}
