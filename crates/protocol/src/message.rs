//! Messages: what the user said, and one assistant message per step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Extra, MessageError, MessageId, Millis, Part, Rest, SessionId, number::Number, project::FileDiff,
    session::Tokens,
};

/// A message, by who said it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// A prompt.
    User(Box<UserMessage>),
    /// One step of an answer.
    Assistant(Box<AssistantMessage>),
}

impl Message {
    /// Its id.
    pub fn id(&self) -> &MessageId {
        match self {
            Self::User(message) => &message.id,
            Self::Assistant(message) => &message.id,
        }
    }

    /// The session it belongs to.
    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::User(message) => &message.session_id,
            Self::Assistant(message) => &message.session_id,
        }
    }

    /// When it was created.
    pub fn created(&self) -> Millis {
        match self {
            Self::User(message) => message.time.created,
            Self::Assistant(message) => message.time.created,
        }
    }

    /// The key messages are ordered by. Ids alone do not do: their time part wraps (see [`crate::id`]).
    pub fn order(&self) -> (Millis, &MessageId) {
        (self.created(), self.id())
    }
}

/// A message with its parts, as listings return it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageWithParts {
    /// The message.
    pub info: Message,
    /// Its parts, in order of their ids.
    pub parts: Vec<Part>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl MessageWithParts {
    /// A message with its parts.
    pub fn new(info: Message, parts: Vec<Part>) -> Self {
        Self { info, parts, extra: Rest::NONE }
    }
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserMessage {
    /// Its id; the client may choose it.
    pub id: MessageId,
    /// The session it belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// When it was accepted.
    pub time: UserTime,
    /// The agent that is to answer.
    pub agent: String,
    /// The model that is to answer.
    pub model: ModelRef,
    /// The wanted form of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<OutputFormat>,
    /// What the turn changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<UserSummary>,
    /// Extra system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Tools switched on or off (deprecated by OpenCode).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<std::collections::BTreeMap<String, bool>>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl UserMessage {
    /// The field (Baton's addition) by which a message that no person wrote names the prompt it continues.
    pub const CONTINUES: &str = "continues";

    /// The field (Baton's addition) that says where a prompt came from that was not written out.
    pub const ORIGIN: &str = "origin";

    /// Where the prompt came from, if a person did not write it out.
    pub fn origin(&self) -> Option<Origin> {
        serde_json::from_value(self.extra.get(Self::ORIGIN)?.clone()).ok()
    }

    /// The prompt whose turn this message continues; nothing if a person wrote it.
    pub fn continues(&self) -> Option<MessageId> {
        self.extra.get(Self::CONTINUES)?.as_str()?.parse().ok()
    }
}

/// Where a prompt came from that was not written out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Origin {
    /// A slash command.
    Command {
        /// Its name, without the slash.
        name: String,
        /// What was written after it.
        arguments: String,
    },
    /// A command line that a person ran.
    Shell {
        /// The command line.
        command: String,
    },
    /// The agent itself, which began to work unasked.
    Wake,
}

/// When a prompt was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserTime {
    /// Accepted.
    pub created: Millis,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A model as prompts name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ModelRef {
    /// Provider id.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Model id within the provider.
    #[serde(rename = "modelID")]
    pub model_id: String,
    /// Variant, if one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl ModelRef {
    /// A model without a variant.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider_id: provider.into(), model_id: model.into(), variant: None, extra: Rest::NONE }
    }
}

/// The wanted form of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputFormat {
    /// Plain text.
    Text {
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// An object that fits a schema.
    JsonSchema {
        /// The schema.
        schema: Extra,
        /// Declared by OpenCode, unused.
        #[serde(rename = "retryCount", default, skip_serializing_if = "Option::is_none")]
        retry_count: Option<u32>,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
}

/// What the turn of a prompt changed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct UserSummary {
    /// Short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The changes.
    #[serde(default)]
    pub diffs: Vec<FileDiff>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One step of an answer: one model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantMessage {
    /// Its id.
    pub id: MessageId,
    /// The session it belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The user message it answers.
    #[serde(rename = "parentID")]
    pub parent_id: MessageId,
    /// When it was opened and closed.
    pub time: AssistantTime,
    /// Model id within the provider.
    #[serde(rename = "modelID")]
    pub model_id: String,
    /// Provider id.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The agent's name again, for old clients.
    pub mode: String,
    /// The agent that answers.
    pub agent: String,
    /// Where it works.
    pub path: MessagePath,
    /// Cost of this step.
    pub cost: Number,
    /// Tokens of this step.
    pub tokens: Tokens,
    /// Variant, if one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// True for the output of a compaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<bool>,
    /// Structured output, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<MessageError>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl AssistantMessage {
    /// Whether it is a summary that was completed, and so stands for the messages before it.
    pub fn is_summary(&self) -> bool {
        self.summary == Some(true) && self.finish.is_some() && self.error.is_none()
    }
}

/// When a step was opened and closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantTime {
    /// Opened.
    pub created: Millis,
    /// Closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Millis>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Where an agent works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessagePath {
    /// Working directory.
    pub cwd: String,
    /// Worktree root.
    pub root: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl MessagePath {
    /// A working directory in a worktree.
    pub fn new(cwd: impl Into<String>, root: impl Into<String>) -> Self {
        Self { cwd: cwd.into(), root: root.into(), extra: Rest::NONE }
    }
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// It wants tools run.
    ToolCalls,
    /// It hit its output limit.
    Length,
    /// It refused.
    ContentFilter,
    /// It failed.
    Error,
    /// It did not say, or said something new.
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
