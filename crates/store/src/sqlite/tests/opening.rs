//! Opening a database, and refusing to.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use engine::ports::{Alone, Fleet, Listing, Reads, Search, Span};
use rusqlite::{Connection, config::DbConfig};
use serde_json::json;

use super::*;
use crate::contract::{DIRECTORY, busy, commit, created, here, id, permitted_always, saved, text, user};

/// A closed database with some data.
async fn filled() -> TestDatabase {
    let place = TestDatabase::new();
    let store = place.open();
    let mut events = vec![created("ses_a"), busy("ses_a")];
    events.extend(
        (0..100).map(|n| saved(&text("ses_a", "msg_1", &format!("prt_{n}"), &"words ".repeat(100), Some(1)))),
    );
    store.append(commit("ses_a", 0, events)).await.unwrap();
    store.close().await.unwrap();
    place
}

#[tokio::test]
async fn a_reopened_database_has_everything() {
    let place = filled().await;
    let store = place.open();
    assert_eq!(store.bounds().await.unwrap(), (1, 102));
    assert_eq!(store.statuses(None).await.unwrap().len(), 1);
    assert_eq!(store.session(&id("ses_a")).await.unwrap().unwrap().1, 102);
    let appended = store.append(commit("ses_a", 102, vec![busy("ses_a")])).await.unwrap();
    assert_eq!(appended, Appended { head: 103, position: 103 });
}

#[tokio::test]
async fn closing_moves_everything_into_one_file_and_keeps_room_for_the_next_start() {
    let tidy = |place: &TestDatabase| {
        let files = place.files();
        let (database, log) = (&files["baton.db"], &files["baton.db-wal"]);
        !database.is_empty() && log.is_empty() && place.directory.path().join("baton.db-shm").exists()
    };
    let place = filled().await;
    assert!(tidy(&place));
    let store = place.open();
    store.append(commit("ses_b", 0, vec![created("ses_b")])).await.unwrap();
    for _ in 0..READERS * 2 {
        store.bounds().await.unwrap();
    }
    drop(store);
    assert!(tidy(&place), "dropping closes as well");
    assert_eq!(place.open().bounds().await.unwrap(), (1, 103));
}

#[tokio::test]
async fn a_process_that_died_leaves_all_it_acknowledged() {
    let place = TestDatabase::new();
    let store = place.open();
    for expected in 0..20 {
        let event = if expected == 0 { created("ses_a") } else { busy("ses_a") };
        store.append(commit("ses_a", expected, vec![event])).await.unwrap();
    }
    // The files at this moment are what a killed process would leave.
    let dead = TestDatabase::new();
    for (name, bytes) in place.files() {
        fs::write(dead.directory.path().join(name), bytes).unwrap();
    }
    assert!(dead.files().keys().any(|name| name.ends_with("-wal")));
    let store = dead.open();
    assert_eq!(store.bounds().await.unwrap(), (1, 20));
    store.append(commit("ses_a", 20, vec![busy("ses_a")])).await.unwrap();
}

#[tokio::test]
async fn only_the_owner_may_look() {
    let place = TestDatabase { directory: tempfile::tempdir().unwrap(), options: Options::default() };
    let path = place.directory.path().join("new/deep/baton.db");
    let store = Sqlite::open(&path, Options::default(), Arc::new(Seen::default())).unwrap();
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let files = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_second_opener_learns_the_process_of_the_first() {
    let place = TestDatabase::new();
    let store = place.open();
    let refused = place.try_open().unwrap_err();
    assert!(matches!(refused, OpenError::Locked { pid: Some(pid), .. } if pid == std::process::id()));
    let message = refused.to_string();
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    assert!(message.contains("baton.db"), "{message}");
    store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap();
    store.close().await.unwrap();
    place.open();
}

#[tokio::test]
async fn a_second_opener_is_refused_under_any_name() {
    let (place, other) = (filled().await, TestDatabase::new());
    fs::hard_link(place.path(), other.path()).unwrap();
    let store = place.open();
    let refused = other.try_open().unwrap_err();
    assert!(matches!(refused, OpenError::Locked { pid: None, .. }), "{refused}");
    fs::remove_file(place.directory.path().join("baton.db.lock")).unwrap();
    let refused = place.try_open().unwrap_err();
    assert!(matches!(refused, OpenError::Locked { pid: None, .. }), "{refused}");
    store.append(commit("ses_b", 0, vec![created("ses_b")])).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(other.open().bounds().await.unwrap(), (1, 103));
}

#[tokio::test]
async fn after_closing_everything_fails_clearly() {
    let place = TestDatabase::new();
    let store = place.open();
    store.close().await.unwrap();
    store.close().await.unwrap();
    let write = store.append(commit("ses_a", 0, vec![created("ses_a")])).await.unwrap_err();
    let read = store.bounds().await.unwrap_err();
    for refused in [write, read] {
        assert_eq!(refused.failure, StoreFailure::Unavailable);
        assert!(refused.message.contains("closed"), "{refused}");
    }
}

/// Checks that a refused database is byte for byte unchanged, with no new file beside it, and not locked.
fn refused(place: &TestDatabase) -> OpenError {
    let before = place.files();
    let modified = fs::metadata(place.path()).unwrap().mtime_nsec();
    let refused = place.try_open().unwrap_err();
    assert_eq!(place.files(), before, "{refused}");
    assert_eq!(fs::metadata(place.path()).unwrap().mtime_nsec(), modified);
    // Refused for the same reason, and not because a lock is still held.
    assert_eq!(place.try_open().unwrap_err().to_string(), refused.to_string());
    refused
}

#[test]
fn the_tables_of_a_new_database_are_created_in_one_transaction() {
    let place = TestDatabase::new();
    let mut new = Connection::open(place.path()).unwrap();
    super::super::schema::migrate(&mut new).unwrap();
    drop(new);
    let file = fs::read(place.path()).unwrap();
    assert_eq!(file[24..28], 1_u32.to_be_bytes(), "the number of transactions in the header of the file");
}

#[tokio::test]
async fn a_database_of_the_first_version_is_migrated() {
    let place = filled().await;
    let old = Connection::open(place.path()).unwrap();
    old.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).unwrap();
    old.execute_batch(BEFORE_WORKSPACES).unwrap();
    old.execute_batch(
        "DROP TABLE said_words; DROP TABLE said; ALTER TABLE session DROP COLUMN seen; DROP TABLE withdrawn;
         DROP TABLE outbox; DROP TABLE notice; DROP TABLE approval; DROP TABLE note",
    )
    .unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let store = place.open();
    assert_eq!(store.bounds().await.unwrap(), (1, 102), "nothing is lost");
    assert!(store.approvals(None).await.unwrap().is_empty());
    store.append(commit("ses_a", 102, vec![user("ses_a", "msg_1", 1)])).await.unwrap();
    let search = Search { words: vec!["words".into()], before: None, limit: 1_000 };
    assert_eq!(store.find(search).await.unwrap().len(), 100, "old texts are found, too");
    let reply = permitted_always("ses_a", "per_1", &[("psv_1", "/project", "make *")]);
    store.append(commit("ses_a", 103, vec![reply])).await.unwrap();
    store.close().await.unwrap();
    let again = place.open();
    assert_eq!(again.approvals(Some(&here())).await.unwrap().len(), 1);
}

/// Turns the tables into those of version 7, in which a directory stood for itself.
const BEFORE_WORKSPACES: &str = "
    DROP INDEX session_workspace;
    ALTER TABLE session DROP COLUMN workspace;
    DROP INDEX log_workspace;
    ALTER TABLE log DROP COLUMN workspace;
    CREATE INDEX log_directory ON log (directory);
    DROP TABLE approval;
    CREATE TABLE approval (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        directory TEXT NOT NULL,
        permission TEXT NOT NULL,
        pattern TEXT NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (directory, permission, pattern)
    ) STRICT;
";

#[tokio::test]
async fn directories_of_an_older_database_become_workspaces() {
    let place = filled().await;
    let old = Connection::open(place.path()).unwrap();
    old.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).unwrap();
    old.execute_batch(BEFORE_WORKSPACES).unwrap();
    let body = json!({
        "id": "psv_1", "projectID": "p", "directory": DIRECTORY, "action": "bash", "resource": "make *",
    });
    old.execute(
        "INSERT INTO approval VALUES (7, 'psv_1', ?1, 'bash', 'make *', ?2)",
        [DIRECTORY, &body.to_string()],
    )
    .unwrap();
    old.pragma_update(None, "user_version", 7).unwrap();
    drop(old);
    let store = place.open();
    let workspace = Alone.workspace(DIRECTORY);
    assert_eq!(store.workspace(&id("ses_a")).await.unwrap(), Some(workspace.clone()));
    assert_eq!(store.approvals(Some(&workspace)).await.unwrap().len(), 1);
    let span = Span { after: 0, upto: u64::MAX, workspace: Some(workspace.clone()), limit: usize::MAX };
    assert_eq!(store.replay(span).await.unwrap().len(), 102);
    let listing = Listing { workspace: Some(workspace), ..Listing::default() };
    assert_eq!(store.sessions(listing).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_newer_database_is_not_changed() {
    let place = filled().await;
    let newer = Connection::open(place.path()).unwrap();
    newer.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).unwrap();
    newer.pragma_update(None, "user_version", schema::VERSION + 1).unwrap();
    newer.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
    drop(newer);
    fs::remove_file(place.directory.path().join("baton.db.lock")).unwrap();
    let refused = refused(&place);
    assert!(matches!(refused, OpenError::Newer { found, .. } if found == schema::VERSION + 1));
    assert!(refused.to_string().contains("update Baton"), "{refused}");
    assert!(!place.directory.path().join("baton.db.lock").exists(), "not even a lock is left beside it");
}

#[tokio::test]
async fn a_newer_version_that_is_only_in_the_write_ahead_log_counts() {
    let place = filled().await;
    let newer = Connection::open(place.path()).unwrap();
    newer.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    newer.pragma_update(None, "user_version", schema::VERSION + 1).unwrap();
    drop(newer);
    assert!(place.files().contains_key("baton.db-wal"));
    assert!(matches!(refused(&place), OpenError::Newer { .. }));
}

#[tokio::test]
async fn damage_is_found_before_anything_is_written() {
    let place = filled().await;
    let mut bytes = fs::read(place.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xa5);
    fs::write(place.path(), &bytes).unwrap();
    let message = refused(&place).to_string();
    assert!(message.contains("is damaged") && message.contains("backup"), "{message}");

    fs::write(place.path(), &bytes[..middle]).unwrap();
    assert!(matches!(refused(&place), OpenError::Corrupt { .. }), "cut off");
}

#[tokio::test]
async fn damage_is_found_when_there_is_a_write_ahead_log() {
    let place = filled().await;
    let other = Connection::open(place.path()).unwrap();
    other.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    other.execute_batch("UPDATE retention SET trimmed = 0").unwrap();
    drop(other);
    let mut bytes = fs::read(place.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xa5);
    fs::write(place.path(), &bytes).unwrap();
    assert!(matches!(refused(&place), OpenError::Corrupt { .. }));
}

#[test]
fn foreign_files_are_not_changed() {
    let place = TestDatabase::new();
    fs::write(place.path(), "Dear diary,\n".repeat(50)).unwrap();
    assert!(matches!(refused(&place), OpenError::NotADatabase { .. }));
    fs::write(place.path(), "short").unwrap();
    assert!(matches!(refused(&place), OpenError::NotADatabase { .. }));

    fs::remove_file(place.path()).unwrap();
    let foreign = Connection::open(place.path()).unwrap();
    foreign.execute_batch("CREATE TABLE recipe (name TEXT)").unwrap();
    drop(foreign);
    assert!(matches!(refused(&place), OpenError::Foreign { .. }));
}

#[tokio::test]
async fn an_empty_file_is_a_new_database() {
    let place = TestDatabase::new();
    fs::write(place.path(), "").unwrap();
    assert_eq!(place.open().bounds().await.unwrap(), (1, 0));
}

#[tokio::test]
async fn a_path_may_have_any_name() {
    let place = TestDatabase::new();
    let path = place.directory.path().join("what? 100% #1 ü").join("baton.db");
    for expected in 0..2 {
        let store = Sqlite::open(&path, Options::default(), Arc::new(Seen::default())).unwrap();
        let event = if expected == 0 { created("ses_a") } else { busy("ses_a") };
        store.append(commit("ses_a", expected, vec![event])).await.unwrap();
        store.close().await.unwrap();
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let place = TestDatabase::new();
    fs::write(place.directory.path().join("file"), "").unwrap();
    let path = place.directory.path().join("file/baton.db");
    let refused = Sqlite::open(&path, Options::default(), Arc::new(Seen::default())).unwrap_err();
    assert!(matches!(refused, OpenError::Io { .. }));
    assert!(refused.to_string().contains("file"), "{refused}");
}
