//! Actions of users in a chat.

use protocol::Millis;
use serde::{Deserialize, Serialize};

use crate::Place;

/// An action of a user in a chat. Services deliver an update at least once, and not always in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// The service's id. Two updates with the same id are the same update.
    pub id: String,
    /// A second id of the same update, for services that report one action in two events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    pub place: Place,
    pub sender: Sender,
    /// True if the chat has no other members, so that every message is meant for the agent.
    pub is_direct: bool,
    /// True if the message mentions the agent, replies to it or is a command. In a group, Baton ignores other
    /// messages unless they are in a thread that has a session.
    pub is_addressed: bool,
    /// The service's id of the message, for replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Text of the message that the user replied to. The model does not know which of the messages is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<String>,
    /// Time at which the user acted, as the service reports it.
    pub sent: Millis,
    pub content: Content,
}

/// A user of the chat service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sender {
    /// Stable, and not chosen by the user: permissions depend on it.
    pub id: String,
    pub name: String,
}

/// The kinds of actions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Content {
    /// The user sent a message. A command begins with a slash; the adapter removes a mention of the agent.
    #[serde(rename = "said")]
    Message {
        text: String,
        /// Files attached to the message.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<Attachment>,
    },
    /// The user tapped a button.
    #[serde(rename = "tapped")]
    Tap {
        /// The token of the [`Button`](crate::Button).
        token: String,
        /// The id with which the tap is confirmed, so that the service stops its waiting animation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<String>,
    },
    /// The user used the service's own stop button.
    #[serde(rename = "stopped")]
    Stop,
}

/// A file that a user sent; it is downloaded when a prompt needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The id or address under which the service serves the file.
    pub reference: String,
    /// File name; the adapter invents one if the service reports none.
    pub name: String,
    pub mime: String,
    /// Length in bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}
