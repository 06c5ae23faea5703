//! Turns users' messages into prompts, and their answers into posts.
//!
//! Each place with unfinished work has one [worker](Worker), the task that handles it. Places are independent: each has
//! its own session, running turn, queue and requests. A worker can be dropped at any time, because it can read all of
//! its state again from the ledger.

mod access;
mod answers;
mod asks;
mod board;
mod choices;
mod command;
mod commands;
mod prompt;
mod queue;
mod requests;
mod run;
mod start;
mod taps;
#[cfg(test)]
mod tests;
mod worker;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::PathBuf,
    sync::Arc,
};

use client::{Client, Feed};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{access::UnknownUsers, requests::Note, worker::Worker};
use crate::{Adapter, Place, courier::Couriers, ledger::Ledger, settings};

/// Shared dependencies of all workers.
pub struct Context {
    pub client: Client,
    pub feed: Feed,
    pub ledger: Arc<Ledger>,
    /// Sends the posts.
    pub couriers: Couriers,
    /// Adapters by channel.
    pub adapters: BTreeMap<String, Arc<dyn Adapter>>,
    pub settings: settings::Router,
    /// Users named in the settings, by channel.
    pub allow: BTreeMap<String, Vec<settings::UserAccess>>,
    /// Directory for files that do not fit into a prompt.
    pub files: PathBuf,
}

impl fmt::Debug for Context {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Context").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Starts a worker for each place with work. Clones share their state.
#[derive(Debug, Clone)]
pub struct Router(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: Context,
    strangers: UnknownUsers,
    /// One sender per running worker, which wakes it.
    workers: Mutex<HashMap<Place, mpsc::Sender<()>>>,
    /// Notes that workers have not read yet. Each request adds at most two, so the lists stay short.
    notes: Mutex<HashMap<Place, Vec<Note>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Router {
    /// Creates a router without workers.
    pub fn new(context: Context) -> Self {
        Self(Arc::new(Inner {
            context,
            strangers: UnknownUsers::default(),
            workers: Mutex::default(),
            notes: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Wakes the worker of a place, or starts one.
    pub fn attend(&self, place: Place) {
        let inner = &self.0;
        let Some(adapter) = inner.context.adapters.get(&place.channel) else {
            // The channel was removed from the settings; its updates stay in the ledger until it is back.
            tracing::debug!(%place, "the channel is not configured; its updates wait");
            return;
        };
        let mut workers = inner.workers.lock();
        if let Some(worker) = workers.get(&place)
            && !matches!(worker.try_send(()), Err(mpsc::error::TrySendError::Closed(())))
        {
            return;
        }
        let (wake, wakes) = mpsc::channel(1);
        workers.insert(place.clone(), wake);
        let worker = Worker::new(Arc::clone(inner), place, Arc::clone(adapter), wakes);
        inner.tasks.spawn(inner.stop.clone().run_until_cancelled_owned(worker.run()));
    }

    /// Stops all workers at once. The next start resumes unfinished updates.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Number of running workers.
    pub fn workers(&self) -> usize {
        self.0.workers.lock().len()
    }
}

impl Inner {
    /// Passes unread notes to the worker of another place.
    fn forward(&self, from: &Place, to: Place) {
        let mut notes = self.notes.lock();
        if let Some(left) = notes.remove(from) {
            notes.entry(to).or_default().extend(left);
        }
    }

    /// Removes a worker unless it was woken in the meantime; `attend` holds the same lock.
    fn leave(&self, place: &Place, wakes: &mut mpsc::Receiver<()>) -> bool {
        let mut workers = self.workers.lock();
        let is_over = wakes.try_recv().is_err();
        if is_over {
            workers.remove(place);
        }
        is_over
    }
}
