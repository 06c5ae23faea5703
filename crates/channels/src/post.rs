//! Messages that Baton sends to a chat.

use serde::{Deserialize, Serialize};

/// One message to send.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    /// Markdown, as agents write it; the adapter converts it to its service's format. Fits into one message.
    pub text: String,
    /// Buttons below the message, at most [`Features::buttons`](crate::Features::buttons).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<Button>,
    /// The service's id of the message that this post replies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// True for the first post of a turn's answer, which replaces the preview that was shown while the answer grew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_answer: bool,
    /// True if a second copy does no harm, as with a note or an open request. Such a post is sent until the service
    /// confirms it; any other post is sent once, even if its delivery is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_repeat: bool,
    /// A file to send with the post; `text` is then its caption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Document>,
}

impl Post {
    /// A post with text only.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// A button that a user can tap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// Visible text. The adapter shortens it to its service's limit.
    pub label: String,
    /// Returned in [`Content::Tap`](crate::Content::Tap) when the user taps the button; at most 40 bytes of
    /// ASCII.
    pub token: String,
}

/// A file to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    pub name: String,
    pub mime: String,
    /// The content. Baton only sends text files: diffs, and answers that are too long for a chat.
    pub text: String,
}
