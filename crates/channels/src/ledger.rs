//! The channels' durable state: updates until they are answered, posts until they are sent, and the users of each
//! place.
//!
//! One thread uses one SQLite file. A caller waits until its change is on disk; concurrent callers share a commit.
//! A gateway holds a lock file as long as it runs, so that there is only one; a second process, such as `baton
//! channels pair`, may open the ledger beside it for small changes.

mod asks;
mod channels;
mod moves;
mod places;
mod posts;
mod schema;
mod shown;
#[cfg(test)]
mod tests;
mod thread;
mod updates;
mod users;

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
pub use places::PlaceState;
pub use posts::{Held, Outgoing, PostId};
pub use updates::{PendingUpdate, Run, State, UpdateId};
pub use users::{CODE_LIFE, Paired, Roles};

/// The current time.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// Failures of the ledger.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("another gateway is running with {0}; stop it, or choose another data directory")]
    InUse(PathBuf),
    #[error("{path}: {reason}")]
    File { path: PathBuf, reason: String },
    #[error("{0} was written by a newer version of Baton; use that version")]
    Newer(PathBuf),
    #[error(
        "no space is left for the ledger of the channels: make room on the disk that holds the data directory"
    )]
    Full,
    /// Another change in the same transaction failed, and both were rolled back.
    #[error(
        "cannot write the channels' ledger: the transaction was rolled back because another change in it failed"
    )]
    Undone,
    #[error("cannot read or write the channels' ledger: {0}")]
    Sql(Arc<rusqlite::Error>),
    #[error("the channels' ledger has a row that cannot be parsed: {0}")]
    Unreadable(Arc<serde_json::Error>),
    #[error("the channels' ledger is closed")]
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

pub struct Ledger {
    jobs: std::sync::mpsc::Sender<thread::Job>,
    clock: Clock,
    /// The file lock that keeps a second gateway out; `None` for a visitor.
    _lock: Option<File>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Ledger")
    }
}

impl Ledger {
    /// Opens or creates a gateway's ledger. Fails if another gateway has it open.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, Error> {
        let lock = lock(path)?;
        Self::start(path, clock, Some(lock))
    }

    /// Opens the ledger beside a gateway that may be running, for commands such as `baton channels pair`.
    pub fn visit(path: &Path, clock: Clock) -> Result<Self, Error> {
        Self::start(path, clock, None)
    }

    fn start(path: &Path, clock: Clock, lock: Option<File>) -> Result<Self, Error> {
        let connection = schema::open(path)?;
        let jobs = thread::start(connection).map_err(|error| file(path, &error))?;
        Ok(Self { jobs, clock, _lock: lock })
    }

    /// Returns true if a gateway uses the ledger at this path. The lock ends with its process, however it ends.
    pub(crate) fn is_in_use(path: &Path) -> bool {
        // Opened for writing, because some file systems cannot lock a file that is open for reading only.
        let lock = File::options().write(true).open(path.with_extension("lock"));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    pub fn now(&self) -> Millis {
        (self.clock)()
    }

    /// Runs `work` on the ledger's thread. Its changes are on disk when this returns.
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

/// Takes the lock file beside the ledger.
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
