//! Messages in the shapes of `/api`: one per user prompt and one per step of the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with_macros::skip_serializing_none;

use super::{
    prompt::{AgentMention, Attachment, Prompt},
    session::{Model, Spent},
};
use crate as v1;
use crate::{
    Extra, MessageId, MessageWithParts, Millis, Part, PartBody, SessionId,
    message::{AssistantMessage as Step, UserMessage},
    number::Number,
    part::{ToolPart, ToolState as State},
};

/// A message of a session.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[schemars(rename = "V2Message")]
pub enum Message {
    /// A prompt of the user.
    User {
        id: MessageId,
        time: Created,
        text: String,
        files: Option<Vec<Attachment>>,
        agents: Option<Vec<AgentMention>>,
    },
    /// A generated user message.
    Synthetic {
        id: MessageId,
        time: Created,
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        text: String,
    },
    /// One step of an answer.
    Assistant(Box<AssistantMessage>),
    /// A summary that replaced older messages.
    Compaction {
        id: MessageId,
        time: Created,
        reason: Reason,
        summary: String,
        /// Always empty: messages that the compaction kept stay in the list.
        recent: String,
    },
}

/// Trigger of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The context was full.
    Auto,
    /// The user requested it.
    Manual,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Created {
    pub created: Millis,
}

/// Start and end time.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    pub created: Millis,
    /// Absent until the end.
    pub completed: Option<Millis>,
}

/// One step of an answer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantMessage {
    pub id: MessageId,
    pub time: Span,
    pub agent: String,
    pub model: Model,
    /// Texts, reasoning and tool calls of the step.
    pub content: Vec<AssistantContent>,
    /// Snapshots of the working tree before and after the step.
    pub snapshot: Option<Snapshots>,
    /// Reason why the model stopped; absent while the step runs.
    pub finish: Option<String>,
    pub cost: Option<Number>,
    pub tokens: Option<Spent>,
    pub error: Option<Wrong>,
}

/// Snapshots of the working tree before and after a step.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshots {
    pub start: Option<String>,
    pub end: Option<String>,
    /// Paths of the changed files.
    pub files: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Wrong {
    /// An error without further classification.
    Unknown { message: String },
}

impl Wrong {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self::Unknown { message: message.into() }
    }
}

/// A text, reasoning or tool call of a step.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum AssistantContent {
    Text {
        id: String,
        /// The text so far.
        text: String,
    },
    Reasoning {
        id: String,
        /// The text so far.
        text: String,
        time: Option<Span>,
    },
    Tool {
        /// The model's call id.
        id: String,
        /// Name of the tool.
        name: String,
        state: Box<ToolState>,
        time: ToolTime,
    },
}

/// Times of a tool call.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolTime {
    pub created: Millis,
    /// Start of the tool; absent while the model writes the call.
    pub ran: Option<Millis>,
    /// End of the tool; absent until then.
    pub completed: Option<Millis>,
    /// Time at which the output was dropped from the model's context.
    pub pruned: Option<Millis>,
}

/// State of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ToolState {
    /// The model is still writing the call.
    Pending {
        /// The input so far.
        input: String,
    },
    Running {
        input: Extra,
        /// Details, in a form that depends on the tool.
        structured: Extra,
        /// Output of the tool so far.
        content: Vec<ToolContent>,
    },
    /// The tool succeeded.
    Completed {
        input: Extra,
        /// Details, in a form that depends on the tool.
        structured: Extra,
        content: Vec<ToolContent>,
    },
    /// The tool failed.
    Error {
        input: Extra,
        /// Details, in a form that depends on the tool.
        structured: Extra,
        content: Vec<ToolContent>,
        error: Wrong,
    },
}

/// Output of a tool.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ToolContent {
    Text { text: String },
    File { uri: String, mime: String, name: Option<String> },
}

impl Message {
    /// Translates a stored message. Returns `None` for a request for a summary; the summary itself represents it.
    pub fn of(message: &MessageWithParts, reason: Reason) -> Option<Self> {
        match &message.info {
            v1::Message::User(user) => user_message(user, message),
            v1::Message::Assistant(step) if step.summary == Some(true) => Some(Self::Compaction {
                id: step.id.clone(),
                time: Created { created: step.time.created },
                reason,
                summary: words(&message.parts),
                recent: String::new(),
            }),
            v1::Message::Assistant(step) => Some(Self::Assistant(Box::new(answered(step, &message.parts)))),
        }
    }
}

/// Joins the text parts with newlines.
pub(super) fn words(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.body {
        PartBody::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn user_message(user: &UserMessage, message: &MessageWithParts) -> Option<Message> {
    if message.parts.iter().any(|part| matches!(part.body, PartBody::Compaction(_))) {
        return None;
    }
    let Prompt { text, files, agents } = Prompt::of(message);
    let (id, time) = (user.id.clone(), Created { created: user.time.created });
    let generated = text.is_empty() && files.is_none() && agents.is_none();
    Some(if generated && !message.parts.is_empty() {
        Message::Synthetic { id, time, session_id: user.session_id.clone(), text: words(&message.parts) }
    } else {
        Message::User { id, time, text, files, agents }
    })
}

fn answered(step: &Step, parts: &[Part]) -> AssistantMessage {
    let mut snapshot = Snapshots::default();
    let mut content = Vec::new();
    for part in parts {
        match &part.body {
            PartBody::StepStart(start) => snapshot.start.clone_from(&start.snapshot),
            PartBody::StepFinish(finish) => snapshot.end.clone_from(&finish.snapshot),
            PartBody::Patch(patch) => snapshot.files = Some(patch.files.clone()),
            _ => content.extend(content_of(part, step.time.created)),
        }
    }
    AssistantMessage {
        id: step.id.clone(),
        time: Span { created: step.time.created, completed: step.time.completed },
        agent: step.agent.clone(),
        model: model(step),
        content,
        snapshot: Some(snapshot).filter(|snapshot| *snapshot != Snapshots::default()),
        finish: step.finish.map(finish_name),
        cost: Some(step.cost),
        tokens: Some(step.tokens.clone().into()),
        error: step.error.as_ref().map(|error| Wrong::new(error.message())),
    }
}

/// Returns the model of a step.
pub(super) fn model(step: &Step) -> Model {
    Model { id: step.model_id.clone(), provider_id: step.provider_id.clone(), variant: step.variant.clone() }
}

/// Returns a finish reason as the wire spells it.
pub(super) fn finish_name(finish: crate::message::Finish) -> String {
    serde_json::to_value(finish).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn content_of(part: &Part, created: Millis) -> Option<AssistantContent> {
    let id = part.id.to_string();
    Some(match &part.body {
        PartBody::Text(text) => AssistantContent::Text { id, text: text.text.clone() },
        PartBody::Reasoning(thought) => AssistantContent::Reasoning {
            id,
            text: thought.text.clone(),
            time: Some(Span { created: thought.time.start, completed: thought.time.end }),
        },
        PartBody::Tool(tool) => AssistantContent::Tool {
            id: tool.call_id.clone(),
            name: tool.tool.clone(),
            state: Box::new(state(tool)),
            time: time(tool, created),
        },
        _ => return None,
    })
}

fn state(tool: &ToolPart) -> ToolState {
    let input = tool.state.input().clone();
    match &tool.state {
        State::Pending(pending) => ToolState::Pending { input: pending.raw.clone() },
        State::Running(running) => ToolState::Running {
            input,
            structured: running.metadata.clone().unwrap_or_default(),
            content: Vec::new(),
        },
        State::Completed(done) => {
            ToolState::Completed { input, structured: done.metadata.clone(), content: seen(tool) }
        }
        State::Error(failed) => ToolState::Error {
            input,
            structured: failed.metadata.clone().unwrap_or_default(),
            content: Vec::new(),
            error: Wrong::new(&failed.error),
        },
    }
}

/// Returns the output of a finished tool.
pub(super) fn seen(tool: &ToolPart) -> Vec<ToolContent> {
    let State::Completed(done) = &tool.state else { return Vec::new() };
    let files = done.attachments.iter().flatten().filter_map(|part| match &part.body {
        PartBody::File(file) => Some(ToolContent::File {
            uri: file.url.clone(),
            mime: file.mime.clone(),
            name: file.filename.clone(),
        }),
        _ => None,
    });
    std::iter::once(ToolContent::Text { text: done.output.clone() }).chain(files).collect()
}

/// Returns the metadata of a running or finished tool.
pub(super) fn facts(tool: &ToolPart) -> Extra {
    match &tool.state {
        State::Running(running) => running.metadata.clone().unwrap_or_default(),
        State::Completed(done) => done.metadata.clone(),
        State::Error(failed) => failed.metadata.clone().unwrap_or_default(),
        State::Pending(_) => Extra::new(),
    }
}

/// Returns true if the provider ran the tool itself.
pub(super) fn is_provided(tool: &ToolPart) -> bool {
    tool.metadata.as_ref().and_then(|facts| facts.get("providerExecuted")) == Some(&Value::Bool(true))
}

fn time(tool: &ToolPart, created: Millis) -> ToolTime {
    let span = match &tool.state {
        State::Pending(_) => None,
        State::Running(running) => Some(&running.time),
        State::Completed(done) => Some(&done.time),
        State::Error(failed) => Some(&failed.time),
    };
    ToolTime {
        created: span.map_or(created, |span| span.start),
        ran: span.map(|span| span.start),
        completed: span.and_then(|span| span.end),
        pruned: span.and_then(|span| span.compacted),
    }
}
