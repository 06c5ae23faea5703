//! Processes that are kept between the turns of a session; see [`super`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use protocol::SessionId;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::pool::{Idle, IdlePool};

/// Timeout for all kept processes to end when the server stops.
const CLOSE: Duration = Duration::from_secs(2);

/// Failures in a row after which the restart delay stops doubling.
const MOST_DOUBLINGS: u32 = 10;

/// A process that is kept between turns, with the state of its conversation.
pub trait KeptProcess: Send + 'static {
    /// Watches the process while no turn uses it. The future is dropped when a turn takes the process, and is not called
    /// again after it has returned.
    fn rest(&mut self) -> impl Future<Output = IdleEvent> + Send;

    /// Tells whether the process works in the background.
    fn is_working(&self) -> bool {
        false
    }

    /// Ends the process.
    fn stop(self) -> impl Future<Output = ()> + Send;
}

/// The reason why a process needs attention between turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdleEvent {
    /// It began to work by itself and needs a turn; the text explains why. It keeps the messages it has read so far.
    Woke(String),
    /// It ended; the text says how.
    Ended(String),
}

/// Limits for kept processes.
#[derive(Debug, Clone, Copy)]
pub struct IdleLimits {
    /// Time after which an unused process is ended.
    pub idle: Duration,
    /// The same for a process that works in the background.
    pub working: Duration,
    /// The number of kept processes of one agent, including those that work in the background; the one that is unused the
    /// longest is ended first. The [`IdlePool`] limits those of all agents that do not work.
    pub most: usize,
    /// The delay of a restart after a failure; it doubles with each failure in a row.
    pub pause: Duration,
    /// The longest delay.
    pub longest: Duration,
}

impl Default for IdleLimits {
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(10),
            working: Duration::from_hours(6),
            most: 16,
            pause: Duration::from_secs(1),
            longest: Duration::from_secs(30),
        }
    }
}

/// Called with the session of a process that needs a turn, and the reason as a text.
pub type Wake = Arc<dyn Fn(SessionId, String) + Send + Sync>;

/// Keeps at most one process for each session. Cheap to clone; the processes end with the last clone.
pub struct IdleProcesses<K: KeptProcess>(Arc<Inner<K>>);

struct Inner<K: KeptProcess> {
    keeping: IdleLimits,
    pool: IdlePool,
    wake: Wake,
    state: Mutex<State<K>>,
    tasks: TaskTracker,
    closing: CancellationToken,
    _ends: DropGuard,
}

struct State<K> {
    kept: HashMap<SessionId, Slot<K>>,
    failures: BTreeMap<SessionId, Failures>,
    /// The number of the next slot. Slots with lower numbers have been unused longer.
    number: u64,
}

struct Slot<K> {
    number: u64,
    wanted: CancellationToken,
    task: JoinHandle<Option<K>>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

impl<K: KeptProcess> IdleProcesses<K> {
    /// Creates an empty keeper.
    pub fn new(keeping: IdleLimits, pool: IdlePool, wake: Wake) -> Self {
        let closing = CancellationToken::new();
        let state = State { kept: HashMap::new(), failures: BTreeMap::new(), number: 0 };
        Self(Arc::new(Inner {
            keeping,
            pool,
            wake,
            state: Mutex::new(state),
            tasks: TaskTracker::new(),
            _ends: closing.clone().drop_guard(),
            closing,
        }))
    }

    /// Takes the process of a session, if it is still alive.
    pub async fn take(&self, session: &SessionId) -> Option<K> {
        let slot = self.0.state().kept.remove(session)?;
        slot.wanted.cancel();
        slot.task.await.ok().flatten()
    }

    /// Keeps a process for the session's next turn and resets the session's restart delay.
    pub fn keep(&self, session: SessionId, kept: K) {
        let mut state = self.0.state();
        state.failures.remove(&session);
        state.number += 1;
        let number = state.number;
        let IdleLimits { idle, working, .. } = self.0.keeping;
        let is_working = kept.is_working();
        let patience = if is_working { working } else { idle };
        let wanted = CancellationToken::new();
        let watch = Watch {
            keeper: Arc::downgrade(&self.0),
            session: session.clone(),
            number,
            wanted: wanted.clone(),
            closing: self.0.closing.clone(),
            wake: Arc::clone(&self.0.wake),
            until: Instant::now() + patience,
            idle: (!is_working).then(|| self.0.pool.enter()),
        };
        let task = self.0.tasks.spawn(watch.over(kept));
        // A replaced process is ended by its task.
        let replaced = state.kept.insert(session, Slot { number, wanted, task });
        let oldest = || state.kept.iter().min_by_key(|(_, slot)| slot.number).map(|(id, _)| id.clone());
        let over = if state.kept.len() > self.0.keeping.most { oldest() } else { None };
        let over = over.and_then(|id| state.kept.remove(&id));
        for slot in replaced.into_iter().chain(over) {
            self.0.tasks.spawn(async move {
                slot.wanted.cancel();
                if let Ok(Some(kept)) = slot.task.await {
                    kept.stop().await;
                }
            });
        }
    }

    /// Ends the process of a session that will have no more turns.
    pub async fn forget(&self, session: &SessionId) {
        self.0.state().failures.remove(session);
        if let Some(kept) = self.take(session).await {
            kept.stop().await;
        }
    }

    /// Counts a failure of a session's process, which delays the next start.
    pub fn failed(&self, session: &SessionId) {
        let mut state = self.0.state();
        let now = Instant::now();
        let stale = self.0.keeping.longest * 2;
        state.failures.retain(|_, failures| now.duration_since(failures.last) < stale);
        let failures = state.failures.entry(session.clone()).or_insert(Failures { count: 0, last: now });
        *failures = Failures { count: failures.count.saturating_add(1), last: now };
    }

    /// The remaining delay before another start, if the last ones have failed.
    pub fn pause(&self, session: &SessionId) -> Option<Duration> {
        let failures = *self.0.state().failures.get(session)?;
        let doublings = failures.count.saturating_sub(1).min(MOST_DOUBLINGS);
        let IdleLimits { pause, longest, .. } = self.0.keeping;
        let pause = pause.saturating_mul(1 << doublings).min(longest);
        pause.checked_sub(failures.last.elapsed()).filter(|left| !left.is_zero())
    }

    /// Ends all kept processes, and every process that is still returned.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        if timeout(CLOSE, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("some agent processes did not end in time");
        }
    }
}

impl<K: KeptProcess> Inner<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: KeptProcess> Clone for IdleProcesses<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: KeptProcess> fmt::Debug for IdleProcesses<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("IdleProcesses").field("kept", &self.0.state().kept.len()).finish_non_exhaustive()
    }
}

/// Watches one process until a turn takes it or its time is over.
struct Watch<K: KeptProcess> {
    keeper: Weak<Inner<K>>,
    session: SessionId,
    number: u64,
    wanted: CancellationToken,
    closing: CancellationToken,
    wake: Wake,
    until: Instant,
    /// Its entry among the idle processes; none while it works.
    idle: Option<Idle>,
}

impl<K: KeptProcess> Watch<K> {
    async fn over(mut self, mut kept: K) -> Option<K> {
        let evicted = self.idle.as_ref().map(|idle| idle.evicted().clone()).unwrap_or_default();
        let rested = tokio::select! {
            biased;
            () = self.closing.cancelled() => None,
            () = self.wanted.cancelled() => return Some(kept),
            rested = kept.rest() => Some(rested),
            () = evicted.cancelled() => None,
            () = sleep_until(self.until) => None,
        };
        match rested {
            Some(IdleEvent::Woke(why)) => {
                self.idle = None;
                (self.wake)(self.session.clone(), why);
                tokio::select! {
                    biased;
                    () = self.closing.cancelled() => {}
                    () = self.wanted.cancelled() => return Some(kept),
                    () = sleep_until(self.until) => {}
                }
            }
            Some(IdleEvent::Ended(how)) => {
                tracing::info!(session = %self.session, how, "an idle agent process ended");
            }
            None => {}
        }
        self.leave();
        kept.stop().await;
        None
    }

    /// Removes the process from the keeper, unless another one has taken its place.
    fn leave(&self) {
        let Some(keeper) = self.keeper.upgrade() else { return };
        let mut state = keeper.state();
        if state.kept.get(&self.session).is_some_and(|slot| slot.number == self.number) {
            state.kept.remove(&self.session);
        }
    }
}

#[cfg(test)]
mod tests;
