//! Where the runs of parents and children meet: a parent hears of a subagent, asks the engine for a child session, and
//! leaves here what the child's run needs to know.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::Client;
use protocol::{EventBody, Session, SessionId};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

/// How long a child's run waits to be told whose it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a child's run needs to know.
#[derive(Debug)]
pub(super) struct Adopted {
    /// Its session there.
    pub(super) session: SessionId,
    /// What happens in it.
    pub(super) events: mpsc::Receiver<EventBody>,
    pub(super) client: Client,
}

/// Children that are on their way.
#[derive(Debug, Default)]
pub(super) struct Nursery {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How many children a parent is asking for.
    expected: HashMap<SessionId, usize>,
    /// By the child's session here.
    adopted: HashMap<SessionId, Adopted>,
}

impl Nursery {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A parent is about to ask for a child.
    pub(super) fn expect(&self, parent: &SessionId) {
        *self.state().expected.entry(parent.clone()).or_default() += 1;
    }

    /// It has one, or none.
    pub(super) fn settle(&self, parent: &SessionId, child: Option<(SessionId, Adopted)>) {
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

    fn adopted(&self, child: &SessionId) -> Option<Adopted> {
        self.state().adopted.remove(child)
    }

    /// What the run of a session needs to know, if it is a subagent's.
    pub(super) async fn take(&self, session: &Session) -> Option<Adopted> {
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
