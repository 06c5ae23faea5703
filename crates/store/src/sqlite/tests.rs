//! What is peculiar to a file on a disk: opening, refusing, filling up, forgetting.

use tempfile::TempDir;

use engine::ports::Reads;

use super::*;
use crate::contract::{Seen, busy, commit, created, id};

fn open(directory: &TempDir) -> Result<Arc<Sqlite>, OpenError> {
    Sqlite::open(&directory.path().join("baton.db"), Options::default(), Arc::new(Seen::default()))
}

#[tokio::test]
async fn a_reopened_database_has_everything() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory).unwrap();
    store.append(commit("ses_a", 0, vec![created("ses_a"), busy("ses_a")])).await.unwrap();
    store.close().await.unwrap();
    let store = open(&directory).unwrap();
    assert_eq!(store.bounds().await.unwrap(), (1, 2));
    assert_eq!(store.statuses().await.unwrap().len(), 1);
    let appended = store.append(commit("ses_a", 2, vec![busy("ses_a")])).await.unwrap();
    assert_eq!(appended, Appended { head: 3, position: 3 });
    assert!(store.session(&id("ses_a")).await.unwrap().is_some());
}
