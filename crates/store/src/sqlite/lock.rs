//! One server per database, by two locks of the operating system.
//!
//! The decisive lock is on the database file itself, so that it holds under every name of the file: a hard link, a
//! symbolic link, another mount. A second lock, on a file beside it, contains the id of the process that has the
//! database, for the error message of a second server, and keeps out servers that know only this lock. That file
//! stays when the server ends: removing it would let two processes lock two different files of the same name.
//!
//! The kernel drops both locks when their holder dies, however it dies, so there is no stale lock to clear. They
//! are `flock(2)` locks, which on a local file system are independent of the `fcntl(2)` locks that SQLite takes on
//! the same file. Where the two are the same thing (NFS, for one), our own lock would lock SQLite out; there only
//! the lock beside the file is taken.
//!
//! **Closing any descriptor of a file drops all `fcntl(2)` locks of the process on it**, SQLite's included. So a
//! [`Lock`] must be dropped after the last connection to the database.
//!
//! A child process can hold the locks for a moment after their holder has died: it inherits them at the fork and
//! keeps them until its own program begins. A server that is started right after a crash must not fail because of
//! that.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::FlockOperation,
    io::Errno,
    process::{Pid, test_kill_process},
};

/// Time to wait for a lock that a dead server's child process still holds.
const LEFT_BEHIND: Duration = Duration::from_secs(5);

/// Time to wait if the database is locked under another name, so that it is unknown whether the holder is dead.
const LEFT_ELSEWHERE: Duration = Duration::from_millis(500);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// The locks of one database, released when it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    /// The database file; `None` where a lock on it would lock SQLite out.
    _database: Option<File>,
    _beside: File,
}

/// The reason why the lock was not taken.
#[derive(Debug)]
pub(super) enum Refused {
    /// Another process holds the lock, with its id if it could be read.
    Held(Option<u32>),
    /// Another process has the database open under another name, or its lock file was removed.
    HeldElsewhere,
    /// Locking failed: the step, as in "could not be locked", and the error.
    Io(&'static str, io::Error),
}

impl Lock {
    /// Takes the lock of a database, which is created empty if it does not exist. Blocks.
    #[expect(
        clippy::disallowed_methods,
        reason = "the kernel does not tell when a lock is released, and opening blocks"
    )]
    pub(super) fn take(database: &Path) -> Result<Self, Refused> {
        let begun = Instant::now();
        Self::take_or(database, |patience| {
            std::thread::sleep(PAUSE);
            begun.elapsed() < patience
        })
    }

    /// Like [`Lock::take`], where `wait` pauses and returns true if the given time has not passed yet.
    fn take_or(database: &Path, mut wait: impl FnMut(Duration) -> bool) -> Result<Self, Refused> {
        loop {
            let refused = match Self::try_take(database) {
                Ok(lock) => return Ok(lock),
                Err(refused) => refused,
            };
            let patience = match refused {
                Refused::Held(Some(holder)) if is_dead(holder) => LEFT_BEHIND,
                Refused::HeldElsewhere => LEFT_ELSEWHERE,
                Refused::Held(_) | Refused::Io(..) => return Err(refused),
            };
            if !wait(patience) {
                return Err(refused);
            }
        }
    }

    fn try_take(database: &Path) -> Result<Self, Refused> {
        let locked = |error| Refused::Io("locked", error);
        let mut beside = open(&beside(database)).map_err(locked)?;
        if !lock(&beside).map_err(locked)? {
            return Err(Refused::Held(holder(&mut beside)));
        }
        let file = open(database).map_err(|error| Refused::Io("opened for writing", error))?;
        // The path may meanwhile name another file, which another server may have locked.
        if !lock(&file).map_err(locked)? || !is_same(&file, database).map_err(locked)? {
            return Err(Refused::HeldElsewhere);
        }
        let interferes = interferes(&file).map_err(locked)?;
        if interferes {
            tracing::warn!(path = %database.display(), "the file system cannot lock the database file itself; do not remove the .lock file beside it while a server runs");
        }
        // The process id is only for an error message, so it may be missing on a full disk.
        let _ = beside.set_len(0).and_then(|()| writeln!(beside, "{}", std::process::id()));
        Ok(Self { _database: (!interferes).then_some(file), _beside: beside })
    }
}

/// Takes the lock; returns false if another process holds it. It is released when the file is closed.
fn lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if the path still names the file.
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    let (ours, named) = (file.metadata()?, fs::metadata(path)?);
    Ok((ours.dev(), ours.ino()) == (named.dev(), named.ino()))
}

/// Returns true if our lock on the file conflicts with the kind of lock that SQLite takes. This process has no
/// connection yet, so no lock of SQLite's can be lost.
fn interferes(file: &File) -> io::Result<bool> {
    match rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingUnlock)?;
            Ok(false)
        }
        Err(Errno::WOULDBLOCK | Errno::ACCESS) => {
            rustix::fs::flock(file, FlockOperation::NonBlockingUnlock)?;
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn is_dead(process: u32) -> bool {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH))
}

fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No system assigns this process id.
    const NOBODY: i32 = i32::MAX;

    fn held_by(database: &Path, process: impl std::fmt::Display) -> File {
        let mut file = open(&beside(database)).unwrap();
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        write!(file, "{process}").unwrap();
        file
    }

    #[test]
    fn a_lock_left_to_a_child_of_a_dead_server_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("baton.db");
        let mut left = Some(held_by(&database, NOBODY));
        let lock = Lock::take_or(&database, |_| left.take().is_some());
        assert!(lock.is_ok(), "{lock:?}");
        let text = std::fs::read_to_string(beside(&database)).unwrap();
        assert_eq!(text.trim(), std::process::id().to_string());
    }

    #[test]
    fn a_live_server_is_not_waited_for_and_every_wait_ends() {
        let directory = tempfile::tempdir().unwrap();
        for (process, times) in [(i32::try_from(std::process::id()).unwrap(), 0), (NOBODY, 3)] {
            let database = directory.path().join(process.to_string());
            let _held = held_by(&database, process);
            let mut waited = 0;
            let refused = Lock::take_or(&database, |_| {
                waited += 1;
                waited < 3
            });
            let id = u32::try_from(process).ok();
            assert!(matches!(refused, Err(Refused::Held(pid)) if pid == id), "{refused:?}");
            assert_eq!(waited, times);
        }
    }

    /// A second server that opens the database under another name.
    fn second(database: &Path) -> Result<Lock, Refused> {
        Lock::take_or(database, |_| false)
    }

    #[test]
    fn the_lock_is_on_the_database_under_every_name() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("baton.db");
        let lock = Lock::take(&database).unwrap();
        let other = directory.path().join("other");
        fs::create_dir(&other).unwrap();
        let (linked, pointed, through) =
            (other.join("linked.db"), other.join("pointed.db"), other.join("through"));
        fs::hard_link(&database, &linked).unwrap();
        std::os::unix::fs::symlink(&database, &pointed).unwrap();
        std::os::unix::fs::symlink(directory.path(), &through).unwrap();
        for name in [&linked, &pointed] {
            assert!(matches!(second(name), Err(Refused::HeldElsewhere)), "{}", name.display());
        }
        let ours = Some(std::process::id());
        let refused = second(&through.join("baton.db"));
        assert!(matches!(&refused, Err(Refused::Held(pid)) if *pid == ours), "{refused:?}");
        fs::remove_file(beside(&database)).unwrap();
        assert!(matches!(second(&database), Err(Refused::HeldElsewhere)), "without the file beside it");
        drop(lock);
        second(&linked).unwrap();
    }

    #[test]
    fn a_lock_under_another_name_is_retried_briefly() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("baton.db");
        let mut held = Some(open(&database).unwrap());
        assert!(lock(held.as_ref().unwrap()).unwrap());
        let taken = Lock::take_or(&database, |patience| patience == LEFT_ELSEWHERE && held.take().is_some());
        assert!(taken.is_ok(), "{taken:?}");
    }

    #[test]
    fn sqlite_can_lock_the_file_meanwhile() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("baton.db");
        let _lock = Lock::take(&database).unwrap();
        let connection = rusqlite::Connection::open(&database).unwrap();
        connection.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE it (works); COMMIT").unwrap();
    }
}
