//! Locks on files, so that only one change of a file runs at a time in this process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, MutexGuard};

type Table = HashMap<PathBuf, Arc<Mutex<()>>>;

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// Runs `work` while it holds the locks of these files.
pub(crate) fn hold<'a, T>(paths: impl IntoIterator<Item = &'a Path>, work: impl FnOnce() -> T) -> T {
    let mut paths: Vec<&Path> = paths.into_iter().collect();
    // Locks in a fixed order to avoid deadlocks between two holders of two files.
    paths.sort_unstable();
    paths.dedup();
    let locks: Vec<Arc<Mutex<()>>> = {
        let mut table = TABLE.lock();
        paths.iter().map(|path| Arc::clone(table.entry((*path).to_owned()).or_default())).collect()
    };
    let guards: Vec<MutexGuard<'_, ()>> = locks.iter().map(|lock| lock.lock()).collect();
    let result = work();
    drop(guards);
    drop(locks);
    // Removes locks that no other task holds or waits for.
    TABLE.lock().retain(|_, lock| Arc::strong_count(lock) > 1);
    result
}
