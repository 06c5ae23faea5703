//! Fan-out: every event is encoded once and handed to every subscriber, each with a bounded queue.
//!
//! Durable events arrive from the log's writer in commit order ([`Observer`]), live ones from session actors. Both
//! pass under one lock. The same lock guards the current statuses and requests and the text of open parts, so a new
//! subscriber gets a log position, the state at that position and the live events after it, without gap or overlap.

mod active;
mod frame;
mod open;
mod queue;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use protocol::{Event, EventBody, Part, PartId, SessionId, WorkspaceId};

use active::ActiveSessions;
pub use frame::Frame;
use open::OpenParts;
use queue::Queue;
pub use queue::{Lagged, MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, Subscription};

use crate::ports::{Alone, Fleet, Logged, Observer};

/// Restricts a subscription.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Subscribers with `None` see every event. Events without a workspace go only to them.
    pub workspace: Option<WorkspaceId>,
    /// Sessions whose deltas the subscriber wants; `None` for all. It receives all other events in any case.
    pub deltas: Option<Arc<HashSet<SessionId>>>,
}

impl Scope {
    fn admits(&self, frame: &Frame) -> bool {
        let is_wanted = match (&self.deltas, &frame.delta_of) {
            (Some(wanted), Some(session)) => wanted.contains(session),
            _ => true,
        };
        is_wanted && (self.workspace.is_none() || self.workspace == frame.workspace)
    }
}

/// The workspace, directory and project in which an event happened. Made by [`Bus::place`] for a directory of this node.
#[derive(Debug, Clone)]
pub struct Place {
    pub workspace: WorkspaceId,
    pub directory: Arc<str>,
    pub project: Arc<str>,
}

/// A new subscription and the state that it starts from.
#[derive(Debug)]
pub struct Joined {
    /// Live events from here on.
    pub subscription: Subscription,
    /// The log contains every durable event up to this position; the subscription delivers only later ones.
    pub position: u64,
    /// Statuses of sessions that are not idle, and open requests, at this position.
    pub going: Vec<(Place, EventBody)>,
    /// Sessions that became idle while no client could be connected; for clients without a cursor.
    pub unheard: Vec<(Place, EventBody)>,
    /// Open parts at this position, with all their text.
    pub open: Vec<(Place, Part)>,
}

/// Counters for the metrics route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BusStats {
    pub subscribers: usize,
    /// Length of the fullest queue, in frames.
    pub deepest: usize,
    /// Slow subscribers that were disconnected since the start.
    pub cut_off: u64,
    pub published: u64,
}

#[derive(Debug, Default)]
struct Inner {
    position: u64,
    going: ActiveSessions,
    open: OpenParts,
    subscribers: Vec<(Scope, Weak<Queue>)>,
    cut_off: u64,
    published: u64,
    /// True once nothing is published any more.
    is_silent: bool,
}

/// Publishes events to subscribers and tracks the state that new subscribers need.
#[derive(Debug)]
pub struct Bus {
    inner: Mutex<Inner>,
    fleet: Arc<dyn Fleet>,
}

impl Default for Bus {
    /// The bus of a node that has its record for itself.
    fn default() -> Self {
        Self::new(Arc::new(Alone))
    }
}

impl Bus {
    /// Creates a bus for a node of a fleet.
    pub fn new(fleet: Arc<dyn Fleet>) -> Self {
        Self { inner: Mutex::default(), fleet }
    }

    /// The fleet whose events the bus carries.
    pub fn fleet(&self) -> &Arc<dyn Fleet> {
        &self.fleet
    }

    /// The place of events in a directory of this node.
    pub fn place(&self, directory: impl Into<Arc<str>>, project: impl Into<Arc<str>>) -> Place {
        let directory = directory.into();
        Place { workspace: self.fleet.workspace(&directory), directory, project: project.into() }
    }

    /// The scope of a subscriber to a directory of this node.
    pub fn scope(&self, directory: &str) -> Scope {
        Scope { workspace: Some(self.fleet.workspace(directory)), ..Scope::default() }
    }

    /// Sets the log's end position, once the store is open. Until [`Self::open`] is called, no client can be connected,
    /// and sessions that become idle are kept for clients that connect later. A node of a fleet may already have
    /// published commits of other nodes, so the position never falls.
    pub fn seed(&self, position: u64) {
        let mut inner = self.lock();
        inner.position = inner.position.max(position);
        inner.going.alone(true);
    }

    /// Restores a status or a request that was already in the log when the server started.
    pub fn remember(&self, place: &Place, event: &EventBody) {
        self.lock().going.remember(place, event);
    }

    /// Declares that clients can connect from now on.
    pub fn open(&self) {
        self.lock().going.alone(false);
    }

    /// Publishes an event that is not in the log. An event without a place reaches only global subscribers.
    pub fn publish(&self, place: Option<&Place>, event: &Event) {
        let Ok(json) = serde_json::to_vec(event) else { return };
        let mut frame = Frame::live(place, json.into());
        let mut inner = self.lock();
        if let EventBody::PartDelta(delta) = &event.body {
            inner.open.append(&delta.part_id, &delta.delta);
            frame.delta_of = Some(delta.session_id.clone());
        }
        inner.deliver(&Arc::new(frame));
    }

    pub fn subscribe(&self, scope: &Scope) -> Joined {
        let queue = Arc::new(Queue::default());
        let mut inner = self.lock();
        inner.subscribers.push((scope.clone(), Arc::downgrade(&queue)));
        let going = inner.going.all(scope.workspace.as_ref());
        let unheard = inner.going.unheard(scope.workspace.as_ref());
        let open = inner.open.all(scope.workspace.as_ref());
        Joined { position: inner.position, going, unheard, open, subscription: Subscription::new(queue) }
    }

    /// Waits until the event at this position is published, or until the bus is closed.
    pub(crate) async fn reach(&self, position: u64) {
        let mut joined = self.subscribe(&Scope::default());
        let mut reached = joined.position;
        while reached < position {
            reached = match joined.subscription.next().await {
                Ok(frames) if frames.is_empty() => return,
                Ok(frames) => frames.iter().filter_map(|frame| frame.position).fold(reached, u64::max),
                Err(Lagged) => {
                    joined = self.subscribe(&Scope::default());
                    joined.position
                }
            };
        }
    }

    /// Returns true if the last published status of the session is not idle.
    pub fn is_busy(&self, session: &SessionId) -> bool {
        self.lock().going.is_busy(session)
    }

    /// The current text of a part, if the part is open.
    pub fn open_text(&self, part: &PartId) -> Option<String> {
        self.lock().open.text(part)
    }

    pub fn stats(&self) -> BusStats {
        let inner = self.lock();
        let queues: Vec<_> = inner.subscribers.iter().filter_map(|(_, queue)| queue.upgrade()).collect();
        BusStats {
            subscribers: queues.len(),
            deepest: queues.iter().map(|queue| queue.len()).max().unwrap_or(0),
            cut_off: inner.cut_off,
            published: inner.published,
        }
    }

    /// Ends every subscription after its queued frames are read. Called when the server shuts down.
    pub fn close(&self) {
        for (_, queue) in self.lock().subscribers.drain(..) {
            if let Some(queue) = queue.upgrade() {
                queue.finish();
            }
        }
    }

    /// Publishes nothing from now on, because another node acts for the sessions. Subscriptions stay open and end with the
    /// process, so that clients see an error and resume elsewhere.
    pub fn silence(&self) {
        self.lock().is_silent = true;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code under this lock panics half-way through a change, so a poisoned lock is still consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn deliver(&mut self, frame: &Arc<Frame>) {
        if self.is_silent {
            return;
        }
        self.published += 1;
        let mut cut_off = 0;
        self.subscribers.retain(|(scope, queue)| {
            let Some(queue) = queue.upgrade() else { return false };
            if !scope.admits(frame) || queue.push(frame) {
                return true;
            }
            cut_off += 1;
            false
        });
        self.cut_off += cut_off;
    }

    fn track(&mut self, place: &Place, event: &EventBody) {
        self.going.note(place, event);
        match event {
            EventBody::PartUpdated(it) => self.open.update(place, &it.part),
            EventBody::PartRemoved(it) => self.open.remove(&it.part_id),
            EventBody::MessageRemoved(it) => {
                self.open.remove_where(|part| {
                    part.message_id == it.message_id && part.session_id == it.session_id
                });
            }
            EventBody::SessionDeleted(it) => self.forget(&it.session_id),
            _ => {}
        }
    }

    fn forget(&mut self, session: &SessionId) {
        self.going.forget(session);
        self.open.remove_where(|part| part.session_id == *session);
    }
}

impl Observer for Bus {
    fn committed(&self, events: Vec<Logged>) {
        let mut inner = self.lock();
        for logged in events {
            let Logged { workspace, directory, project, .. } = logged;
            let place = Place { workspace, directory, project };
            inner.track(&place, &logged.event.body);
            inner.position = logged.position;
            inner.deliver(&Arc::new(Frame::durable(&place, logged.position, logged.json)));
        }
    }
}
