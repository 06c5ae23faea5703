//! Slack's types, limited to the fields that are used. Every field may be missing: compatible servers are
//! incomplete, and Slack adds and removes fields.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// A frame of Socket Mode.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frame {
    #[serde(rename = "type")]
    pub kind: String,
    /// The id to acknowledge; `hello` and `disconnect` have none.
    pub envelope_id: Option<String>,
    pub payload: Value,
    /// Slack's reason for closing the connection.
    pub reason: Option<String>,
}

/// The body of an Events API call, and the payload of an `events_api` frame.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Callback {
    #[serde(rename = "type")]
    pub kind: String,
    pub event_id: Option<String>,
    pub event: Event,
    /// Returned to Slack when the address is verified.
    pub challenge: Option<String>,
}

/// An event of any kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub kind: String,
    pub subtype: Option<String>,
    pub channel: Option<String>,
    pub channel_type: Option<String>,
    pub user: Option<String>,
    pub bot_id: Option<String>,
    pub text: Option<String>,
    pub ts: Option<String>,
    pub thread_ts: Option<String>,
    #[serde(rename = "event_ts")]
    pub moment: Option<String>,
    pub edited: Option<Value>,
    pub files: Vec<File>,
    /// The new and the old version, in a `message_changed` event.
    pub message: Option<Version>,
    pub previous_message: Option<Version>,
}

/// A version of a changed message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Version {
    pub user: Option<String>,
    pub bot_id: Option<String>,
    pub text: Option<String>,
    pub ts: Option<String>,
    pub thread_ts: Option<String>,
    /// Set if the user changed it. Slack also reports its own changes, such as the preview of a link.
    pub edited: Option<Value>,
}

/// A file attached to a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct File {
    pub id: Option<String>,
    pub name: Option<String>,
    pub mimetype: Option<String>,
    pub size: Option<u64>,
    pub url_private: Option<String>,
    pub url_private_download: Option<String>,
}

/// A user's interaction with a message of the app.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Interaction {
    #[serde(rename = "type")]
    pub kind: String,
    pub user: SlackUser,
    pub channel: Named,
    pub container: Message,
    pub message: Message,
    pub actions: Vec<Action>,
    pub trigger_id: Option<String>,
}

/// The user, as interactions describe them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SlackUser {
    pub id: String,
    pub username: Option<String>,
    pub name: Option<String>,
}

/// An object with an id.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub id: Option<String>,
}

/// A message, or its address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub channel_id: Option<String>,
    #[serde(alias = "message_ts")]
    pub ts: Option<String>,
    pub thread_ts: Option<String>,
}

/// A tapped button.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Action {
    pub value: Option<String>,
    pub action_ts: Option<String>,
}

/// The slash command `/baton` with its text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Command {
    pub text: String,
    pub channel_id: Option<String>,
    pub channel_name: Option<String>,
    pub user_id: Option<String>,
    pub user_name: Option<String>,
    pub trigger_id: Option<String>,
}

/// Something that Slack delivered.
#[derive(Debug)]
pub(super) enum Delivery {
    Event(Box<Callback>),
    Interaction(Box<Interaction>),
    Command(Box<Command>),
    /// Of a kind that is ignored.
    Other,
}

impl Delivery {
    /// Parses the payload of a frame of this kind.
    pub(super) fn parse(kind: &str, payload: Value) -> Result<Self, serde_json::Error> {
        fn boxed<T: DeserializeOwned>(payload: Value) -> Result<Box<T>, serde_json::Error> {
            serde_json::from_value(payload).map(Box::new)
        }
        Ok(match kind {
            "events_api" => Self::Event(boxed(payload)?),
            "interactive" => Self::Interaction(boxed(payload)?),
            "slash_commands" => Self::Command(boxed(payload)?),
            _ => Self::Other,
        })
    }
}
