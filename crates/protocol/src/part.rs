//! Parts: the pieces of a message.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Its id; parts of a message are ordered by it.
    pub id: PartId,
    /// The session it belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The message it belongs to.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// What it holds.
    #[serde(flatten)]
    pub body: PartBody,
}

/// What a part holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PartBody {
    /// Words.
    Text(TextPart),
    /// The model's thinking.
    Reasoning(ReasoningPart),
    /// A tool call and what came of it.
    Tool(Box<ToolPart>),
    /// The start of a model call.
    StepStart(StepStartPart),
    /// The end of a model call.
    StepFinish(StepFinishPart),
    /// Files a step changed.
    Patch(PatchPart),
    /// An attachment.
    File(FilePart),
    /// A mention of an agent.
    Agent(AgentPart),
    /// A command that became a subagent's task.
    Subtask(SubtaskPart),
    /// A request to compact the conversation.
    Compaction(CompactionPart),
    /// Declared by OpenCode, never written.
    Retry(RetryPart),
    /// Declared by OpenCode, never written.
    Snapshot(SnapshotPart),
    /// A type this version does not know.
    #[serde(untagged)]
    Other(Extra),
}

impl Part {
    /// The text of a text or reasoning part.
    pub fn text(&self) -> Option<&str> {
        match &self.body {
            PartBody::Text(part) => Some(&part.text),
            PartBody::Reasoning(part) => Some(&part.text),
            _ => None,
        }
    }

    /// Replaces the text of a text or reasoning part; other parts have none.
    pub fn set_text(&mut self, text: String) {
        match &mut self.body {
            PartBody::Text(part) => part.text = text,
            PartBody::Reasoning(part) => part.text = text,
            _ => {}
        }
    }

    /// Whether something more is expected to happen to this part.
    pub fn is_open(&self) -> bool {
        match &self.body {
            // A user's text has no time at all: it was never open.
            PartBody::Text(part) => part.time.as_ref().is_some_and(|time| time.end.is_none()),
            PartBody::Reasoning(part) => part.time.end.is_none(),
            PartBody::Tool(part) => matches!(part.state, ToolState::Pending(_) | ToolState::Running(_)),
            _ => false,
        }
    }
}

/// Start and end of a streamed part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartTime {
    /// Began.
    pub start: Millis,
    /// Ended; absent while it streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Millis>,
    /// When its output was dropped from the model's view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Millis>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl PartTime {
    /// Began now, not ended.
    pub fn started(start: Millis) -> Self {
        Self { start, end: None, compacted: None, extra: Extra::new() }
    }

    /// Began and ended.
    pub fn span(start: Millis, end: Millis) -> Self {
        Self { end: Some(end), ..Self::started(start) }
    }
}

/// Words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextPart {
    /// The words.
    pub text: String,
    /// Written by the server, still sent to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<bool>,
    /// Never sent to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<bool>,
    /// Absent for what a user said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<PartTime>,
    /// Opaque to us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extra>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The model's thinking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReasoningPart {
    /// The words.
    pub text: String,
    /// Began and ended.
    pub time: PartTime,
    /// Signatures that the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extra>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolPart {
    /// The model's id of the call.
    #[serde(rename = "callID")]
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// How far it got.
    pub state: ToolState,
    /// `providerExecuted` when the provider ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extra>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// How far a tool call got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ToolState {
    /// The model is still writing its input.
    Pending(ToolPending),
    /// It runs.
    Running(ToolRunning),
    /// It worked.
    Completed(ToolCompleted),
    /// It did not.
    Error(ToolFailed),
}

impl ToolState {
    /// The input, as far as it is known.
    pub fn input(&self) -> &Extra {
        match self {
            Self::Pending(state) => &state.input,
            Self::Running(state) => &state.input,
            Self::Completed(state) => &state.input,
            Self::Error(state) => &state.input,
        }
    }
}

/// The model is still writing the input.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolPending {
    /// Always empty.
    pub input: Extra,
    /// Always empty.
    #[serde(default)]
    pub raw: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The tool runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRunning {
    /// What it was called with.
    pub input: Extra,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Progress, by tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extra>,
    /// Began.
    pub time: PartTime,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The tool worked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCompleted {
    /// What it was called with.
    pub input: Extra,
    /// What the model gets to see.
    pub output: String,
    /// For people.
    pub title: String,
    /// Facts, by tool.
    #[serde(default)]
    pub metadata: Extra,
    /// Began and ended.
    pub time: PartTime,
    /// Files it produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<Part>>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The tool failed, was refused or was cut short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolFailed {
    /// What it was called with.
    pub input: Extra,
    /// What the model gets to see.
    pub error: String,
    /// `interrupted: true` when it was cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extra>,
    /// Began and ended.
    pub time: PartTime,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The start of a model call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepStartPart {
    /// Tree before the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The end of a model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepFinishPart {
    /// Why the model stopped.
    pub reason: Finish,
    /// Tree after the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What it cost.
    pub cost: Number,
    /// What it used.
    pub tokens: Tokens,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Files a step changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatchPart {
    /// Tree before the step.
    pub hash: String,
    /// Absolute paths.
    pub files: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An attachment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FilePart {
    /// Media type.
    pub mime: String,
    /// Shown name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// `data:`, `file:` or `http`.
    pub url: String,
    /// Where in the prompt it was mentioned: a `file`, a `symbol` or an MCP `resource`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Extra>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A mention of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentPart {
    /// The agent.
    pub name: String,
    /// Where in the prompt it was mentioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Extra>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A command that became a subagent's task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubtaskPart {
    /// What the subagent is told.
    pub prompt: String,
    /// For people.
    pub description: String,
    /// The subagent.
    pub agent: String,
    /// Its model, if not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The command it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A request to compact the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionPart {
    /// Asked for by the server, not the person.
    pub auto: bool,
    /// Because the provider said the context is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<bool>,
    /// First message that is kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_start_id: Option<MessageId>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Declared by OpenCode, never written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetryPart {
    /// Which attempt failed.
    pub attempt: u32,
    /// How.
    pub error: ApiErrorPart,
    /// When.
    pub time: RetryTime,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// An [`ApiError`] in its `{name, data}` shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApiErrorPart {
    /// `APIError`.
    pub name: String,
    /// The error.
    pub data: ApiError,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// When an attempt failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetryTime {
    /// When.
    pub created: Millis,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Declared by OpenCode, never written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotPart {
    /// A tree.
    pub snapshot: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}
