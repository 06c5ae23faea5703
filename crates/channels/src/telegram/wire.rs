//! Telegram's types, limited to the fields that are used. Missing and unknown fields are accepted: the API grows,
//! and compatible servers implement only a part of it.

#![expect(clippy::struct_field_names, reason = "the names are Telegram's")]

use serde::Deserialize;
use serde_json::Value;

/// The envelope of every answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    pub ok: bool,
    pub result: Value,
    pub error_code: Option<u16>,
    pub description: String,
    pub parameters: Parameters,
}

/// Hints about an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Parameters {
    pub retry_after: Option<u64>,
    pub migrate_to_chat_id: Option<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    pub id: i64,
    pub is_bot: bool,
    pub first_name: String,
    pub last_name: Option<String>,
    pub username: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Update {
    pub update_id: i64,
    #[serde(default)]
    pub message: Option<Message>,
    #[serde(default)]
    pub edited_message: Option<Message>,
    #[serde(default)]
    pub callback_query: Option<CallbackQuery>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chat {
    pub id: i64,
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub message_id: i64,
    /// A topic if `is_topic_message` is set; otherwise a thread of replies, which is not a separate place.
    pub message_thread_id: Option<i64>,
    pub is_topic_message: bool,
    pub from: Option<User>,
    pub date: i64,
    pub chat: Chat,
    pub text: Option<String>,
    pub caption: Option<String>,
    pub reply_to_message: Option<Box<Message>>,
    /// The part of `reply_to_message` that the user selected.
    pub quote: Option<Quote>,
    /// Set on the message that opened a topic, to which all messages in the topic are formal replies.
    pub forum_topic_created: Option<Value>,
    /// The id that messages of an album share.
    pub media_group_id: Option<String>,
    pub photo: Vec<File>,
    pub document: Option<File>,
    pub voice: Option<File>,
    pub audio: Option<File>,
    pub video: Option<File>,
    pub video_note: Option<File>,
    pub location: Option<Location>,
    /// A location with a name; `location` is set as well.
    pub venue: Option<Venue>,
    pub contact: Option<Contact>,
    pub sticker: Option<Value>,
    pub poll: Option<Value>,
    pub dice: Option<Value>,
    pub game: Option<Value>,
    pub story: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Location {
    pub latitude: f64,
    pub longitude: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Venue {
    pub title: Option<String>,
    pub address: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Contact {
    pub first_name: String,
    pub last_name: Option<String>,
    pub phone_number: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Quote {
    pub text: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallbackQuery {
    pub id: String,
    pub from: User,
    pub message: Option<Message>,
    pub data: Option<String>,
}

/// A file, or one size of a photo.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct File {
    pub file_id: String,
    pub file_size: Option<u64>,
    pub file_name: Option<String>,
    pub mime_type: Option<String>,
    pub file_path: Option<String>,
    pub width: u64,
    pub height: u64,
}
