//! One server per database, by a lock of the operating system on a file beside it.
//!
//! The kernel drops the lock when its holder dies, however it dies, so there is no stale lock to clear. The
//! file itself stays: removing it would let two processes lock two different files of the same name.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::FlockOperation;

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
    /// Takes the lock of a database, or says who has it.
    pub(super) fn take(database: &Path) -> Result<Self, Refused> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(beside(database))
            .map_err(Refused::Io)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Refused::Held(holder(&mut file))),
            Err(error) => return Err(Refused::Io(error.into())),
        }
        // The process id is a courtesy for the error message of whoever comes second.
        file.set_len(0).map_err(Refused::Io)?;
        writeln!(file, "{}", std::process::id()).map_err(Refused::Io)?;
        Ok(Self { _file: file })
    }
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
