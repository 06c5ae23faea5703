//! Images of a database as a power cut leaves it.
//!
//! A server syncs the write-ahead log before it answers a prompt. So everything that was answered before a moment
//! must survive every cut of the log after the log's end at that moment, however the rest of it is lost or torn.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use testkit::dice::Dice;

/// Size of the header of a write-ahead log.
const HEADER: usize = 32;
/// Size of the header of each of its frames.
const FRAME: usize = 24;
/// Offsets in the header: the page size, and the salt that changes whenever the log restarts.
const PAGE_SIZE_AT: usize = 8;
const SALT_AT: usize = 16;
/// Offset in the shared-memory file: the number of frames that may have been moved into the database.
const MOVED_AT: usize = 128;

/// The three files of a database at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    pub(crate) database: Vec<u8>,
    pub(crate) log: Vec<u8>,
    pub(crate) index: Vec<u8>,
}

impl Image {
    /// Reads the files of a frozen server.
    pub(crate) fn take(data: &Path) -> Result<Self> {
        let read = |name: &str| fs::read(data.join(name)).with_context(|| format!("cannot read {name}"));
        Ok(Self {
            database: read("baton.db")?,
            log: read("baton.db-wal").unwrap_or_default(),
            index: read("baton.db-shm").unwrap_or_default(),
        })
    }

    /// Writes the files into another data directory; without the index if it is empty, as after a real power cut.
    pub(crate) fn put(&self, data: &Path) -> Result<()> {
        fs::create_dir_all(data)?;
        fs::write(data.join("baton.db"), &self.database)?;
        fs::write(data.join("baton.db-wal"), &self.log)?;
        if !self.index.is_empty() {
            fs::write(data.join("baton.db-shm"), &self.index)?;
        }
        Ok(())
    }

    fn frame_size(&self) -> usize {
        FRAME + number_be(&self.log, PAGE_SIZE_AT).unwrap_or(4096) as usize
    }

    /// Changes whenever the log restarts, after everything in it was moved into the database.
    fn salt(&self) -> Option<&[u8]> {
        self.log.get(SALT_AT..SALT_AT + 8)
    }

    /// The end of the frames that belong to the current log; older ones may follow.
    pub(crate) fn end(&self) -> usize {
        let (size, mut end) = (self.frame_size(), HEADER);
        while let Some(salt) = self.log.get(end + 8..end + 16)
            && Some(salt) == self.salt()
            && self.log.len() >= end + size
        {
            end += size;
        }
        end.min(self.log.len())
    }

    /// The first byte at which the log may be cut: after its end at the earlier moment, and after the frames that
    /// may have been moved into the database, because a server syncs the log before it moves any.
    pub(crate) fn safe(&self, earlier: &Self) -> usize {
        let before = if self.salt() == earlier.salt() { earlier.end() } else { HEADER };
        let moved = number_ne(&self.index, MOVED_AT).unwrap_or(0) as usize;
        before.max(HEADER + moved * self.frame_size()).min(self.end())
    }

    /// Cuts the log somewhere after `safe`.
    pub(crate) fn cut(&mut self, safe: usize, dice: &mut Dice) {
        let end = self.end();
        let at = safe + random(dice, end.saturating_sub(safe) + 1);
        self.log.truncate(at);
    }

    /// Cuts the log and adds garbage after its end, as a torn write does.
    pub(crate) fn tear(&mut self, safe: usize, dice: &mut Dice) {
        self.cut(safe, dice);
        let garbage = 1 + random(dice, 2 * self.frame_size());
        self.log.extend((0..garbage).map(|_| u8::try_from(dice.roll(256)).unwrap_or(0)));
    }

    /// Flips bits in the database or its log. The result depends on SQLite's and Baton's checks.
    pub(crate) fn damage(&mut self, dice: &mut Dice) -> Result<()> {
        let file = if dice.roll(2) == 0 { &mut self.database } else { &mut self.log };
        ensure!(!file.is_empty(), "there is nothing to damage");
        for _ in 0..=dice.roll(8) {
            let at = random(dice, file.len());
            if let Some(byte) = file.get_mut(at) {
                *byte ^= 1 << dice.roll(8);
            }
        }
        Ok(())
    }
}

fn random(dice: &mut Dice, below: usize) -> usize {
    usize::try_from(dice.roll(below as u64)).unwrap_or(0)
}

fn number_be(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn number_ne(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with a write-ahead log.
    fn database() -> (tempfile::TempDir, rusqlite::Connection) {
        let directory = tempfile::tempdir().unwrap();
        let connection = rusqlite::Connection::open(directory.path().join("baton.db")).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (n INTEGER);",
            )
            .unwrap();
        (directory, connection)
    }

    fn add(connection: &rusqlite::Connection, rows: i64) {
        for row in 0..rows {
            connection.execute("INSERT INTO t VALUES (?1)", [row]).unwrap();
        }
    }

    fn rows(image: &Image) -> i64 {
        let directory = tempfile::tempdir().unwrap();
        Image { index: Vec::new(), ..image.clone() }.put(directory.path()).unwrap();
        let connection = rusqlite::Connection::open(directory.path().join("baton.db")).unwrap();
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_cut_keeps_everything_from_the_earlier_moment() {
        let (directory, connection) = database();
        add(&connection, 10);
        let earlier = Image::take(directory.path()).unwrap();
        add(&connection, 10);
        let later = Image::take(directory.path()).unwrap();
        assert_eq!(later.end(), later.log.len());
        let safe = later.safe(&earlier);
        assert!(safe < later.end());
        for seed in 0..20 {
            for change in [Image::cut, Image::tear] {
                let mut image = later.clone();
                change(&mut image, safe, &mut Dice::new(seed));
                assert!((10..=20).contains(&rows(&image)), "seed {seed}");
            }
        }
    }

    #[test]
    fn frames_of_an_older_log_do_not_count() {
        let (directory, connection) = database();
        add(&connection, 20);
        let earlier = Image::take(directory.path()).unwrap();
        connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        add(&connection, 2);
        let later = Image::take(directory.path()).unwrap();
        assert!(later.end() < later.log.len(), "older frames follow");
        assert_eq!(later.safe(&earlier), HEADER, "the database has everything from before");
        let mut image = later.clone();
        image.log.truncate(later.safe(&earlier));
        assert_eq!(rows(&image), 20);
    }

    #[test]
    fn frames_moved_into_the_database_are_not_cut() {
        let (directory, connection) = database();
        add(&connection, 5);
        let earlier = Image::take(directory.path()).unwrap();
        add(&connection, 5);
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        let later = Image::take(directory.path()).unwrap();
        assert_eq!(later.safe(&earlier), later.end());
    }
}
