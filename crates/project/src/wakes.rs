//! Opens turns for agents that start to work on their own, for instance when a background task of theirs ends.

use std::sync::Arc;

use drivers::external::keeper::Wake;
use engine::Sessions;
use parking_lot::Mutex;

/// A handle from agents to the sessions, which are created after them. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Wakes(Arc<Mutex<Option<Sessions>>>);

impl Wakes {
    /// Lets agents open turns in these sessions.
    pub fn open(&self, sessions: Sessions) {
        *self.0.lock() = Some(sessions);
    }

    /// Ignores agents that start to work from now on.
    pub fn close(&self) {
        *self.0.lock() = None;
    }

    /// Returns the callback with which an agent opens a turn.
    pub(crate) fn wake(&self) -> Wake {
        let wakes = self.clone();
        Arc::new(move |session, why| {
            let sessions = wakes.0.lock().clone();
            let Some(sessions) = sessions else { return };
            tokio::spawn(async move {
                if let Err(error) = sessions.wake(&session, &why).await {
                    tracing::warn!(%session, %error, "cannot open a turn for an agent that started to work on its own");
                }
            });
        })
    }
}
