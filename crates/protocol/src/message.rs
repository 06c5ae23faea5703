//! Messages: one per user prompt and one per step of the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with_macros::skip_serializing_none;

use crate::{
    Extra, MessageError, MessageId, Millis, Part, Rest, SessionId, number::Number, project::FileDiff,
    session::Tokens,
};

/// A message, by role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// A prompt of the user or a generated one.
    User(Box<UserMessage>),
    /// One step of an answer.
    Assistant(Box<AssistantMessage>),
}

impl Message {
    pub fn id(&self) -> &MessageId {
        match self {
            Self::User(message) => &message.id,
            Self::Assistant(message) => &message.id,
        }
    }

    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::User(message) => &message.session_id,
            Self::Assistant(message) => &message.session_id,
        }
    }

    pub fn created(&self) -> Millis {
        match self {
            Self::User(message) => message.time.created,
            Self::Assistant(message) => message.time.created,
        }
    }

    /// Returns the sort key of messages. Ids alone do not suffice: their time digits wrap (see [`crate::id`]).
    pub fn order(&self) -> (Millis, &MessageId) {
        (self.created(), self.id())
    }
}

/// A message with its parts, as lists return it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageWithParts {
    pub info: Message,
    /// Parts in order of their ids.
    pub parts: Vec<Part>,
    #[serde(flatten)]
    pub extra: Rest,
}

impl MessageWithParts {
    /// Creates a message without unknown fields.
    pub fn new(info: Message, parts: Vec<Part>) -> Self {
        Self { info, parts, extra: Rest::NONE }
    }
}

/// A prompt of the user or a generated one.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserMessage {
    /// Id. The client may choose it.
    pub id: MessageId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    pub time: UserTime,
    /// Agent that answers.
    pub agent: String,
    /// Model that answers.
    pub model: ModelRef,
    /// Requested format of the answer.
    pub format: Option<OutputFormat>,
    /// Changes that the turn made.
    pub summary: Option<UserSummary>,
    /// Addition to the system prompt.
    pub system: Option<String>,
    /// Enables or disables tools by name (deprecated by OpenCode).
    pub tools: Option<std::collections::BTreeMap<String, bool>>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl UserMessage {
    /// Field of a generated message that names the prompt it continues (Baton's addition).
    pub const CONTINUES: &str = "continues";

    /// Field with the origin of a prompt that the user did not type (Baton's addition).
    pub const ORIGIN: &str = "origin";

    /// Returns the origin of the prompt; `None` if the user typed it.
    pub fn origin(&self) -> Option<Origin> {
        serde_json::from_value(self.extra.get(Self::ORIGIN)?.clone()).ok()
    }

    /// Returns the prompt whose turn this message continues; `None` for a user prompt.
    pub fn continues(&self) -> Option<MessageId> {
        self.extra.get(Self::CONTINUES)?.as_str()?.parse().ok()
    }
}

/// Origin of a prompt that the user did not type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Origin {
    /// A slash command.
    Command {
        /// Name without the slash.
        name: String,
        /// Text after the name.
        arguments: String,
    },
    /// A shell command of the user.
    Shell { command: String },
    /// The agent began to work without a prompt.
    Wake,
    /// A plugin.
    Plugin,
}

/// Times of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserTime {
    /// Time at which the server accepted the prompt.
    pub created: Millis,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Reference to a model.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ModelRef {
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Model id within the provider.
    #[serde(rename = "modelID")]
    pub model_id: String,
    /// Variant; absent for the default.
    pub variant: Option<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

impl ModelRef {
    /// Creates a reference without a variant.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider_id: provider.into(), model_id: model.into(), variant: None, extra: Rest::NONE }
    }
}

/// Format of an answer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputFormat {
    /// Plain text, the default.
    Text {
        #[serde(flatten)]
        extra: Rest,
    },
    /// An object that fits a JSON schema.
    JsonSchema {
        schema: Extra,
        /// Number of additional attempts when an answer does not fit the schema.
        #[serde(rename = "retryCount")]
        retry_count: Option<u32>,
        #[serde(flatten)]
        extra: Rest,
    },
}

/// Changes that the turn of a prompt made.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct UserSummary {
    pub title: Option<String>,
    pub body: Option<String>,
    #[serde(default)]
    pub diffs: Vec<FileDiff>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One step of an answer: one model call.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantMessage {
    pub id: MessageId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The user message that the step answers.
    #[serde(rename = "parentID")]
    pub parent_id: MessageId,
    pub time: AssistantTime,
    /// Model id within the provider.
    #[serde(rename = "modelID")]
    pub model_id: String,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Name of the agent again, for old clients.
    pub mode: String,
    /// Agent that answers.
    pub agent: String,
    /// Directories of the agent.
    pub path: MessagePath,
    /// Cost of the step.
    pub cost: Number,
    /// Tokens of the step.
    pub tokens: Tokens,
    /// Variant; absent for the default.
    pub variant: Option<String>,
    /// True if the message is the summary of a compaction.
    pub summary: Option<bool>,
    /// Structured output, if the prompt asked for it.
    pub structured: Option<Value>,
    /// Reason why the model stopped; absent while the step runs.
    pub finish: Option<Finish>,
    pub error: Option<MessageError>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl AssistantMessage {
    /// Returns true if the message is a finished summary, which replaces the messages before it.
    pub fn is_summary(&self) -> bool {
        self.summary == Some(true) && self.finish.is_some() && self.error.is_none()
    }
}

/// Times of a step.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantTime {
    /// Start of the step.
    pub created: Millis,
    /// End of the step; absent while it runs.
    pub completed: Option<Millis>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Directories of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessagePath {
    /// Working directory.
    pub cwd: String,
    /// Root of the worktree.
    pub root: String,
    #[serde(flatten)]
    pub extra: Rest,
}

impl MessagePath {
    /// Creates a path without unknown fields.
    pub fn new(cwd: impl Into<String>, root: impl Into<String>) -> Self {
        Self { cwd: cwd.into(), root: root.into(), extra: Rest::NONE }
    }
}

/// Reason why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// The answer is complete.
    Stop,
    /// The model calls tools.
    ToolCalls,
    /// The model reached its output limit.
    Length,
    /// The provider's content filter stopped the answer.
    ContentFilter,
    /// The provider reported an error.
    Error,
    /// The provider gave no reason or an unknown one.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Ids, RANDOM_BYTES};

    fn message(ids: &mut Ids, now: Millis, random: u8) -> Message {
        Message::User(Box::new(UserMessage {
            id: ids.next(now, [random; RANDOM_BYTES]),
            session_id: "ses_1".parse().unwrap(),
            time: UserTime { created: now, extra: Extra::new() },
            agent: "build".into(),
            model: ModelRef::new("demo", "demo"),
            format: None,
            summary: None,
            system: None,
            tools: None,
            extra: Extra::new(),
        }))
    }

    #[test]
    fn messages_order_by_time_across_the_wrap_of_ids() {
        let wrap = 26 << 36;
        let mut ids = Ids::default();
        let moments = [(wrap - 2, 0), (wrap - 1, 9), (wrap - 1, 1), (wrap, 0), (wrap + 1, 0)];
        let written = moments.map(|(now, random)| message(&mut ids, now, random));
        assert!(written[3].id() < written[0].id(), "the wrap lies between them");
        let mut sorted = [4, 2, 0, 3, 1].map(|index| written[index].clone());
        sorted.sort_by(|a, b| a.order().cmp(&b.order()));
        assert_eq!(sorted, written);
    }
}
