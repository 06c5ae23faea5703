//! Waiting prompts, and the changes that clients make to them (Baton's addition).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{
    Message, MessageId, MessageWithParts, Part, Rest,
    message::{ModelRef, UserTime},
    prompt::{Delivery, PartInput},
};

/// A waiting prompt in `session.queue.updated`. Events of its message and parts have the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// The user message.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    pub delivery: Delivery,
    #[serde(flatten)]
    pub extra: Rest,
}

impl Waiting {
    /// Creates an entry without unknown fields.
    pub fn new(message_id: MessageId, delivery: Delivery) -> Self {
        Self { message_id, delivery, extra: Rest::NONE }
    }
}

/// A waiting prompt with its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuedPrompt {
    /// The user message.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    pub delivery: Delivery,
    /// Agent that will answer.
    pub agent: String,
    /// Model that will answer.
    pub model: ModelRef,
    pub time: UserTime,
    pub parts: Vec<Part>,
    #[serde(flatten)]
    pub extra: Rest,
}

impl QueuedPrompt {
    /// Describes a stored user message that waits; `None` if the message is an answer.
    pub fn new(message: MessageWithParts, delivery: Delivery) -> Option<Self> {
        let Message::User(user) = message.info else { return None };
        let (message_id, agent, model, time) = (user.id, user.agent, user.model, user.time);
        Some(Self { message_id, delivery, agent, model, time, parts: message.parts, extra: Rest::NONE })
    }
}

/// The body of `PATCH /session/{id}/queue/{messageID}`. Absent fields change nothing.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuePatch {
    /// Replaces the content. Each part gets a new id.
    pub parts: Option<Vec<PartInput>>,
    pub delivery: Option<Delivery>,
    /// New position in the queue, starting at 0. A larger number than the queue has moves the prompt to the end.
    pub position: Option<usize>,
    #[serde(flatten)]
    pub extra: Rest,
}
