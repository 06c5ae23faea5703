//! What is said in a chat.

use serde::{Deserialize, Serialize};

/// One message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    /// Markdown, as agents write it; an adapter puts it into its service's form. Short enough for one message.
    pub text: String,
    /// What can be chosen, not more than the adapter's abilities allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<Button>,
    /// The message it answers, in the service's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Whether it begins the answer of a turn: it takes the place of what was shown while the answer grew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_answer: bool,
    /// A file that comes with it; then the text is its caption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Document>,
}

impl Post {
    /// Nothing but words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Something to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// For people. An adapter shortens it if it must.
    pub label: String,
    /// Comes back in [`Content::Tapped`](crate::Content::Tapped); at most 40 bytes of ASCII.
    pub token: String,
}

/// A file to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Its name.
    pub name: String,
    /// Its media type.
    pub mime: String,
    /// Its text: what is sent as a file is a diff, or an answer too long to read in a chat.
    pub text: String,
}
