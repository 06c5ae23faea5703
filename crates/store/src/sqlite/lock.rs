//! One server per database, by a lock of the operating system on a file beside it.
//!
//! The kernel drops the lock when its holder dies, however it dies, so there is no stale lock to clear. The
//! file itself stays: removing it would let two processes lock two different files of the same name.
//!
//! One thing can outlive the holder for a moment: a process that it was about to start shares the lock from the fork
//! until its own program begins. Whoever starts the server right after a crash must not be refused for that.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::FlockOperation,
    process::{Pid, test_kill_process},
};

/// How long a lock is waited for that a dead server has left to a process it was starting.
const LEFT_BEHIND: Duration = Duration::from_secs(5);

/// How often it is tried meanwhile.
const PAUSE: Duration = Duration::from_millis(10);

/// Held as long as it lives.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Why there is no lock.
#[derive(Debug)]
pub(super) enum Refused {
    /// Another process has it; its id, if it could be read.
    Held(Option<u32>),
    /// It could not be asked for.
    Io(io::Error),
}

impl Lock {
    /// Takes the lock of a database, or says who has it. Blocks.
    #[expect(
        clippy::disallowed_methods,
        reason = "nobody can be told when a lock is let go, and opening blocks"
    )]
    pub(super) fn take(database: &Path) -> Result<Self, Refused> {
        let begun = Instant::now();
        Self::take_or(database, || {
            std::thread::sleep(PAUSE);
            begun.elapsed() < LEFT_BEHIND
        })
    }

    /// The same, where `wait` tells whether there is time to try again when who took the lock is dead.
    fn take_or(database: &Path, mut wait: impl FnMut() -> bool) -> Result<Self, Refused> {
        loop {
            let mut file = open(database).map_err(Refused::Io)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    // The process id is a courtesy for the error message of whoever comes second.
                    file.set_len(0).map_err(Refused::Io)?;
                    writeln!(file, "{}", std::process::id()).map_err(Refused::Io)?;
                    return Ok(Self { _file: file });
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let holder = holder(&mut file);
                    if !holder.is_some_and(is_dead) || !wait() {
                        return Err(Refused::Held(holder));
                    }
                }
                Err(error) => return Err(Refused::Io(error.into())),
            }
        }
    }
}

fn open(database: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(beside(database))
}

fn is_dead(process: u32) -> bool {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id) == Err(rustix::io::Errno::SRCH))
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
        let mut file = open(database).unwrap();
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        write!(file, "{process}").unwrap();
        file
    }

    #[test]
    fn what_a_dead_server_was_starting_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("baton.db");
        let mut left = Some(held_by(&database, NOBODY));
        let lock = Lock::take_or(&database, || left.take().is_some());
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
            let refused = Lock::take_or(&database, || {
                waited += 1;
                waited < 3
            });
            let id = u32::try_from(process).ok();
            assert!(matches!(refused, Err(Refused::Held(pid)) if pid == id), "{refused:?}");
            assert_eq!(waited, times);
        }
    }
}
