//! Publishes events about a directory that belong to no session.

use std::{fmt, sync::Arc};

use engine::{
    bus::{Bus, Place},
    mint::Mint,
};
use protocol::{EventBody, Extra, MessageError, event::SessionFailed};

#[derive(Clone)]
pub(crate) struct Announcer {
    pub(crate) bus: Arc<Bus>,
    pub(crate) mint: Arc<Mint>,
}

impl Announcer {
    /// Publishes that the tools of an MCP server have changed.
    pub(crate) fn tools_changed(&self, place: &Place, server: &str) {
        let about = Extra::from_iter([("server".to_owned(), server.into())]);
        self.publish(place, EventBody::McpToolsChanged(about));
    }

    /// Logs an error and publishes it to the clients of a directory as `session.error` without a session.
    pub(crate) fn error(&self, place: &Place, text: &str) {
        tracing::warn!("{text}");
        let failed =
            SessionFailed { session_id: None, error: Some(MessageError::unknown(text)), extra: Extra::new() };
        self.publish(place, EventBody::SessionError(failed));
    }

    fn publish(&self, place: &Place, body: EventBody) {
        self.bus.publish(Some(place), &self.mint.event(body));
    }
}

impl fmt::Debug for Announcer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Announcer")
    }
}
