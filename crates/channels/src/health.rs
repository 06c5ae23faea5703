//! The state of each channel's connection to its service.

use std::collections::BTreeMap;

use protocol::Millis;
use serde::Serialize;
use tokio::sync::watch;

/// The connection of a channel to its service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum ChannelState {
    /// The first call is not answered yet.
    Connecting,
    Connected,
    /// The connection is lost or was never made; the channel retries.
    Reconnecting {
        /// Time of the first failure.
        since: Millis,
        /// The newest failure.
        reason: String,
    },
    /// The service refuses the channel, which stays off until the gateway restarts.
    Refused {
        reason: String,
    },
}

/// The states of all channels. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Health(watch::Sender<BTreeMap<String, ChannelState>>);

impl Health {
    pub fn states(&self) -> BTreeMap<String, ChannelState> {
        self.0.borrow().clone()
    }

    /// A receiver of the states, which wakes when one changes.
    pub fn subscribe(&self) -> watch::Receiver<BTreeMap<String, ChannelState>> {
        self.0.subscribe()
    }

    pub(crate) fn connecting(&self, channel: &str) {
        self.set(channel, ChannelState::Connecting);
    }

    pub(crate) fn connected(&self, channel: &str) {
        self.set(channel, ChannelState::Connected);
    }

    /// Stores a failure. The time of the first one in a row counts.
    pub(crate) fn lost(&self, channel: &str, reason: String, now: Millis) {
        let since = match self.0.borrow().get(channel) {
            Some(ChannelState::Reconnecting { since, .. }) => *since,
            _ => now,
        };
        self.set(channel, ChannelState::Reconnecting { since, reason });
    }

    pub(crate) fn refused(&self, channel: &str, reason: String) {
        self.set(channel, ChannelState::Refused { reason });
    }

    fn set(&self, channel: &str, state: ChannelState) {
        self.0.send_if_modified(|states| {
            let is_new = states.get(channel) != Some(&state);
            if is_new {
                states.insert(channel.to_owned(), state);
            }
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_with_its_first_failure() {
        let health = Health::default();
        health.connecting("telegram");
        health.lost("telegram", "refused".into(), 7);
        health.lost("telegram", "timed out".into(), 9);
        let lost = ChannelState::Reconnecting { since: 7, reason: "timed out".into() };
        assert_eq!(health.states().get("telegram"), Some(&lost));
        health.connected("telegram");
        health.lost("telegram", "reset".into(), 11);
        let json = serde_json::to_value(health.states()).unwrap();
        let expected = serde_json::json!({ "state": "reconnecting", "since": 11, "reason": "reset" });
        assert_eq!(json["telegram"], expected);
    }
}
