//! Sends posts: one task, the courier, per place with something to send or to show.
//!
//! A single task keeps posts in order and pauses the whole place when the service asks to wait. Posts come from the
//! ledger and are marked before they are sent. Progress (the typing indicator and the progress message) is not
//! queued: the newest state wins, and only the id of the progress message is stored.

#[cfg(test)]
mod tests;
mod work;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Adapter, Inbox, Place, Post,
    ledger::{Ledger, PostId},
};

/// Limit of queued replacements and of queued tap confirmations; the oldest are dropped. Both come from taps.
const WAITING: usize = 64;

/// Progress to show during a turn. The default shows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Showing {
    /// True to show the typing indicator.
    pub is_working: bool,
    /// The current activity, for services that display it beside the typing indicator.
    pub words: String,
    /// The progress message, edited in place. Where messages cannot be edited, its last line is sent whenever it
    /// changes.
    pub status: Option<String>,
    /// The answer so far, shown in the same message.
    pub preview: Option<String>,
    /// The service's id of the user's last message.
    pub message: Option<String>,
}

/// The couriers of all places. Clones share their state.
#[derive(Clone)]
pub struct Couriers(Arc<Inner>);

struct Inner {
    inbox: Inbox,
    ledger: Arc<Ledger>,
    adapters: HashMap<&'static str, Arc<dyn Adapter>>,
    mailboxes: Mutex<HashMap<Place, Arc<Mailbox>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The work queue of one courier.
#[derive(Default)]
struct Mailbox {
    orders: Mutex<PendingWork>,
    wake: Notify,
}

#[derive(Default)]
struct PendingWork {
    /// The ledger may have posts to send.
    has_posts: bool,
    showing: Option<Showing>,
    replacing: VecDeque<(PostId, Post)>,
    receipts: VecDeque<(String, Option<String>)>,
}

impl PendingWork {
    fn is_empty(&self) -> bool {
        !self.has_posts && self.showing.is_none() && self.replacing.is_empty() && self.receipts.is_empty()
    }
}

impl fmt::Debug for Couriers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Couriers")
    }
}

impl Couriers {
    /// Creates couriers that send posts from the ledger through these adapters.
    pub fn new(inbox: Inbox, adapters: &[Arc<dyn Adapter>]) -> Self {
        let ledger = Arc::clone(inbox.ledger());
        let adapters = adapters.iter().map(|adapter| (adapter.channel(), Arc::clone(adapter))).collect();
        let (mailboxes, tasks, stop) = (Mutex::default(), TaskTracker::new(), CancellationToken::new());
        Self(Arc::new(Inner { inbox, ledger, adapters, mailboxes, tasks, stop }))
    }

    /// Wakes the courier of a place after a post was stored.
    pub fn wake(&self, place: &Place) {
        self.order(place, |orders| orders.has_posts = true);
    }

    /// Replaces the progress shown in a place.
    pub fn show(&self, place: &Place, showing: Showing) {
        self.order(place, |orders| orders.showing = Some(showing));
    }

    /// Replaces the content of a post once it was sent.
    pub fn replace(&self, place: &Place, post: PostId, with: Post) {
        self.order(place, |orders| {
            orders.replacing.retain(|(queued, _)| *queued != post);
            push(&mut orders.replacing, (post, with));
        });
    }

    /// Confirms a button tap to the service.
    pub(crate) fn confirm_tap(&self, place: &Place, receipt: String, words: Option<String>) {
        self.order(place, |orders| push(&mut orders.receipts, (receipt, words)));
    }

    /// Stops all couriers at once. The next start sends the remaining posts.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// Queues an order for a place and starts its courier if none is running.
    fn order(&self, place: &Place, order: impl FnOnce(&mut PendingWork)) {
        let Some(adapter) = self.0.adapters.get(place.channel.as_str()) else {
            tracing::warn!(%place, "cannot send to this place: the channel is not configured");
            return;
        };
        let mut mailboxes = self.0.mailboxes.lock();
        let mailbox = mailboxes.entry(place.clone()).or_insert_with(|| {
            let mailbox = Arc::new(Mailbox::default());
            let courier =
                work::Courier::new(place.clone(), Arc::clone(adapter), self.clone(), Arc::clone(&mailbox));
            self.0.tasks.spawn(self.0.stop.clone().run_until_cancelled_owned(courier.run()));
            mailbox
        });
        order(&mut mailbox.orders.lock());
        mailbox.wake.notify_one();
    }

    /// Removes a courier's queue unless it has new orders.
    fn leave(&self, place: &Place, mailbox: &Mailbox) -> bool {
        // `order` holds the same lock, so no order can come between the check and the removal.
        let mut mailboxes = self.0.mailboxes.lock();
        let is_done = mailbox.orders.lock().is_empty();
        if is_done {
            mailboxes.remove(place);
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
