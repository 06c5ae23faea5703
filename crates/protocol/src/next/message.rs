//! Messages: what a person said, and one entry per step of the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    prompt::{AgentMention, Attachment, Prompt},
    session::{NextModel, Spent},
};
use crate::{
    Extra, Message, MessageId, MessageWithParts, Millis, Part, PartBody, SessionId,
    message::{AssistantMessage as Step, UserMessage},
    number::Number,
    part::{ToolPart, ToolState as State},
};

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum NextMessage {
    /// A person said something.
    User {
        /// Its id.
        id: MessageId,
        /// When.
        time: Created,
        /// Words.
        text: String,
        /// Attachments.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        files: Option<Vec<Attachment>>,
        /// Mentions of agents.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agents: Option<Vec<AgentMention>>,
    },
    /// The server said something in a person's place.
    Synthetic {
        /// Its id.
        id: MessageId,
        /// When.
        time: Created,
        /// Its session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// Words.
        text: String,
    },
    /// A step of an answer.
    Assistant(Box<AssistantMessage>),
    /// Older messages were replaced by a summary.
    Compaction {
        /// Its id.
        id: MessageId,
        /// When.
        time: Created,
        /// Who wanted it.
        reason: Reason,
        /// The summary.
        summary: String,
        /// What was kept as it was; kept messages stay in the list here, so it is empty.
        recent: String,
    },
}

/// Who wanted a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The context was full.
    Auto,
    /// A person.
    Manual,
}

/// When a message was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Created {
    /// Then.
    pub created: Millis,
}

/// From when to when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    /// The beginning.
    pub created: Millis,
    /// The end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Millis>,
}

/// A step of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantMessage {
    /// Its id.
    pub id: MessageId,
    /// When.
    pub time: Span,
    /// Who answers.
    pub agent: String,
    /// With which model.
    pub model: NextModel,
    /// What was said and done.
    pub content: Vec<AssistantContent>,
    /// The tree before and after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshots>,
    /// Why the model stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Number>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Spent>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Wrong>,
}

/// The tree before and after a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshots {
    /// Before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// After.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// What was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Wrong {
    /// For people.
    Unknown {
        /// What happened.
        message: String,
    },
}

impl Wrong {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self::Unknown { message: message.into() }
    }
}

/// Something that was said or done in a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum AssistantContent {
    /// Words.
    Text {
        /// Its id.
        id: String,
        /// The words so far.
        text: String,
    },
    /// Thoughts.
    Reasoning {
        /// Its id.
        id: String,
        /// The thoughts so far.
        text: String,
        /// When.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Span>,
    },
    /// A tool call.
    Tool {
        /// The model's id of the call.
        id: String,
        /// The tool.
        name: String,
        /// How far it got.
        state: Box<ToolState>,
        /// When.
        time: ToolTime,
    },
}

/// When a tool did what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolTime {
    /// When it was called.
    pub created: Millis,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Millis>,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Millis>,
    /// When its output was dropped from the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Millis>,
}

/// How far a tool call got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ToolState {
    /// The model is still writing the call.
    Pending {
        /// What it has written.
        input: String,
    },
    /// It runs.
    Running {
        /// What it was called with.
        input: Extra,
        /// Facts, by tool.
        structured: Extra,
        /// What there is to see.
        content: Vec<ToolContent>,
    },
    /// It worked.
    Completed {
        /// What it was called with.
        input: Extra,
        /// Facts, by tool.
        structured: Extra,
        /// What there is to see.
        content: Vec<ToolContent>,
    },
    /// It did not work.
    Error {
        /// What it was called with.
        input: Extra,
        /// Facts, by tool.
        structured: Extra,
        /// What there is to see.
        content: Vec<ToolContent>,
        /// Why.
        error: Wrong,
    },
}

/// What a tool gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ToolContent {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A file.
    File {
        /// Where it is.
        uri: String,
        /// What kind of file it is.
        mime: String,
        /// What it is called.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

impl NextMessage {
    /// A stored message in this wire's form. A request for a summary has none: its summary has.
    pub fn of(message: &MessageWithParts, reason: Reason) -> Option<Self> {
        match &message.info {
            Message::User(user) => said(user, message),
            Message::Assistant(step) if step.summary == Some(true) => Some(Self::Compaction {
                id: step.id.clone(),
                time: Created { created: step.time.created },
                reason,
                summary: words(&message.parts),
                recent: String::new(),
            }),
            Message::Assistant(step) => Some(Self::Assistant(Box::new(answered(step, &message.parts)))),
        }
    }
}

/// The words of all texts.
pub(super) fn words(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.body {
        PartBody::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn said(user: &UserMessage, message: &MessageWithParts) -> Option<NextMessage> {
    if message.parts.iter().any(|part| matches!(part.body, PartBody::Compaction(_))) {
        return None;
    }
    let Prompt { text, files, agents } = Prompt::of(message);
    let (id, time) = (user.id.clone(), Created { created: user.time.created });
    let nobody = text.is_empty() && files.is_none() && agents.is_none();
    Some(if nobody && !message.parts.is_empty() {
        NextMessage::Synthetic { id, time, session_id: user.session_id.clone(), text: words(&message.parts) }
    } else {
        NextMessage::User { id, time, text, files, agents }
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

/// The model of a step.
pub(super) fn model(step: &Step) -> NextModel {
    NextModel {
        id: step.model_id.clone(),
        provider_id: step.provider_id.clone(),
        variant: step.variant.clone(),
    }
}

/// A finish reason as the wire spells it.
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

/// What there is to see of a tool that is done.
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

/// Facts about a running or finished tool.
pub(super) fn facts(tool: &ToolPart) -> Extra {
    match &tool.state {
        State::Running(running) => running.metadata.clone().unwrap_or_default(),
        State::Completed(done) => done.metadata.clone(),
        State::Error(failed) => failed.metadata.clone().unwrap_or_default(),
        State::Pending(_) => Extra::new(),
    }
}

/// Whether the provider ran the tool itself.
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
