//! The default store: one SQLite file, one thread that writes, a few that read.
//!
//! | module | what it does |
//! |---|---|
//! | `open`, `lock` | opens a file for one process, or refuses it untouched |
//! | `schema` | the tables and their migrations |
//! | `project` | the rows that an event changes |
//! | `writer`, `retention`, `space` | group commit, keeping the log short, returning free space |
//! | `note` | the users' notes about projects, which are not events |
//! | `outbox` | notices for receivers |
//! | `readers`, `query`, `messages`, `reads` | the queries, and the threads they run on |

mod failure;
mod lock;
mod messages;
mod note;
mod open;
mod outbox;
mod project;
mod query;
mod readers;
mod reads;
mod retention;
mod schema;
mod search;
mod space;
mod writer;

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use engine::ports::{
    Alone, Appended, Clock, Commit, Error, Fence, Log, Observer, StoreFailure, StoreFuture, SystemClock,
};
use protocol::{ApprovalId, Part, project::ProjectNote};
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use crate::{
    change::PartRow,
    stats::Stats,
    work::{self, Reply, Work},
};
pub use open::OpenError;
use readers::Readers;
use retention::Retention;
pub use retention::{KEEP_AGE, KEEP_BYTES, KEEP_EVENTS, RetentionLimits};
use writer::{Job, Writer};

/// Maximum number of commits in the writer's queue; further callers wait for a permit.
const WAITING: usize = 1_024;

/// Default number of reading threads.
pub const READERS: usize = 4;

/// Time that closing waits for the writer. The next start rolls back whatever is not finished then.
const CLOSING: Duration = Duration::from_secs(5);

/// Time that the writer waits for running queries when the store closes.
const READERS_CLOSING: Duration = Duration::from_secs(2);

/// Options of a store.
#[derive(Clone)]
pub struct Options {
    pub keep: RetentionLimits,
    /// Number of reading threads.
    pub readers: usize,
    /// Determines the age of events.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self { keep: RetentionLimits::default(), readers: READERS, clock: Arc::new(SystemClock) }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options")
            .field("keep", &self.keep)
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}

/// An open database.
#[derive(Debug)]
pub struct Sqlite {
    path: Arc<Path>,
    /// `None` once the store is closed.
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    places: Arc<Semaphore>,
    readers: Readers,
    stats: Arc<Stats>,
    /// Disconnects when the writer has finished.
    finished: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Sqlite {
    /// Opens or creates a database. The observer receives every commit from now on.
    pub fn open(path: &Path, options: Options, observer: Arc<dyn Observer>) -> Result<Arc<Self>, OpenError> {
        let io = |doing| move |source| OpenError::Io { path: path.to_path_buf(), doing, source };
        // Absolute, so that SQLite cannot take it for a URI and a later change of directory does not matter.
        let path: Arc<Path> = std::path::absolute(path).map_err(io("found"))?.into();
        let (connection, lock) = open::open(&path)?;
        let stats = Arc::new(Stats::default());
        let writer = Writer::new(
            connection,
            lock,
            Arc::clone(&path),
            observer,
            options.clock,
            Arc::clone(&stats),
            Retention::new(options.keep),
        )
        .map_err(|source| OpenError::Sql { path: path.to_path_buf(), source })?;
        let (jobs, waiting) = mpsc::channel();
        // Nothing is ever sent through these two channels: their disconnection is the signal.
        let (reading, readers_gone) = mpsc::channel();
        let (running, finished) = mpsc::channel();
        thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || {
                let writer = writer.run(&waiting);
                // A running query holds on to a part of the write-ahead log.
                let readers = readers_gone.recv_timeout(READERS_CLOSING);
                writer.close(readers == Err(RecvTimeoutError::Disconnected));
                drop(running);
            })
            .map_err(io("written to: no thread"))?;
        let readers = Readers::start(&path, options.readers, &reading).map_err(io("read: no thread"))?;
        Ok(Arc::new(Self {
            path,
            jobs: Mutex::new(Some(jobs)),
            places: Arc::new(Semaphore::new(WAITING)),
            readers,
            stats,
            finished: Mutex::new(Some(finished)),
        }))
    }

    /// Counters for metrics.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// Writes everything that is queued, moves the write-ahead log into the file and releases the lock. Later calls
    /// fail.
    pub async fn close(&self) -> Result<(), Error> {
        let Some(finished) = self.hang_up() else { return Ok(()) };
        let waited = tokio::task::spawn_blocking(move || wait(&finished)).await.unwrap_or(false);
        if waited { Ok(()) } else { Err(self.still_busy()) }
    }

    /// Refuses new work and lets the threads finish. Returns the channel to wait for, once.
    fn hang_up(&self) -> Option<mpsc::Receiver<()>> {
        self.places.close();
        self.readers.close();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn ask<T>(&self, work: impl FnOnce(Reply<T>) -> Work) -> Result<T, Error> {
        let closed = || failure::closed(&self.path);
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let job = Job { work: work(reply), _place: place };
        self.stats.queued();
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if jobs.is_none_or(|jobs| jobs.send(job).is_err()) {
            self.stats.taken();
            return Err(closed());
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    fn still_busy(&self) -> Error {
        Error::new(
            StoreFailure::Unavailable,
            format!("{} was not closed within {CLOSING:?}; the next start recovers it", self.path.display()),
        )
    }
}

/// The lock of a data directory whose record is in another store. Programs that look for a server in the directory find
/// the one that holds it.
#[derive(Debug)]
pub struct Reservation(#[expect(dead_code, reason = "held until it is dropped")] lock::Lock);

impl Reservation {
    /// Takes the lock of the database at `path` without opening it.
    pub fn take(path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.to_path_buf(), doing: "found", source };
        open::reserve(&std::path::absolute(path).map_err(io)?).map(Self)
    }
}

/// A file that no server uses, for copying its record.
#[derive(Debug)]
pub(crate) struct File {
    connection: Connection,
    /// Dropped after the connection (see [`lock::Lock`]).
    _lock: lock::Lock,
}

impl File {
    /// Opens, checks and migrates the file.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.to_path_buf(), doing: "found", source };
        let (connection, lock) = open::open(&std::path::absolute(path).map_err(io)?)?;
        Ok(Self { connection, _lock: lock })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Keeps servers from opening the file again. The mark is in the file's header, outside of the write-ahead log.
    pub(crate) fn mark_moved(&self) -> rusqlite::Result<()> {
        self.connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
        self.connection.pragma_update(None, "application_id", schema::MOVED)
    }
}

/// Refuses a writer of another epoch. One process has the file for itself, so the epoch is constant.
fn check(fence: &Fence) -> Result<(), Error> {
    if fence.epoch == Alone::EPOCH {
        return Ok(());
    }
    let message = format!("{} has no epoch {} in a file of one server", fence.workspace, fence.epoch);
    Err(Error::new(StoreFailure::Fenced, message))
}

impl Log for Sqlite {
    fn append_all(&self, commits: Vec<Commit>) -> StoreFuture<'_, Appended> {
        Box::pin(async move {
            let since = Instant::now();
            commits.iter().try_for_each(|commit| check(&commit.fence))?;
            let commits = work::prepare(commits)?;
            self.ask(|reply| Work::Append { commits, since, reply }).await
        })
    }

    fn checkpoint(&self, fence: Fence, parts: Vec<Part>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            check(&fence)?;
            let parts = PartRow::of_open(&parts)?;
            if parts.is_empty() {
                return Ok(());
            }
            self.ask(|reply| Work::Checkpoint { fence, parts, reply }).await
        })
    }

    fn note(&self, project: &str, newer: ProjectNote) -> StoreFuture<'_, ProjectNote> {
        let project = project.to_owned();
        Box::pin(async move { self.ask(|reply| Work::Note { project, newer, reply }).await })
    }

    fn forget(&self, approval: &ApprovalId) -> StoreFuture<'_, bool> {
        let approval = approval.clone();
        Box::pin(async move { self.ask(|reply| Work::Forget { approval, reply }).await })
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if let Some(finished) = self.hang_up()
            && !wait(&finished)
        {
            tracing::error!(error = %self.still_busy(), "the store was dropped before its writer had finished");
        }
    }
}

/// Returns true if the writer finished in time.
fn wait(finished: &mpsc::Receiver<()>) -> bool {
    finished.recv_timeout(CLOSING) == Err(RecvTimeoutError::Disconnected)
}

#[cfg(test)]
mod tests;
