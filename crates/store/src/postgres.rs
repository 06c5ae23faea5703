//! The store for servers whose record is kept in Postgres: one task that writes, a few connections that read.
//!
//! | module | what it does |
//! |---|---|
//! | `connect`, `tls` | opens a database for one process, or refuses it |
//! | `schema` | the tables and their migrations |
//! | `batch`, `flight` | the net effect of a group of commits, and the statements that write it |
//! | `writer`, `report`, `retention` | group commit, outages, answers to callers, keeping the log short |
//! | `nodes`, `tail` | several nodes on one database: their rows, and the commits of the others |
//! | `note`, `outbox` | the users' notes about projects; notices for receivers |
//! | `readers`, `query`, `messages`, `reads` | the queries, and the connections they run on |
//!
//! All commits are ordered by one advisory lock, the log lock. A transaction writes its state and its events, takes the
//! lock, gives its events the positions after the newest one, and commits. The lock is released after the commit is
//! visible, so a reader that sees a position sees all positions below it.

mod batch;
mod connect;
mod failure;
mod flight;
mod messages;
mod nodes;
mod note;
mod outbox;
mod overview;
mod query;
mod readers;
mod reads;
mod report;
mod retention;
mod schema;
mod tail;
pub(crate) mod text;
mod tls;
mod writer;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use engine::{
    fleet::Identity,
    ports::{Appended, Clock, Commit, Error, Fence, Log, Observer, StoreFailure, StoreFuture, SystemClock},
};
use protocol::{ApprovalId, Part, project::ProjectNote};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::Client;

pub(crate) use connect::Target;
pub use connect::{OpenError, Server};
pub use nodes::Nodes;
pub use retention::{KEEP_AGE, KEEP_BYTES, KEEP_EVENTS};

use crate::{
    change::PartRow,
    sqlite::RetentionLimits,
    stats::Stats,
    work::{self, Reply, Work},
};
use connect::Token;
use failure::Fault;
use readers::Readers;
use retention::Retention;
use tail::Tail;
use writer::{Ports, Writer};

/// Maximum number of commits in the writer's queue.
const WAITING: usize = 1_024;

/// Time that a commit waits for a place in the queue.
const WAIT: Duration = Duration::from_secs(10);

/// Default time that commits wait for a lost database.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Time that closing waits for the writer.
const CLOSING: Duration = Duration::from_secs(5);

/// Options of a store.
#[derive(Clone)]
pub struct Options {
    pub keep: RetentionLimits,
    /// Determines the age of events.
    pub clock: Arc<dyn Clock>,
    /// Time that commits wait for a lost database. After that they fail at once until the database is back.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let keep = RetentionLimits { events: KEEP_EVENTS, bytes: KEEP_BYTES, age: KEEP_AGE };
        Self { keep, clock: Arc::new(SystemClock), patience: PATIENCE }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options").field("keep", &self.keep).finish_non_exhaustive()
    }
}

/// An open database.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
    first: u64,
    /// `None` once the store is closed.
    jobs: Mutex<Option<mpsc::Sender<Work>>>,
    readers: Readers,
    stats: Arc<Stats>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Postgres {
    /// Opens the database at `url`; its tables are created if they do not exist. The observer receives every commit from
    /// now on. Must be called in a Tokio runtime.
    pub async fn open(
        url: &str,
        options: Options,
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<Self>, OpenError> {
        let target = Target::parse(url)?;
        let opened = target.open().await?;
        Self::start(target, opened, options, observer).await
    }

    /// Opens the database as a node that [`Nodes`] has registered, beside other nodes. The observer receives the commits
    /// of all nodes.
    pub async fn open_node(
        url: &str,
        node: &Identity<String>,
        options: Options,
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<Self>, OpenError> {
        let target = Target::parse(url)?;
        let opened = target.join(node).await?;
        Self::start(target, opened, options, observer).await
    }

    async fn start(
        target: Target,
        opened: (Client, Token),
        options: Options,
        observer: Arc<dyn Observer>,
    ) -> Result<Arc<Self>, OpenError> {
        let server = target.server.clone();
        let is_node = !opened.1.is_single();
        let newest = async {
            if is_node { query::end(&opened.0).await } else { Ok(query::bounds(&opened.0).await?.1) }
        };
        let newest = timeout(WAIT, newest).await.unwrap_or(Err(Fault::Late));
        let position = newest.map_err(|fault| connect::refused(&server, fault))?;
        let tail = is_node.then(|| Tail::start(target.clone(), Arc::clone(&observer), position));
        let stats = Arc::new(Stats::default());
        let retention = Retention::new(options.keep);
        let (clock, patience) = (options.clock, options.patience);
        let counters = Arc::clone(&stats);
        let ports = Ports { observer, tail, clock, stats: counters, retention, patience };
        let writer = Writer::new(target.clone(), opened, ports, position);
        let (jobs, waiting) = mpsc::channel(WAITING);
        let writer = tokio::spawn(writer.run(waiting));
        Ok(Arc::new(Self {
            server,
            first: position,
            jobs: Mutex::new(Some(jobs)),
            readers: Readers::new(target),
            stats,
            writer: Mutex::new(Some(writer)),
        }))
    }

    /// The position after which the observer receives every commit.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Counters for metrics.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// The database, without its password.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Writes everything that is queued and closes all connections, which releases the lock. Later calls fail.
    pub async fn close(&self) -> Result<(), Error> {
        self.readers.close();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writer) = writer else { return Ok(()) };
        timeout(CLOSING, writer).await.map(drop).map_err(|_| {
            let message =
                format!("{} was not closed within {CLOSING:?}; the next start recovers it", self.server);
            Error::new(StoreFailure::Unavailable, message)
        })
    }

    async fn ask<T>(&self, work: impl FnOnce(Reply<T>) -> Work) -> Result<T, Error> {
        let closed = || failure::closed(&self.server);
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let jobs = jobs.ok_or_else(closed)?;
        let place = timeout(WAIT, jobs.reserve()).await.map_err(|_| self.overloaded())?;
        let (reply, answer) = oneshot::channel();
        self.stats.queued();
        place.map_err(|_| closed())?.send(work(reply));
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    fn overloaded(&self) -> Error {
        let message = format!("{} is too slow: {WAITING} commits wait; try again later", self.server);
        Error::new(StoreFailure::Unavailable, message)
    }
}

impl Log for Postgres {
    fn append_all(&self, commits: Vec<Commit>) -> StoreFuture<'_, Appended> {
        Box::pin(async move {
            let since = Instant::now();
            let commits = work::prepare(commits)?;
            if let Some(commit) = commits.iter().find(|commit| !commit.is_text()) {
                let message = format!("an event of session {} is not UTF-8", commit.session);
                return Err(Error::new(StoreFailure::Corrupt, message));
            }
            self.ask(|reply| Work::Append { commits, since, reply }).await
        })
    }

    fn checkpoint(&self, fence: Fence, parts: Vec<Part>) -> StoreFuture<'_, ()> {
        Box::pin(async move {
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

/// Describes an error of a statement, without the values of its parameters.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| net::chain(error), |error| error.message().to_owned())
}

#[cfg(test)]
mod tests;
