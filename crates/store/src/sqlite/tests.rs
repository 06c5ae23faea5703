//! Tests of what only a file on a disk has: opening and refusing, grouping, a full disk, retention.

mod forgetting;
mod full;
mod opening;
mod space;
mod writing;

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::atomic::{AtomicI64, Ordering},
};

use engine::ports::{Encoded, Logged};
use protocol::Millis;
use tempfile::TempDir;

use super::*;
use crate::contract::Seen;

/// A directory for a database, and the options to open it with.
struct TestDatabase {
    directory: TempDir,
    options: Options,
}

impl TestDatabase {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), options: Options::default() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("baton.db")
    }

    fn try_open(&self) -> Result<Arc<Sqlite>, OpenError> {
        Sqlite::open(&self.path(), self.options.clone(), Arc::new(Seen::default()))
    }

    fn open(&self) -> Arc<Sqlite> {
        self.try_open().unwrap()
    }

    fn open_with(&self, observer: Arc<dyn Observer>) -> Arc<Sqlite> {
        Sqlite::open(&self.path(), self.options.clone(), observer).unwrap()
    }

    /// The files of the directory with their bytes, except the lock and the shared memory, which are not data.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .filter(|(name, _)| !["baton.db.lock", "baton.db-shm"].contains(&name.as_str()))
            .collect()
    }
}

/// A clock that the test sets.
#[derive(Default)]
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}

/// An observer that blocks the writer at its first commit until the test lets it continue.
struct Gate(Mutex<Option<mpsc::Receiver<()>>>);

impl Gate {
    fn closed() -> (Arc<Self>, mpsc::Sender<()>) {
        let (release, held) = mpsc::channel();
        (Arc::new(Self(Mutex::new(Some(held)))), release)
    }
}

impl Observer for Gate {
    fn committed(&self, _: Vec<Logged>) {
        if let Some(held) = self.0.lock().unwrap().take() {
            held.recv().unwrap();
        }
    }
}

/// Appends in a background task.
fn spawn(
    store: &Arc<Sqlite>,
    session: &str,
    expected: u64,
    events: Vec<Encoded>,
) -> tokio::task::JoinHandle<Result<Appended, Error>> {
    let (store, commit) = (Arc::clone(store), crate::contract::commit(session, expected, events));
    tokio::spawn(async move { store.append(commit).await })
}

/// Waits until `count` commits are in the writer's queue.
async fn waiting(store: &Sqlite, count: usize) {
    while store.stats.snapshot().waiting < count {
        tokio::task::yield_now().await;
    }
}
