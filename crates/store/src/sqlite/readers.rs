//! Reads beside the writer, without waiting for it.
//!
//! There are a few threads, each with a connection of its own. Handing a query to such a thread and back was
//! measured at a third of the cost of the runtime's blocking pool, and its latency does not depend on other work in
//! that pool.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};

use engine::ports::Error;
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use super::{failure, open};

/// Maximum number of queries in the queue; further callers wait for a permit.
const WAITING: usize = 1_024;

type Query = Box<dyn FnOnce(&rusqlite::Result<Connection>) + Send>;

#[derive(Debug)]
pub(super) struct Readers {
    queue: Arc<Queue>,
    places: Semaphore,
    /// Limits concurrent page reads of long listings to half of the threads. Others wait in order of arrival, so
    /// that several long listings take turns and short queries find a free thread.
    bulk: Semaphore,
    path: Arc<Path>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queries: VecDeque<Query>,
    closed: bool,
}

impl Readers {
    /// Starts the threads. Each holds a clone of `reading` until its connection is closed.
    pub(super) fn start(
        path: &Arc<Path>,
        threads: usize,
        reading: &mpsc::Sender<()>,
    ) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let readers = Self {
            queue: Arc::default(),
            places: Semaphore::new(WAITING),
            bulk: Semaphore::new(threads.div_ceil(2)),
            path: Arc::clone(path),
        };
        for _ in 0..threads {
            let (queue, path, reading) = (Arc::clone(&readers.queue), Arc::clone(path), reading.clone());
            thread::Builder::new().name("store-reader".into()).spawn(move || {
                queue.work(&path);
                drop(reading);
            })?;
        }
        Ok(readers)
    }

    /// Runs a query on one of the threads.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let closed = || failure::closed(&self.path);
        let _place = self.places.acquire().await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let query: Query = Box::new(move |connection| {
            // If the caller is gone, the query is skipped.
            if !reply.is_closed() {
                let answer = match connection {
                    Ok(connection) => query(connection).map_err(Ok),
                    Err(error) => Err(Err(error.to_string())),
                };
                let _ = reply.send(answer);
            }
        });
        if !self.queue.push(query) {
            return Err(closed());
        }
        match answer.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(Ok(error))) => Err(failure::failed(&self.path, "reading from", &error)),
            Ok(Err(Err(error))) => Err(failure::unopened(&self.path, &error)),
            Err(_) => Err(closed()),
        }
    }

    /// Runs one of many similar queries, such as a page of a long listing.
    pub(super) async fn run_bulk<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let _turn = self.bulk.acquire().await.map_err(|_| failure::closed(&self.path))?;
        self.run(query).await
    }

    /// Lets the threads finish all queued queries, and end.
    pub(super) fn close(&self) {
        self.bulk.close();
        self.places.close();
        self.queue.lock().closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, query: Query) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        state.queries.push_back(query);
        drop(state);
        self.changed.notify_one();
        true
    }

    fn next(&self) -> Option<Query> {
        let state = self.lock();
        let idle = |state: &mut State| state.queries.is_empty() && !state.closed;
        let mut state = self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        state.queries.pop_front()
    }

    fn work(&self, path: &Path) {
        // Opened with the first query, because that makes the start faster. Retried if it failed.
        let mut connection = None;
        while let Some(query) = self.next() {
            if !matches!(connection, Some(Ok(_))) {
                connection = Some(open::open_reader(path));
            }
            let Some(connection) = &connection else { continue };
            // A panic fails only its query; the thread continues with others.
            if catch_unwind(AssertUnwindSafe(|| query(connection))).is_err() {
                tracing::error!(path = %path.display(), "a query panicked");
            }
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Queue").field("waiting", &self.lock().queries.len()).finish_non_exhaustive()
    }
}
