//! Events in the shapes of `/api`, translated from the events of the older interface.
//!
//! The translation depends only on the event itself (and for a few types on the message it concerns), so a client
//! can start to read at any event. One event becomes at most two; see [`Body::of`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use super::{
    message::{self, Reason, ToolContent, Wrong},
    prompt::Prompt,
    session::{Location, Model, Spent},
};
use crate as v1;
use crate::{
    EventBody, EventId, Extra, MessageId, MessageWithParts, Millis, Part, PartBody, PartId, SessionId,
    SessionStatus,
    message::AssistantMessage,
    number::Number,
    part::{ToolPart, ToolState},
    prompt::Delivery,
};

/// An event of the newer interface.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Event")]
pub struct Event {
    pub id: EventId,
    #[serde(flatten)]
    pub body: Body,
    /// Position in the session's history; absent for live events.
    pub durable: Option<Mark>,
    pub location: Option<Location>,
}

/// An event of the older interface in the envelope of the newer one.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OlderEvent {
    pub id: EventId,
    pub r#type: String,
    /// Properties of the event; the older interface calls them `properties`.
    #[serde(alias = "properties")]
    pub data: Extra,
    pub location: Option<Location>,
}

/// An event of either interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AnyEvent {
    /// An event with a type of the newer interface.
    Next(Box<Event>),
    /// An event with a type of the older interface.
    Older(OlderEvent),
}

/// A position in a session's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// Id of the session.
    #[serde(rename = "aggregateID")]
    pub aggregate_id: SessionId,
    /// Sequence number in the history.
    pub seq: u64,
    /// Version of the event's shape.
    pub version: u32,
}

/// Fields that all events share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    pub timestamp: Millis,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
}

/// Executor of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivered {
    /// True if the provider ran the tool, false if Baton did.
    pub executed: bool,
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident($wire:literal) { $($(#[$meta:meta])* $field:ident: $type:ty,)* })*) => {
        /// Type and data of an event.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", content = "data")]
        #[schemars(rename = "V2Body")]
        pub enum Body {
            $($(#[$doc])* #[serde(rename = $wire)] $name {
                /// Time and session.
                #[serde(flatten)]
                moment: Moment,
                $($(#[$meta])* $field: $type,)*
            },)*
        }
    };
}

bodies! {
    /// A prompt was accepted.
    PromptAdmitted("session.next.prompt.admitted") {
        /// The user message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        prompt: Prompt,
        /// Delivery while a turn is running.
        delivery: Delivery,
    }
    /// A turn took up a prompt.
    Prompted("session.next.prompted") {
        /// The user message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        prompt: Prompt,
        /// Always the default. `session.next.prompt.admitted` carries the actual delivery.
        delivery: Delivery,
    }
    /// The server added a generated user message.
    Synthetic("session.next.synthetic") {
        #[serde(rename = "messageID")]
        message_id: MessageId,
        text: String,
    }
    /// A model call started.
    StepStarted("session.next.step.started") {
        /// The assistant message of the step.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        agent: String,
        model: Model,
    }
    /// A model call and its tools finished.
    StepEnded("session.next.step.ended") {
        /// The assistant message of the step.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// Reason why the model stopped, such as `stop` or `tool-calls`.
        finish: String,
        cost: Number,
        tokens: Spent,
        /// Snapshot of the working tree after the step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
    }
    /// A step ended with an error.
    StepFailed("session.next.step.failed") {
        /// The assistant message of the step.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        error: Wrong,
    }
    /// A text part was opened.
    TextStarted("session.next.text.started") {
        /// The assistant message of the text.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        #[serde(rename = "textID")]
        text_id: PartId,
    }
    /// A piece of streamed text. Live: not part of the history.
    TextDelta("session.next.text.delta") {
        /// The assistant message of the text.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        #[serde(rename = "textID")]
        text_id: PartId,
        /// Text to append.
        delta: String,
    }
    /// A text part was closed.
    TextEnded("session.next.text.ended") {
        /// The assistant message of the text.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        #[serde(rename = "textID")]
        text_id: PartId,
        /// The complete text.
        text: String,
    }
    /// A reasoning part was opened.
    ReasoningStarted("session.next.reasoning.started") {
        /// The assistant message of the reasoning.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The reasoning part.
        #[serde(rename = "reasoningID")]
        reasoning_id: PartId,
    }
    /// A piece of streamed reasoning. Live: not part of the history.
    ReasoningDelta("session.next.reasoning.delta") {
        /// The assistant message of the reasoning.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The reasoning part.
        #[serde(rename = "reasoningID")]
        reasoning_id: PartId,
        /// Text to append.
        delta: String,
    }
    /// A reasoning part was closed.
    ReasoningEnded("session.next.reasoning.ended") {
        /// The assistant message of the reasoning.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The reasoning part.
        #[serde(rename = "reasoningID")]
        reasoning_id: PartId,
        /// The complete text.
        text: String,
    }
    /// The model started to write a tool call.
    ToolInputStarted("session.next.tool.input.started") {
        /// The assistant message of the call.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's call id.
        #[serde(rename = "callID")]
        call_id: String,
        /// Name of the tool.
        name: String,
    }
    /// The model finished the tool call's input.
    ToolInputEnded("session.next.tool.input.ended") {
        /// The assistant message of the call.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's call id.
        #[serde(rename = "callID")]
        call_id: String,
        /// The input as JSON text.
        text: String,
    }
    /// The tool started to run.
    ToolCalled("session.next.tool.called") {
        /// The assistant message of the call.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's call id.
        #[serde(rename = "callID")]
        call_id: String,
        /// Name of the tool.
        tool: String,
        input: Extra,
        provider: Delivered,
    }
    /// The tool reported progress.
    ToolProgress("session.next.tool.progress") {
        /// The assistant message of the call.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's call id.
        #[serde(rename = "callID")]
        call_id: String,
        /// Details, in a form that depends on the tool.
        structured: Extra,
        /// Output of the tool so far.
        content: Vec<ToolContent>,
    }
    /// The tool succeeded.
    ToolSuccess("session.next.tool.success") {
        /// The assistant message of the call.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's call id.
        #[serde(rename = "callID")]
        call_id: String,
        /// Details, in a form that depends on the tool.
        structured: Extra,
        /// Output of the tool.
        content: Vec<ToolContent>,
        provider: Delivered,
    }
    /// The tool failed.
    ToolFailed("session.next.tool.failed") {
        /// The assistant message of the call.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's call id.
        #[serde(rename = "callID")]
        call_id: String,
        error: Wrong,
        provider: Delivered,
    }
    /// The server waits before it calls the model again.
    Retried("session.next.retried") {
        /// Number of the next retry, starting at 1.
        attempt: u32,
        error: Retry,
    }
    /// A compaction started: a summary will replace older messages.
    CompactionStarted("session.next.compaction.started") {
        /// The message that requests the summary.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        reason: Reason,
    }
    /// A compaction finished: a summary has replaced older messages.
    CompactionEnded("session.next.compaction.ended") {
        /// The message with the summary.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        reason: Reason,
        /// Text of the summary.
        text: String,
        /// Always empty: messages that the compaction kept stay in the list.
        recent: String,
    }
}

/// Reason for a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    pub message: String,
    pub is_retryable: bool,
}

impl Body {
    /// Returns the version of the event's shape. OpenCode has changed some shapes.
    pub fn version(&self) -> u32 {
        match self {
            Self::StepEnded { .. } | Self::StepFailed { .. } => 2,
            _ => 1,
        }
    }

    /// Returns the message that the translation of the event needs, for events that do not carry enough.
    pub fn needs(event: &v1::Event) -> Option<&MessageId> {
        match &event.body {
            EventBody::PromptQueued(it) => Some(&it.message_id),
            EventBody::PromptStarted(it) => Some(&it.message_id),
            EventBody::MessageUpdated(it) => match &it.info {
                v1::Message::Assistant(step) if is_summary(step) => Some(&step.id),
                _ => None,
            },
            _ => None,
        }
    }

    /// Translates an event into zero, one or two events of the newer interface. `message` is the one that
    /// [`Body::needs`] names; `reason` is the reason of its compaction, if it is a summary.
    pub fn of(
        event: &v1::Event,
        timestamp: Millis,
        message: Option<&MessageWithParts>,
        reason: Reason,
    ) -> Vec<Self> {
        let Some(session_id) = event.body.session_id().cloned() else { return Vec::new() };
        let moment = Moment { timestamp, session_id };
        match &event.body {
            EventBody::PromptQueued(it) => {
                let (message_id, delivery) = (it.message_id.clone(), it.delivery);
                let prompt = message.map(Prompt::of).unwrap_or_default();
                vec![Self::PromptAdmitted { moment, message_id, prompt, delivery }]
            }
            EventBody::PromptStarted(it) => {
                let prompt = message.map(Prompt::of).unwrap_or_default();
                let (message_id, delivery) = (it.message_id.clone(), Delivery::default());
                vec![Self::Prompted { moment, message_id, prompt, delivery }]
            }
            EventBody::MessageUpdated(it) => match &it.info {
                v1::Message::Assistant(step) => {
                    step_body(moment, step, message, reason).into_iter().collect()
                }
                v1::Message::User(_) => Vec::new(),
            },
            EventBody::PartUpdated(it) => part_bodies(moment, &it.part),
            EventBody::SessionStatus(it) => match &it.status {
                SessionStatus::Retry { attempt, message, .. } => {
                    let error = Retry { message: message.clone(), is_retryable: true };
                    vec![Self::Retried { moment, attempt: *attempt, error }]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

fn is_summary(step: &AssistantMessage) -> bool {
    step.summary == Some(true) && step.finish.is_some() && step.error.is_none()
}

fn step_body(
    moment: Moment,
    step: &AssistantMessage,
    message: Option<&MessageWithParts>,
    reason: Reason,
) -> Option<Body> {
    let assistant_message_id = step.id.clone();
    if let Some(error) = &step.error {
        let error = Wrong::new(error.message());
        return Some(Body::StepFailed { moment, assistant_message_id, error });
    }
    if is_summary(step) {
        let text = message.map(|message| message::words(&message.parts)).unwrap_or_default();
        let (message_id, recent) = (assistant_message_id, String::new());
        return Some(Body::CompactionEnded { moment, message_id, reason, text, recent });
    }
    let begins = step.finish.is_none() && step.time.completed.is_none();
    begins.then(|| Body::StepStarted {
        moment,
        assistant_message_id,
        agent: step.agent.clone(),
        model: message::model(step),
    })
}

fn part_bodies(moment: Moment, part: &Part) -> Vec<Body> {
    let message_id = part.message_id.clone();
    let body = match &part.body {
        PartBody::Text(text) if text.synthetic == Some(true) => {
            Body::Synthetic { moment, message_id, text: text.text.clone() }
        }
        PartBody::Text(text) => {
            let Some(time) = &text.time else { return Vec::new() };
            let (assistant_message_id, text_id) = (message_id, part.id.clone());
            if time.end.is_none() {
                Body::TextStarted { moment, assistant_message_id, text_id }
            } else {
                Body::TextEnded { moment, assistant_message_id, text_id, text: text.text.clone() }
            }
        }
        PartBody::Reasoning(thought) => {
            let (assistant_message_id, reasoning_id) = (message_id, part.id.clone());
            if thought.time.end.is_none() {
                Body::ReasoningStarted { moment, assistant_message_id, reasoning_id }
            } else {
                let text = thought.text.clone();
                Body::ReasoningEnded { moment, assistant_message_id, reasoning_id, text }
            }
        }
        PartBody::Tool(tool) => return tool_bodies(moment, message_id, tool),
        PartBody::StepFinish(finish) => Body::StepEnded {
            moment,
            assistant_message_id: message_id,
            finish: message::finish_name(finish.reason),
            cost: finish.cost,
            tokens: finish.tokens.clone().into(),
            snapshot: finish.snapshot.clone(),
        },
        PartBody::Compaction(wanted) => {
            let reason = if wanted.auto { Reason::Auto } else { Reason::Manual };
            Body::CompactionStarted { moment, message_id, reason }
        }
        _ => return Vec::new(),
    };
    vec![body]
}

fn tool_bodies(moment: Moment, assistant_message_id: MessageId, tool: &ToolPart) -> Vec<Body> {
    let (call_id, provider) = (tool.call_id.clone(), Delivered { executed: message::is_provided(tool) });
    let body = match &tool.state {
        ToolState::Pending(_) => {
            Body::ToolInputStarted { moment, assistant_message_id, call_id, name: tool.tool.clone() }
        }
        ToolState::Running(running) if running.metadata.is_none() => {
            let text = serde_json::to_string(&running.input).unwrap_or_default();
            let written = Body::ToolInputEnded {
                moment: moment.clone(),
                assistant_message_id: assistant_message_id.clone(),
                call_id: call_id.clone(),
                text,
            };
            let (tool, input) = (tool.tool.clone(), running.input.clone());
            let called = Body::ToolCalled { moment, assistant_message_id, call_id, tool, input, provider };
            return vec![written, called];
        }
        ToolState::Running(_) => {
            let (structured, content) = (message::facts(tool), Vec::new());
            Body::ToolProgress { moment, assistant_message_id, call_id, structured, content }
        }
        ToolState::Completed(_) => {
            let (structured, content) = (message::facts(tool), message::seen(tool));
            Body::ToolSuccess { moment, assistant_message_id, call_id, structured, content, provider }
        }
        ToolState::Error(failed) => {
            let error = Wrong::new(&failed.error);
            Body::ToolFailed { moment, assistant_message_id, call_id, error, provider }
        }
    };
    vec![body]
}
