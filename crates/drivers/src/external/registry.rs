//! The registry of child sessions that are being started: a parent asks the engine for a child session and stores the
//! data for the turn of the child here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::ports::ChildSpec;
use engine::session::{Child, Turn};
use protocol::{Session, SessionId};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::ChildLink;

/// Timeout for the turn of a child to receive its link.
const PATIENCE: Duration = Duration::from_secs(10);

/// Children that are being started, each with the data for its turn.
#[derive(Debug, Default)]
pub struct ChildRegistry {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The number of children that each parent is starting.
    expected: HashMap<SessionId, usize>,
    /// The data for each child, by its session.
    started: HashMap<SessionId, ChildLink>,
}

impl ChildRegistry {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete in itself, so a poisoned lock holds no broken state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts or resumes a child session for a subagent that is at work already, with the agent and model of its parent.
    pub async fn start(
        &self,
        turn: &Turn,
        title: String,
        prompt: String,
        resume: Option<SessionId>,
        child: ChildLink,
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

    /// Stores the data of a child that was started, and wakes the turns that wait for theirs.
    fn settle(&self, parent: &SessionId, child: Option<(SessionId, ChildLink)>) {
        let mut state = self.state();
        state.started.extend(child);
        if let Some(expected) = state.expected.get_mut(parent) {
            *expected = expected.saturating_sub(1);
            if *expected == 0 {
                state.expected.remove(parent);
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    fn started(&self, child: &SessionId) -> Option<ChildLink> {
        self.state().started.remove(child)
    }

    /// The data for the turn of a session, if the session is one of the children.
    pub async fn take(&self, session: &Session) -> Option<ChildLink> {
        let parent = session.parent_id.as_ref()?;
        let found = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                // From here on no notification is missed.
                changed.as_mut().enable();
                if let Some(data) = self.started(&session.id) {
                    return Some(data);
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
