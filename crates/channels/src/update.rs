//! What people do in a chat.

use protocol::Millis;
use serde::{Deserialize, Serialize};

use crate::Place;

/// Something a person did. Services deliver it at least once, and not always in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// What the service calls it: the same again is the same update.
    pub id: String,
    /// Another name of the same thing, where a service tells one thing in two ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Where.
    pub place: Place,
    /// Who.
    pub sender: Sender,
    /// Whether nobody else is in the chat, so that everything said is meant for the agent.
    pub is_direct: bool,
    /// Whether the agent was named, answered or called by a command. In a chat with others only this counts, and
    /// what is said in a thread that has a session.
    pub is_addressed: bool,
    /// The message, in the service's words, to reply to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When, as the service tells it.
    pub sent: Millis,
    /// What.
    pub content: Content,
}

/// A person, as the service knows them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sender {
    /// Does not change and cannot be chosen by the person. Permissions hang on it.
    pub id: String,
    /// For people.
    pub name: String,
}

/// What a person did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Content {
    /// They said something. A command begins with a slash; a mention of the agent is cut off.
    Said {
        /// Plain words.
        text: String,
        /// What came with them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<Attachment>,
    },
    /// They chose a button.
    Tapped {
        /// The button's token.
        token: String,
        /// What the service wants back to stop its waiting animation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<String>,
    },
    /// They used the service's own way to stop what is running.
    Stopped,
}

/// A file that a person sent; it is fetched when it is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// How the service finds it again: an id or an address.
    pub reference: String,
    /// Its name, made up where there is none.
    pub name: String,
    /// Its media type.
    pub mime: String,
    /// Its length in bytes, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}
