//! What must survive a crash: updates until they are answered, posts until they are sent, and who talks where.
//!
//! One SQLite file, one thread that uses it. Whoever asks waits until what was asked for is on the disk; those who ask
//! at the same time share a commit. The file belongs to one gateway at a time, which holds a lock beside it; a second
//! process may only add what a person does by hand, such as a pairing code.

mod asks;
mod moves;
mod people;
mod places;
mod posts;
mod schema;
mod shown;
#[cfg(test)]
mod tests;
mod thread;
mod updates;

use std::{
    fmt,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::Millis;
use rusqlite::Connection;
use tokio::sync::oneshot;

pub use asks::{Ask, Asked};
pub use people::{CODE_LIFE, Paired, Roles};
pub use places::Seat;
pub use posts::{Held, Outgoing, PostId};
pub use updates::{Kept, Run, State, UpdateId};

/// What time it is.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// What went wrong with the ledger.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another gateway uses it.
    #[error("another gateway is running with {0}; stop it, or choose another data directory")]
    InUse(PathBuf),
    /// The file or its directory cannot be used.
    #[error("{path}: {reason}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It was written by a newer version.
    #[error("{0} was written by a newer version of Baton; use that version")]
    Newer(PathBuf),
    /// The disk is full.
    #[error(
        "no space is left for the ledger of the channels: make room on the disk that holds the data directory"
    )]
    Full,
    /// Something that was to be written together with it failed, and took it along.
    #[error("the ledger of the channels could not be written: what was to be written beside it failed")]
    Undone,
    /// SQLite says no.
    #[error("the ledger of the channels could not be read or written: {0}")]
    Sql(Arc<rusqlite::Error>),
    /// A row cannot be understood.
    #[error("the ledger of the channels holds something unreadable: {0}")]
    Unreadable(Arc<serde_json::Error>),
    /// It is closed.
    #[error("the ledger of the channels is closed")]
    Closed,
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Self::Full,
            _ => Self::Sql(Arc::new(error)),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(Arc::new(error))
    }
}

/// An open ledger.
pub struct Ledger {
    jobs: std::sync::mpsc::Sender<thread::Job>,
    clock: Clock,
    /// Held as long as this gateway lives.
    _lock: Option<File>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Ledger")
    }
}

impl Ledger {
    /// Opens or creates the ledger of a gateway, which nobody else may have open as such.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, Error> {
        let lock = lock(path)?;
        Self::start(path, clock, Some(lock))
    }

    /// Opens the ledger beside a gateway that may be running, for what a person does by hand.
    pub fn visit(path: &Path, clock: Clock) -> Result<Self, Error> {
        Self::start(path, clock, None)
    }

    fn start(path: &Path, clock: Clock, lock: Option<File>) -> Result<Self, Error> {
        let connection = schema::open(path)?;
        let jobs = thread::start(connection).map_err(|error| file(path, &error))?;
        Ok(Self { jobs, clock, _lock: lock })
    }

    /// What time it is.
    pub fn now(&self) -> Millis {
        (self.clock)()
    }

    /// Does something with the tables; what it changed is on the disk when this returns.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(thread::job(work, reply)).map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

fn file(path: &Path, error: &std::io::Error) -> Error {
    Error::File { path: path.to_owned(), reason: error.to_string() }
}

/// Takes the lock that lies beside the file.
fn lock(path: &Path) -> Result<File, Error> {
    let beside = path.with_extension("lock");
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| file(directory, &error))?;
    }
    let lock = File::create(&beside).map_err(|error| file(&beside, &error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(file(&beside, &error)),
    }
}
