//! Makes prompts of what people say, and posts of what comes of them.
//!
//! There is one [lane](Lane) for each place in which something is to be done, and none for the others. Everything is
//! kept apart by place: the session, what runs, what waits, what is asked. What a lane knows it could read again from
//! the ledger, so that it may be dropped at any moment.

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

/// What every lane works with.
pub struct Desk {
    /// The server.
    pub client: Client,
    /// Its events.
    pub feed: Feed,
    /// What must survive.
    pub ledger: Arc<Ledger>,
    /// Who says what is to be said.
    pub couriers: Couriers,
    /// The chat services, by channel.
    pub adapters: BTreeMap<String, Arc<dyn Adapter>>,
    /// What was chosen.
    pub settings: settings::Router,
    /// Who is named in the settings, by channel.
    pub allow: BTreeMap<String, Vec<settings::Person>>,
    /// Where files are kept that do not fit into a prompt.
    pub files: PathBuf,
}

impl fmt::Debug for Desk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Desk").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Sees to it that what happens in a place is attended to. Clones are the same router.
#[derive(Debug, Clone)]
pub struct Router(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    desk: Desk,
    strangers: Strangers,
    /// Wakes the lane of a place.
    lanes: Mutex<HashMap<Place, mpsc::Sender<()>>>,
    /// What lanes have not read yet. A request is noted once or twice, so there are not many.
    notes: Mutex<HashMap<Place, Vec<Note>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Router {
    /// A router; nothing happens until it is told about places.
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

    /// Something is to be done in a place.
    pub fn attend(&self, place: Place) {
        let inner = &self.0;
        let Some(adapter) = inner.desk.adapters.get(&place.channel) else {
            // Its channel was taken out of the settings; what is kept waits until it is back.
            tracing::debug!(%place, "nobody attends to this channel");
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

    /// Stops all lanes where they are. What is not done is done after the next start.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// In how many places something is going on.
    pub fn lanes(&self) -> usize {
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Inner {
    fn notes(&self) -> MutexGuard<'_, HashMap<Place, Vec<Note>>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands on what the lane of a place has not read.
    fn forward(&self, from: &Place, to: Place) {
        let mut notes = self.notes();
        if let Some(left) = notes.remove(from) {
            notes.entry(to).or_default().extend(left);
        }
    }

    /// Lets a lane end, unless there was news in the meantime. Whoever brings news holds the same lock.
    fn leave(&self, place: &Place, wakes: &mut mpsc::Receiver<()>) -> bool {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = wakes.try_recv().is_err();
        if is_over {
            lanes.remove(place);
        }
        is_over
    }
}
