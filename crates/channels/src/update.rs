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
    /// The service's id of the message that the user replied to, if the service does not deliver its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies_to: Option<String>,
    /// The id that the messages of an album share. The service delivers them one by one; they are one prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub album: Option<String>,
    /// Time at which the user acted, as the service reports it.
    pub sent: Millis,
    pub content: Content,
}

impl Update {
    /// The text and files of a whole album, as one update.
    pub(crate) fn with_album<'a>(&self, others: impl Iterator<Item = &'a Self>) -> Self {
        let mut whole = self.clone();
        let Content::Message { text, files } = &mut whole.content else { return whole };
        for other in others {
            if let Content::Message { text: more, files: further } = &other.content {
                format!("{text}\n\n{more}").trim().clone_into(text);
                files.extend(further.iter().cloned());
            }
        }
        whole
    }
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
    /// The user sent something that cannot become a prompt, and is told so.
    #[serde(rename = "unusable")]
    Unusable { why: Unusable },
}

/// Messages that cannot become a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unusable {
    /// A changed message. Its first version was already acted upon.
    Edit,
    /// A message without text or file, such as a sticker or a poll.
    Kind,
}

impl Content {
    pub(crate) fn text(text: String) -> Self {
        Self::Message { text, files: Vec::new() }
    }

    /// A location as text, with its name and address if it has them.
    pub(crate) fn location(names: [Option<&str>; 2], latitude: f64, longitude: f64) -> Self {
        let (latitude, longitude) = (latitude.to_string(), longitude.to_string());
        let names = names.into_iter().flatten();
        let words: Vec<&str> = names.chain([latitude.as_str(), longitude.as_str()]).collect();
        Self::text(format!("📍 {}", words.join(", ")))
    }

    /// A contact card as text.
    pub(crate) fn contact<'a>(name: &'a str, phones: impl Iterator<Item = &'a str>) -> String {
        let words: Vec<&str> = std::iter::once(name).chain(phones).collect();
        format!("👤 {}", words.join(", "))
    }
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
