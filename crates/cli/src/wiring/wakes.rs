//! Turns for agents that begin to work by themselves.

use std::sync::{Arc, Mutex, PoisonError};

use ::agents::external::keeper::Wake;
use engine::Sessions;

/// The way from an agent to the sessions, which are made after it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Wakes(Arc<Mutex<Option<Sessions>>>);

impl Wakes {
    /// From now on there are sessions that can be woken up.
    pub(super) fn open(&self, sessions: Sessions) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sessions);
    }

    /// From now on there are none.
    pub(super) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What an agent is given.
    pub(super) fn wake(&self) -> Wake {
        let wakes = self.clone();
        Arc::new(move |session, why| {
            let sessions = wakes.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(sessions) = sessions else { return };
            tokio::spawn(async move {
                if let Err(error) = sessions.wake(&session, &why).await {
                    tracing::warn!(%session, %error, "an agent began to work by itself and got no turn");
                }
            });
        })
    }
}
