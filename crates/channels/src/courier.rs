//! Says everything that is said in a place: one task per place, while there is something to say or to show.
//!
//! Because there is only one, posts keep their order, and when the service asks to wait, the whole place waits. What
//! has to be said comes from the ledger and is marked before it is sent; of what is only shown (typing, the message that
//! tells what is being done) the newest wins, and nothing is stored but which message that is.

#[cfg(test)]
mod tests;
mod work;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Adapter, Inbox, Place, Post,
    ledger::{Ledger, PostId},
};

/// So many of each may wait; the oldest go. They come from what a person taps.
const WAITING: usize = 64;

/// What is shown while work goes on. The default is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Showing {
    /// Whether to show that the agent is at work.
    pub is_working: bool,
    /// What it is doing, for services that show that beside "is typing".
    pub words: String,
    /// The one message that tells what is being done. It is edited in place; where that cannot be done, its last line
    /// is said when it changes.
    pub status: Option<String>,
    /// The answer as far as it is, shown in the same message.
    pub preview: Option<String>,
    /// The last message of the person, in the service's words.
    pub message: Option<String>,
}

/// The couriers of all places. Clones are the same.
#[derive(Clone)]
pub struct Couriers(Arc<Office>);

struct Office {
    inbox: Inbox,
    ledger: Arc<Ledger>,
    adapters: HashMap<&'static str, Arc<dyn Adapter>>,
    desks: Mutex<HashMap<Place, Arc<Desk>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Where a courier finds what to do.
#[derive(Default)]
struct Desk {
    orders: Mutex<Orders>,
    bell: Notify,
}

#[derive(Default)]
struct Orders {
    /// Something may be in the ledger.
    has_posts: bool,
    showing: Option<Showing>,
    replacing: VecDeque<(PostId, Post)>,
    receipts: VecDeque<(String, Option<String>)>,
}

impl Orders {
    fn is_empty(&self) -> bool {
        !self.has_posts && self.showing.is_none() && self.replacing.is_empty() && self.receipts.is_empty()
    }
}

impl fmt::Debug for Couriers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Couriers")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Couriers {
    /// Couriers who say through these adapters what is in the ledger.
    pub fn new(inbox: Inbox, adapters: &[Arc<dyn Adapter>]) -> Self {
        let ledger = Arc::clone(inbox.ledger());
        let adapters = adapters.iter().map(|adapter| (adapter.channel(), Arc::clone(adapter))).collect();
        let (desks, tasks, stop) = (Mutex::default(), TaskTracker::new(), CancellationToken::new());
        Self(Arc::new(Office { inbox, ledger, adapters, desks, tasks, stop }))
    }

    /// Something was put into the ledger, to be said in a place.
    pub fn wake(&self, place: &Place) {
        self.order(place, |orders| orders.has_posts = true);
    }

    /// Shows this from now on, in place of what was shown before.
    pub fn show(&self, place: &Place, showing: Showing) {
        self.order(place, |orders| orders.showing = Some(showing));
    }

    /// Puts something else in the place of a post, once it was sent.
    pub fn replace(&self, place: &Place, post: PostId, with: Post) {
        self.order(place, |orders| push(&mut orders.replacing, (post, with)));
    }

    /// Tells the service that a button was understood.
    pub fn understood(&self, place: &Place, receipt: String, words: Option<String>) {
        self.order(place, |orders| push(&mut orders.receipts, (receipt, words)));
    }

    /// Stops all couriers where they are. What was not said is said after the next start.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Leaves an order at a place's desk; somebody sits there afterwards.
    fn order(&self, place: &Place, order: impl FnOnce(&mut Orders)) {
        let Some(adapter) = self.0.adapters.get(place.channel.as_str()) else {
            tracing::warn!(%place, "nothing can be said there: the channel is not configured");
            return;
        };
        let mut desks = lock(&self.0.desks);
        let desk = desks.entry(place.clone()).or_insert_with(|| {
            let desk = Arc::new(Desk::default());
            let courier =
                work::Courier::new(place.clone(), Arc::clone(adapter), self.clone(), Arc::clone(&desk));
            self.0.tasks.spawn(self.0.stop.clone().run_until_cancelled_owned(courier.run()));
            desk
        });
        order(&mut lock(&desk.orders));
        desk.bell.notify_one();
    }

    /// Gives up a desk, unless there are orders on it.
    fn leave(&self, place: &Place, desk: &Desk) -> bool {
        // Orders are left under the same lock, so that none comes between the look and the leaving.
        let mut desks = lock(&self.0.desks);
        let is_done = lock(&desk.orders).is_empty();
        if is_done {
            desks.remove(place);
        }
        is_done
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() == WAITING {
        queue.pop_front();
    }
    queue.push_back(item);
}
