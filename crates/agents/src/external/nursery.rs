//! Where the runs of parents and children meet: a parent hears of a subagent, asks the engine for a child session, and
//! leaves here what the child's run needs to know.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::ports::ChildSpec;
use engine::session::{Child, Turn};
use protocol::{Session, SessionId};
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a child's run waits to be told whose it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Children that are on their way, each with what its run needs to know.
pub struct Nursery<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

struct State<T> {
    /// How many children a parent is asking for.
    expected: HashMap<SessionId, usize>,
    /// By the child's session.
    adopted: HashMap<SessionId, T>,
}

impl<T> Default for Nursery<T> {
    fn default() -> Self {
        let state = State { expected: HashMap::new(), adopted: HashMap::new() };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl<T> fmt::Debug for Nursery<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Nursery").field("adopted", &self.state().adopted.len()).finish_non_exhaustive()
    }
}

impl<T> Nursery<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Every change of it is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a child session for a subagent that is at work already, or goes on with one: same agent, same model.
    pub async fn adopt(
        &self,
        turn: &Turn,
        title: String,
        prompt: String,
        resume: Option<SessionId>,
        child: T,
    ) -> Result<Child, String> {
        let parent = &turn.session.id;
        let spec = ChildSpec {
            prompt: if prompt.is_empty() { title.clone() } else { prompt },
            title,
            agent: Some(turn.agent.clone()),
            model: Some(turn.model.clone()),
            resume,
        };
        *self.state().expected.entry(parent.clone()).or_default() += 1;
        let started = turn.start_child(spec).await;
        self.settle(parent, started.as_ref().ok().map(|started| (started.session().clone(), child)));
        started
    }

    /// The parent has its child, or none.
    fn settle(&self, parent: &SessionId, child: Option<(SessionId, T)>) {
        let mut state = self.state();
        state.adopted.extend(child);
        if let Some(expected) = state.expected.get_mut(parent) {
            *expected = expected.saturating_sub(1);
            if *expected == 0 {
                state.expected.remove(parent);
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn adopted(&self, child: &SessionId) -> Option<T> {
        self.state().adopted.remove(child)
    }

    /// What the run of a session needs to know, if it is a subagent's.
    pub async fn take(&self, session: &Session) -> Option<T> {
        let parent = session.parent_id.as_ref()?;
        let found = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                // Whoever settles from here on is heard.
                changed.as_mut().enable();
                if let Some(adopted) = self.adopted(&session.id) {
                    return Some(adopted);
                }
                if !self.state().expected.contains_key(parent) {
                    return None;
                }
                changed.await;
            }
        };
        timeout(PATIENCE, found).await.ok().flatten()
    }
}
