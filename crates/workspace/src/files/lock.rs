//! One change of a file at a time, for everybody in this process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

type Table = HashMap<PathBuf, Arc<Mutex<()>>>;

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// Does something while nobody else who asks holds any of these files.
pub(crate) fn hold<'a, T>(paths: impl IntoIterator<Item = &'a Path>, work: impl FnOnce() -> T) -> T {
    let mut paths: Vec<&Path> = paths.into_iter().collect();
    // Always in the same order, or two holders of two files could wait for each other.
    paths.sort_unstable();
    paths.dedup();
    let locks: Vec<Arc<Mutex<()>>> = {
        let mut table = table();
        paths.iter().map(|path| Arc::clone(table.entry((*path).to_owned()).or_default())).collect()
    };
    let guards: Vec<MutexGuard<'_, ()>> =
        locks.iter().map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner)).collect();
    let result = work();
    drop(guards);
    drop(locks);
    // What only the table knows nobody waits for.
    table().retain(|_, lock| Arc::strong_count(lock) > 1);
    result
}

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}
