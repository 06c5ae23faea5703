//! The connections of the chat gateway to its services.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{Millis, Rest};

/// A chat service and the gateway's connection to it. An entry of `GET /channel`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Channel {
    /// `telegram`, `slack` or `whatsapp`.
    pub name: String,
    pub state: ChannelState,
    /// Time since which the state holds. Absent if it is unknown, because the gateway was killed.
    pub since: Option<Millis>,
    /// Reason for the state, for users. Absent if the channel works.
    pub reason: Option<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// State of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChannelState {
    /// The service has not answered yet.
    Connecting,
    /// The channel receives messages.
    Connected,
    /// The connection is lost; the gateway retries.
    Reconnecting,
    /// The service refuses the channel, for instance because of a wrong token. The channel stays off until the gateway
    /// is restarted.
    Refused,
    /// No gateway is running.
    Stopped,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

impl ChannelState {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Reconnecting => "reconnecting",
            Self::Refused => "refused",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_state_does_not_hide_the_channel() {
        let channel: Channel =
            serde_json::from_value(json!({ "name": "telegram", "state": "resting" })).unwrap();
        assert_eq!((channel.state, channel.since), (ChannelState::Unknown, None));
        for state in ["connecting", "connected", "reconnecting", "refused", "stopped"] {
            let read: ChannelState = serde_json::from_value(json!(state)).unwrap();
            assert_eq!(read.as_str(), state);
        }
    }
}
