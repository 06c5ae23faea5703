//! What Slack sends, as far as it matters here. Everything may be missing: other people's servers are partial, and
//! Slack itself leaves out and adds fields as it likes.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// A frame of Socket Mode.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Frame {
    #[serde(rename = "type")]
    pub kind: String,
    /// What is acknowledged; `hello` and `disconnect` have none.
    pub envelope_id: Option<String>,
    pub payload: Value,
    /// Why a connection will be closed.
    pub reason: Option<String>,
}

/// The body of a call of the Events API, and the payload of an `events_api` frame.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Callback {
    #[serde(rename = "type")]
    pub kind: String,
    pub event_id: Option<String>,
    pub event: Event,
    /// What is said back when the address is set up.
    pub challenge: Option<String>,
}

/// An event of a kind that matters here, or of any other.
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
}

/// A file that came with a message.
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

/// Somebody did something with a message of ours.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Interaction {
    #[serde(rename = "type")]
    pub kind: String,
    pub user: Person,
    pub channel: Named,
    pub container: Message,
    pub message: Message,
    pub actions: Vec<Action>,
    pub trigger_id: Option<String>,
}

/// A person, as interactions describe them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Person {
    pub id: String,
    pub username: Option<String>,
    pub name: Option<String>,
}

/// Something with an id.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub id: Option<String>,
}

/// A message, or where it is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub channel_id: Option<String>,
    #[serde(alias = "message_ts")]
    pub ts: Option<String>,
    pub thread_ts: Option<String>,
}

/// A button that was pressed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Action {
    pub value: Option<String>,
    pub action_ts: Option<String>,
}

/// `/baton` and what was written behind it.
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

/// Something that was delivered.
#[derive(Debug)]
pub(super) enum Delivery {
    Event(Box<Callback>),
    Interaction(Box<Interaction>),
    Command(Box<Command>),
    /// Of a kind that does not concern us.
    Other,
}

impl Delivery {
    /// What the payload of a frame of this kind means.
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
