//! One server per database, by two locks of the operating system.
//!
//! The lock that counts is on the database file itself, so that it holds under every name of the file: a hard link, a
//! symbolic link, another mount. The lock on a file beside it says which process has the database, for the error
//! message of the one that comes second, and keeps out servers that know only this lock. That file stays when the
//! server ends: removing it would let two processes lock two different files of the same name.
//!
//! The kernel drops both when their holder dies, however it dies, so there is no stale lock to clear. They are
//! `flock(2)` locks, which on a local file system have nothing to do with the `fcntl(2)` locks that SQLite takes on
//! the same file. Where the two are the same thing (NFS, for one), SQLite would be locked out by our own lock; there
//! only the lock beside the file is taken.
//!
//! **Closing any descriptor of a file drops all `fcntl(2)` locks of the process on it**, SQLite's included. So a
//! [`Lock`] must be dropped after the last connection to the database.
//!
//! One thing can outlive the holder for a moment: a process that it was about to start shares the locks from the fork
//! until its own program begins. A server that is started right after a crash must not be refused for that.

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

/// How long a lock is waited for that a dead server has left to a process it was starting.
const LEFT_BEHIND: Duration = Duration::from_secs(5);

/// The same, if nobody can tell whether the holder is dead: the database is locked under another name.
const LEFT_ELSEWHERE: Duration = Duration::from_millis(500);

/// How often it is tried meanwhile.
const PAUSE: Duration = Duration::from_millis(10);

/// Held as long as it lives.
#[derive(Debug)]
pub(super) struct Lock {
    /// The database; none where a lock on it would lock SQLite out.
    _database: Option<File>,
    _beside: File,
}

/// Why there is no lock.
#[derive(Debug)]
pub(super) enum Refused {
    /// Another process has it; its id, if it could be read.
    Held(Option<u32>),
    /// Another process has the database open under another name, or its lock file was removed.
    HeldElsewhere,
    /// It could not be asked for; what failed, as in "could not be locked".
    Io(&'static str, io::Error),
}

impl Lock {
    /// Takes the lock of a database, which is created empty if there is none, or says who has it. Blocks.
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

    /// The same, where `wait` tells whether there is time to try again, of so much in all.
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
        // A file that was put in its place meanwhile may be locked by another server.
        if !lock(&file).map_err(locked)? || !is_same(&file, database).map_err(locked)? {
            return Err(Refused::HeldElsewhere);
        }
        let interferes = interferes(&file).map_err(locked)?;
        if interferes {
            tracing::warn!(path = %database.display(), "the file system cannot lock the database itself; the lock beside it must not be removed while a server runs");
        }
        // The process id is only for an error message: on a full disk it is missing.
        let _ = beside.set_len(0).and_then(|()| writeln!(beside, "{}", std::process::id()));
        Ok(Self { _database: (!interferes).then_some(file), _beside: beside })
    }
}

/// Whether the lock was free; it is ours then, until the file is closed.
fn lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the path still names the file.
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    let (ours, named) = (file.metadata()?, fs::metadata(path)?);
    Ok((ours.dev(), ours.ino()) == (named.dev(), named.ino()))
}

/// Whether our lock on the file keeps out the kind of lock that SQLite takes. This process has no connection yet, so
/// there is no lock of SQLite's to lose.
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

    /// No system gives a process such an id.
    const NOBODY: i32 = i32::MAX;

    fn held_by(database: &Path, process: impl std::fmt::Display) -> File {
        let mut file = open(&beside(database)).unwrap();
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        write!(file, "{process}").unwrap();
        file
    }

    #[test]
    fn what_a_dead_server_was_starting_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("baton.db");
        let mut left = Some(held_by(&database, NOBODY));
        let lock = Lock::take_or(&database, |_| left.take().is_some());
        assert!(lock.is_ok(), "{lock:?}");
        let text = std::fs::read_to_string(beside(&database)).unwrap();
        assert_eq!(text.trim(), std::process::id().to_string());
    }

    #[test]
    fn a_server_that_lives_is_not_waited_for_nor_anybody_for_ever() {
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

    /// A second server that comes with another name for the database.
    fn second(database: &Path) -> Result<Lock, Refused> {
        Lock::take_or(database, |_| false)
    }

    #[test]
    fn the_lock_is_on_the_database_whatever_it_is_called() {
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
    fn a_lock_under_another_name_is_waited_for_a_moment() {
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
