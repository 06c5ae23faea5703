//! Turns users' messages into prompts, and their answers into posts.
//!
//! Each place with unfinished work has one [lane](Lane), the task that handles it. Places are independent: each has
//! its own session, running turn, queue and requests. A lane can be dropped at any time, because it can read all of
//! its state again from the ledger.

mod answers;
mod asks;
mod board;
mod choices;
mod command;
mod commands;
mod lane;
mod people;
mod prompt;
mod requests;
mod run;
mod start;
mod taps;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use client::{Client, Feed};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{lane::Lane, people::Strangers, requests::Note};
use crate::{Adapter, Place, courier::Couriers, ledger::Ledger, settings};

/// Shared dependencies of all lanes.
pub struct Desk {
    pub client: Client,
    pub feed: Feed,
    pub ledger: Arc<Ledger>,
    /// Sends the posts.
    pub couriers: Couriers,
    /// Adapters by channel.
    pub adapters: BTreeMap<String, Arc<dyn Adapter>>,
    pub settings: settings::Router,
    /// Users named in the settings, by channel.
    pub allow: BTreeMap<String, Vec<settings::Person>>,
    /// Directory for files that do not fit into a prompt.
    pub files: PathBuf,
}

impl fmt::Debug for Desk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Desk").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Starts a lane for each place with work. Clones share their state.
#[derive(Debug, Clone)]
pub struct Router(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    desk: Desk,
    strangers: Strangers,
    /// One sender per running lane, which wakes it.
    lanes: Mutex<HashMap<Place, mpsc::Sender<()>>>,
    /// Notes that lanes have not read yet. Each request adds at most two, so the lists stay short.
    notes: Mutex<HashMap<Place, Vec<Note>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Router {
    /// Creates a router without lanes.
    pub fn new(desk: Desk) -> Self {
        Self(Arc::new(Inner {
            desk,
            strangers: Strangers::default(),
            lanes: Mutex::default(),
            notes: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Wakes the lane of a place, or starts one.
    pub fn attend(&self, place: Place) {
        let inner = &self.0;
        let Some(adapter) = inner.desk.adapters.get(&place.channel) else {
            // The channel was removed from the settings; its updates stay in the ledger until it is back.
            tracing::debug!(%place, "the channel is not configured; its updates wait");
            return;
        };
        let mut lanes = inner.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(&place)
            && !matches!(lane.try_send(()), Err(mpsc::error::TrySendError::Closed(())))
        {
            return;
        }
        let (wake, wakes) = mpsc::channel(1);
        lanes.insert(place.clone(), wake);
        let lane = Lane::new(Arc::clone(inner), place, Arc::clone(adapter), wakes);
        inner.tasks.spawn(inner.stop.clone().run_until_cancelled_owned(lane.run()));
    }

    /// Stops all lanes at once. The next start resumes unfinished updates.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Number of running lanes.
    pub fn lanes(&self) -> usize {
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Inner {
    fn notes(&self) -> MutexGuard<'_, HashMap<Place, Vec<Note>>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes unread notes to the lane of another place.
    fn forward(&self, from: &Place, to: Place) {
        let mut notes = self.notes();
        if let Some(left) = notes.remove(from) {
            notes.entry(to).or_default().extend(left);
        }
    }

    /// Removes a lane unless it was woken in the meantime; `attend` holds the same lock.
    fn leave(&self, place: &Place, wakes: &mut mpsc::Receiver<()>) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = wakes.try_recv().is_err();
        if is_over {
            lanes.remove(place);
        }
        is_over
    }
}
