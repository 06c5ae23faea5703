//! Giving the disk back what is no longer used.
//!
//! SQLite reuses the pages of removed rows but keeps the file as large as it ever was, and the write-ahead log as large as
//! the largest transaction. An idle writer therefore returns free pages in small steps, and empties a large log. Files
//! that were created before this was possible are rewritten once at the start if they are small. Larger ones would take
//! too long, and stay as large as they are; docs/limits.md says how to convert them by hand.

use std::{fs, path::Path, time::Duration};

use rusqlite::Connection;

use super::open::BUSY;

/// `PRAGMA auto_vacuum`: free pages can be returned on demand.
const INCREMENTAL: u32 = 2;

/// Files up to this size are converted at the start, which takes a fraction of a second.
const CONVERT_BYTES: u64 = 32 * 1024 * 1024;

/// Pages that one transaction returns (2 MiB): it may stand between a commit and its turn.
const STEP_PAGES: u64 = 512;

/// Free pages that are kept for what is written next (4 MiB).
const SPARE_PAGES: u64 = 1_024;

/// Size above which the write-ahead log is cut when nothing reads or writes.
pub(super) const LOG_BYTES: u64 = 16 * 1024 * 1024;

/// Makes a new file return its free pages, and an existing one if that is quick.
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
        tracing::warn!(%error, "the database will not give back free space");
    }
}

/// What an idle writer has to give back.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// Whether rows were removed since the last look.
    removed: bool,
    /// Whether pages were returned that the file still has.
    returned: bool,
    /// Whether the write-ahead log may be large.
    log: bool,
}

impl Space {
    /// Something was removed.
    pub(super) fn removed(&mut self) {
        self.removed = true;
    }

    /// The write-ahead log has grown beyond what is kept.
    pub(super) fn log_grew(&mut self) {
        self.log = true;
    }

    /// Whether there may be something to give back.
    pub(super) fn is_wanted(&self) -> bool {
        self.removed || self.log
    }

    /// Gives back a little; tells whether there may be more.
    pub(super) fn give_back(&mut self, connection: &Connection, path: &Path) -> rusqlite::Result<bool> {
        if std::mem::take(&mut self.removed) {
            self.removed = shrink(connection)?;
            self.returned |= self.removed;
            // The file itself becomes shorter when the log is moved into it.
            self.log |= !self.removed && std::mem::take(&mut self.returned);
        } else if std::mem::take(&mut self.log) {
            cut_log(connection, path)?;
        }
        Ok(self.is_wanted())
    }
}

/// Returns some free pages; tells whether there were any.
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

/// Empties the write-ahead log if it is large and nobody reads from it just now.
fn cut_log(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if fs::metadata(log).map_or(0, |file| file.len()) == 0 {
        return Ok(());
    }
    // Whoever reads must not hold up the writer; the log is cut another time then.
    connection.busy_timeout(Duration::ZERO)?;
    let cut = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    connection.busy_timeout(BUSY)?;
    cut
}

fn number(connection: &Connection, name: &str) -> rusqlite::Result<u64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}
