//! The events of one session.

use protocol::{Event, SessionId};

use super::Sessions;
use crate::{Error, session::Command};

impl Sessions {
    /// The events of a session after its `after`th, at most `limit`, each with its number in the session.
    pub async fn events(&self, id: &SessionId, after: u64, limit: usize) -> Result<Vec<(u64, Event)>, Error> {
        self.get(id).await?;
        let stored = self.shared.reads.events(id, after, limit).await?;
        let read = |(number, json): (u64, bytes::Bytes)| {
            let event = serde_json::from_slice(&json)
                .inspect_err(|error| tracing::error!(session = %id, number, %error, "skipping an event that cannot be decoded"));
            Some((number, event.ok()?))
        };
        Ok(stored.into_iter().filter_map(read).collect())
    }

    /// Number of events of a session.
    pub async fn head(&self, id: &SessionId) -> Result<u64, Error> {
        let found = self.shared.reads.session(id).await?;
        found.map(|(_, head)| head).ok_or_else(|| Error::no_session(id))
    }

    /// Waits until a session is idle.
    pub async fn wait(&self, id: &SessionId) -> Result<(), Error> {
        self.get(id).await?;
        let unfinished = self.shared.unfinished.damage(id).is_some();
        if unfinished || self.shared.registry.is_live(id) {
            self.ask(id, Command::Wait).await
        } else {
            Ok(())
        }
    }
}
