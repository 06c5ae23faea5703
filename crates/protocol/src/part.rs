//! Parts: the pieces of a message.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{
    Extra, MessageId, Millis, PartId, Rest, SessionId,
    error::ApiError,
    message::{Finish, ModelRef},
    number::Number,
    session::Tokens,
};

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Id. Parts of a message are ordered by it.
    pub id: PartId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// Type and content.
    #[serde(flatten)]
    pub body: PartBody,
}

/// Content of a part, by type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PartBody {
    /// A text of the user or the model.
    Text(TextPart),
    /// Reasoning of the model.
    Reasoning(ReasoningPart),
    /// A tool call and its result.
    Tool(Box<ToolPart>),
    /// The start of a model call.
    StepStart(StepStartPart),
    /// The end of a model call.
    StepFinish(StepFinishPart),
    /// Files that a step changed.
    Patch(PatchPart),
    /// An attached file.
    File(FilePart),
    /// A mention of an agent.
    Agent(AgentPart),
    /// A task for a subagent.
    Subtask(SubtaskPart),
    /// A request to summarise the conversation.
    Compaction(CompactionPart),
    /// Declared by OpenCode, never written.
    Retry(RetryPart),
    /// Declared by OpenCode, never written.
    Snapshot(SnapshotPart),
    /// A type that this version does not know.
    #[serde(untagged)]
    Other(Extra),
}

impl Part {
    /// Returns the text of a text or reasoning part.
    pub fn text(&self) -> Option<&str> {
        match &self.body {
            PartBody::Text(part) => Some(&part.text),
            PartBody::Reasoning(part) => Some(&part.text),
            _ => None,
        }
    }

    /// Returns the text that the search over all sessions covers: a complete text of a user or a model.
    pub fn searchable(&self) -> Option<&str> {
        match &self.body {
            PartBody::Text(part) if part.synthetic != Some(true) && part.ignored != Some(true) => {
                Some(part.text.as_str()).filter(|text| !self.is_open() && !text.is_empty())
            }
            _ => None,
        }
    }

    /// Replaces the text of a text or reasoning part. Does nothing to other parts.
    pub fn set_text(&mut self, text: String) {
        match &mut self.body {
            PartBody::Text(part) => part.text = text,
            PartBody::Reasoning(part) => part.text = text,
            _ => {}
        }
    }

    /// Returns true if the part may still change: a text that streams, or a tool call that has not ended.
    pub fn is_open(&self) -> bool {
        match &self.body {
            // A user's text has no time and is never open.
            PartBody::Text(part) => part.time.as_ref().is_some_and(|time| time.end.is_none()),
            PartBody::Reasoning(part) => part.time.end.is_none(),
            PartBody::Tool(part) => matches!(part.state, ToolState::Pending(_) | ToolState::Running(_)),
            _ => false,
        }
    }
}

/// Start and end of a part.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartTime {
    pub start: Millis,
    /// Absent while the part is open.
    pub end: Option<Millis>,
    /// Time at which a tool's output was dropped from the model's context.
    pub compacted: Option<Millis>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl PartTime {
    /// Creates a time without an end.
    pub fn started(start: Millis) -> Self {
        Self { start, end: None, compacted: None, extra: Extra::new() }
    }

    /// Creates a time with start and end.
    pub fn span(start: Millis, end: Millis) -> Self {
        Self { end: Some(end), ..Self::started(start) }
    }
}

/// A text of the user or the model.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextPart {
    pub text: String,
    /// True if the server generated the text. The model still receives it.
    pub synthetic: Option<bool>,
    /// True if the model does not receive the text.
    pub ignored: Option<bool>,
    /// Absent for texts of the user.
    pub time: Option<PartTime>,
    /// Provider metadata, which Baton does not interpret.
    pub metadata: Option<Extra>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Reasoning of the model.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReasoningPart {
    pub text: String,
    pub time: PartTime,
    /// Provider metadata, such as signatures that later requests must repeat.
    pub metadata: Option<Extra>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A tool call and its result.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolPart {
    /// The model's call id.
    #[serde(rename = "callID")]
    pub call_id: String,
    /// Name of the tool.
    pub tool: String,
    pub state: ToolState,
    /// Contains `providerExecuted` if the provider ran the tool.
    pub metadata: Option<Extra>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// State of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ToolState {
    /// The model is still writing the input.
    Pending(ToolPending),
    /// The tool is running.
    Running(ToolRunning),
    /// The tool succeeded.
    Completed(ToolCompleted),
    /// The tool failed.
    Error(ToolFailed),
}

impl ToolState {
    /// Returns the input, as far as it is known.
    pub fn input(&self) -> &Extra {
        match self {
            Self::Pending(state) => &state.input,
            Self::Running(state) => &state.input,
            Self::Completed(state) => &state.input,
            Self::Error(state) => &state.input,
        }
    }
}

/// State of a call whose input the model is still writing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolPending {
    /// Always empty, as in OpenCode.
    pub input: Extra,
    /// Always empty, as in OpenCode.
    #[serde(default)]
    pub raw: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// State of a running tool.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRunning {
    pub input: Extra,
    /// Short description for users.
    pub title: Option<String>,
    /// Progress, in a form that depends on the tool.
    pub metadata: Option<Extra>,
    pub time: PartTime,
    #[serde(flatten)]
    pub extra: Extra,
}

/// State of a tool that succeeded.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCompleted {
    pub input: Extra,
    /// Result for the model.
    pub output: String,
    /// Short description for users.
    pub title: String,
    /// Details, in a form that depends on the tool.
    #[serde(default)]
    pub metadata: Extra,
    pub time: PartTime,
    /// Files that the tool produced.
    pub attachments: Option<Vec<Part>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// State of a tool that failed, or that the user refused or aborted.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolFailed {
    pub input: Extra,
    /// Error text for the model.
    pub error: String,
    /// Contains `interrupted: true` if the call was aborted.
    pub metadata: Option<Extra>,
    pub time: PartTime,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The start of a model call.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepStartPart {
    /// Snapshot of the working tree before the step.
    pub snapshot: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The end of a model call.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepFinishPart {
    pub reason: Finish,
    /// Snapshot of the working tree after the step.
    pub snapshot: Option<String>,
    pub cost: Number,
    pub tokens: Tokens,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Files that a step changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatchPart {
    /// Snapshot of the working tree before the step.
    pub hash: String,
    /// Absolute paths.
    pub files: Vec<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An attached file.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FilePart {
    pub mime: String,
    pub filename: Option<String>,
    /// A `data:`, `file:` or `http:` URL.
    pub url: String,
    /// Position of the mention in the prompt: a `file`, a `symbol` or an MCP `resource`.
    pub source: Option<Extra>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A mention of an agent.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentPart {
    /// Name of the agent.
    pub name: String,
    /// Position of the mention in the prompt.
    pub source: Option<Extra>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A task for a subagent.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubtaskPart {
    /// Prompt for the subagent.
    pub prompt: String,
    /// Short description for users.
    pub description: String,
    /// Name of the subagent.
    pub agent: String,
    /// Model, if it differs from the subagent's own.
    pub model: Option<ModelRef>,
    /// Name of the slash command that created the task.
    pub command: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A request to summarise the conversation.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionPart {
    /// True if the server requested it, false if the user did.
    pub auto: bool,
    /// True if the provider reported a full context.
    pub overflow: Option<bool>,
    /// First message that stays verbatim.
    pub tail_start_id: Option<MessageId>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Declared by OpenCode, never written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetryPart {
    /// Number of the failed attempt.
    pub attempt: u32,
    pub error: ApiErrorPart,
    pub time: RetryTime,
    #[serde(flatten)]
    pub extra: Rest,
}

/// An [`ApiError`] in its `{name, data}` shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApiErrorPart {
    /// Always `APIError`.
    pub name: String,
    pub data: ApiError,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Time of a failed attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetryTime {
    pub created: Millis,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Declared by OpenCode, never written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotPart {
    /// Snapshot of the working tree.
    pub snapshot: String,
    #[serde(flatten)]
    pub extra: Rest,
}
