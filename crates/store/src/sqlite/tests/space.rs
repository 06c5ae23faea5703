//! Returning unused space.

use rusqlite::Connection;

use super::*;
use crate::contract::{commit, created, deleted, saved, text, user};

/// Parts of a long session, and bytes of each.
const PARTS: usize = 120;
const PART_BYTES: usize = 100_000;

/// More than the pages kept in reserve, much less than the session.
const SHRUNK: u64 = 8 * 1024 * 1024;

/// Time for the writer, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(2);

fn size(place: &TestDatabase, suffix: &str) -> u64 {
    let mut name = place.path().into_os_string();
    name.push(suffix);
    fs::metadata(PathBuf::from(name)).map_or(0, |file| file.len())
}

async fn write_long_session(store: &Sqlite) -> u64 {
    let mut head = store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap().head;
    let words = "x".repeat(PART_BYTES);
    for n in 0..PARTS {
        let message = format!("msg_{n:05}");
        let part = text("ses_a", &message, "prt_1", &words, Some(1));
        let events = vec![user("ses_a", &message, 1), saved(&part)];
        head = store.append(commit("ses_a", head, events)).await.unwrap().head;
    }
    head
}

#[tokio::test]
async fn deleting_a_long_session_gives_its_space_back() {
    let place = TestDatabase::new();
    let store = place.open();
    let head = write_long_session(&store).await;
    assert!(size(&place, "") + size(&place, "-wal") > 2 * SHRUNK);
    store.append(commit("ses_a", head, vec![deleted("ses_a")])).await.unwrap();
    let other = store.append(commit("ses_b", 0, vec![created("ses_b")])).await.unwrap().head;
    let shrunk = async {
        while size(&place, "") > SHRUNK || size(&place, "-wal") > crate::sqlite::space::LOG_BYTES {
            // Each call lets the writer be idle for a moment.
            store.append(commit("ses_b", other, vec![])).await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, shrunk).await.unwrap();
}

#[tokio::test]
async fn a_small_database_that_could_not_give_space_back_is_converted() {
    let place = TestDatabase::new();
    let store = place.open();
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    store.close().await.unwrap();
    let mode = || -> u32 {
        let connection = Connection::open(place.path()).unwrap();
        connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).unwrap()
    };
    assert_eq!(mode(), 2, "a new database can");
    Connection::open(place.path()).unwrap().execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").unwrap();
    assert_eq!(mode(), 0);
    let store = place.open();
    assert_eq!(engine::ports::Reads::count(&*store).await.unwrap(), 1);
    store.close().await.unwrap();
    assert_eq!(mode(), 2);
}
