//! Returns unused space to the file system.
//!
//! SQLite reuses the pages of removed rows but never shrinks the file, nor the write-ahead log after a large
//! transaction. An idle writer therefore returns free pages in small steps, and empties a large log. Files that
//! were created before this was possible are converted once at the start if they are small. Converting larger ones
//! would take too long, so they keep their size; docs/limits.md describes how to convert them by hand.

use std::{fs, path::Path, time::Duration};

use rusqlite::Connection;

use super::open::BUSY;

/// `PRAGMA auto_vacuum`: free pages can be returned on demand.
const INCREMENTAL: u32 = 2;

/// Files up to this size are converted at the start, which takes a fraction of a second.
const CONVERT_BYTES: u64 = 32 * 1024 * 1024;

/// Maximum number of pages that one transaction returns (2 MiB), because commits wait for it.
const STEP_PAGES: u64 = 512;

/// Free pages to keep for the next writes (4 MiB).
const SPARE_PAGES: u64 = 1_024;

/// Size above which an idle writer truncates the write-ahead log.
pub(super) const LOG_BYTES: u64 = 16 * 1024 * 1024;

/// Enables the return of free pages in a new file, and in an existing one if that is quick.
pub(super) fn prepare(connection: &Connection) {
    let convert = || -> rusqlite::Result<()> {
        let pages = number(connection, "page_count")?;
        if pages > 0 && number(connection, "auto_vacuum")? == u64::from(INCREMENTAL) {
            return Ok(());
        }
        let bytes = pages.saturating_mul(number(connection, "page_size")?);
        if bytes > CONVERT_BYTES {
            return Ok(());
        }
        connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
        if pages > 0 { connection.execute_batch("VACUUM") } else { Ok(()) }
    };
    // A file that cannot be converted, on a full disk for instance, works as before.
    if let Err(error) = convert() {
        tracing::warn!(%error, "failed to enable the return of free space; the database file will not shrink");
    }
}

/// The space that an idle writer has to return.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// True if rows were removed since the last check.
    removed: bool,
    /// True if pages were returned and the file has not shrunk yet.
    returned: bool,
    /// True if the write-ahead log may be large.
    log: bool,
}

impl Space {
    pub(super) fn removed(&mut self) {
        self.removed = true;
    }

    /// Records that the write-ahead log has grown beyond its limit.
    pub(super) fn log_grew(&mut self) {
        self.log = true;
    }

    /// Returns true if there may be space to return.
    pub(super) fn is_wanted(&self) -> bool {
        self.removed || self.log
    }

    /// Returns some space; returns true if there may be more.
    pub(super) fn give_back(&mut self, connection: &Connection, path: &Path) -> rusqlite::Result<bool> {
        if std::mem::take(&mut self.removed) {
            self.removed = shrink(connection)?;
            self.returned |= self.removed;
            // The file itself shrinks when the log is moved into it.
            self.log |= !self.removed && std::mem::take(&mut self.returned);
        } else if std::mem::take(&mut self.log) {
            cut_log(connection, path)?;
        }
        Ok(self.is_wanted())
    }
}

/// Returns some free pages; false if there were none.
fn shrink(connection: &Connection) -> rusqlite::Result<bool> {
    let free = number(connection, "freelist_count")?;
    let surplus = free.saturating_sub(SPARE_PAGES).min(STEP_PAGES);
    if surplus == 0 || number(connection, "auto_vacuum")? != u64::from(INCREMENTAL) {
        return Ok(false);
    }
    // Each step of the statement returns one page.
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({surplus})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    drop(rows);
    Ok(number(connection, "freelist_count")? < free)
}

/// Truncates the write-ahead log, unless a reader is using it.
fn cut_log(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if fs::metadata(log).map_or(0, |file| file.len()) == 0 {
        return Ok(());
    }
    // The writer must not wait for readers; the log is truncated another time then.
    connection.busy_timeout(Duration::ZERO)?;
    let cut = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    connection.busy_timeout(BUSY)?;
    cut
}

fn number(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}
