//! The history of a session in this wire's words, made from the events of the older one.
//!
//! The translation of an event depends on that event alone (and for a few on the message it is about), so a client
//! can begin to read anywhere. An event becomes at most two; [`NextBody::of`] says which.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    message::{self, Reason, ToolContent, Wrong},
    prompt::Prompt,
    session::{Location, NextModel, Spent},
};
use crate::{
    Event, EventBody, EventId, Extra, Message, MessageId, MessageWithParts, Millis, Part, PartBody, PartId,
    SessionId, SessionStatus,
    message::AssistantMessage,
    number::Number,
    part::{ToolPart, ToolState},
    prompt::Delivery,
};

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextEvent {
    /// Its id.
    pub id: EventId,
    /// What happened.
    #[serde(flatten)]
    pub body: NextBody,
    /// Its place in the session's history; live events have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<Mark>,
    /// Where it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

/// An event of the older wire in this one's envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OlderEvent {
    /// Its id.
    pub id: EventId,
    /// What happened.
    pub r#type: String,
    /// To what; the older wire calls it `properties`.
    #[serde(alias = "properties")]
    pub data: Extra,
    /// Where it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

/// An event of either wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AnyEvent {
    /// In this wire's words.
    Next(Box<NextEvent>),
    /// In the older wire's.
    Older(OlderEvent),
}

/// A place in a session's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// The session.
    #[serde(rename = "aggregateID")]
    pub aggregate_id: SessionId,
    /// Where in it.
    pub seq: u64,
    /// The version of the event's form.
    pub version: u32,
}

/// What every event says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// When.
    pub timestamp: Millis,
    /// In which session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
}

/// Who ran a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivered {
    /// Whether the provider did.
    pub executed: bool,
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident($wire:literal) { $($(#[$meta:meta])* $field:ident: $type:ty,)* })*) => {
        /// What happened.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", content = "data")]
        pub enum NextBody {
            $($(#[$doc])* #[serde(rename = $wire)] $name {
                /// When and where.
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
        /// Its message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// What was said.
        prompt: Prompt,
        /// What happens to it while a turn is running.
        delivery: Delivery,
    }
    /// A prompt was taken up.
    Prompted("session.next.prompted") {
        /// Its message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// What was said.
        prompt: Prompt,
        /// The usual one: how it was really delivered is said when it is admitted.
        delivery: Delivery,
    }
    /// The server said something in a person's place.
    Synthetic("session.next.synthetic") {
        /// Its message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// Words.
        text: String,
    }
    /// The model is asked.
    StepStarted("session.next.step.started") {
        /// The message that answers.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// Who answers.
        agent: String,
        /// With which model.
        model: NextModel,
    }
    /// The model has answered and its tools are done.
    StepEnded("session.next.step.ended") {
        /// The message that answers.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// Why the model stopped.
        finish: String,
        /// What it cost.
        cost: Number,
        /// What it used.
        tokens: Spent,
        /// The tree after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
    }
    /// It went wrong.
    StepFailed("session.next.step.failed") {
        /// The message that answers.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// Why.
        error: Wrong,
    }
    /// Words begin.
    TextStarted("session.next.text.started") {
        /// The message they are in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// Which words.
        #[serde(rename = "textID")]
        text_id: PartId,
    }
    /// Words go on. Live: not in the history.
    TextDelta("session.next.text.delta") {
        /// The message they are in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// Which words.
        #[serde(rename = "textID")]
        text_id: PartId,
        /// What is added.
        delta: String,
    }
    /// Words end.
    TextEnded("session.next.text.ended") {
        /// The message they are in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// Which words.
        #[serde(rename = "textID")]
        text_id: PartId,
        /// All of them.
        text: String,
    }
    /// Thoughts begin.
    ReasoningStarted("session.next.reasoning.started") {
        /// The message they are in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// Which thoughts.
        #[serde(rename = "reasoningID")]
        reasoning_id: PartId,
    }
    /// Thoughts go on. Live: not in the history.
    ReasoningDelta("session.next.reasoning.delta") {
        /// The message they are in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// Which thoughts.
        #[serde(rename = "reasoningID")]
        reasoning_id: PartId,
        /// What is added.
        delta: String,
    }
    /// Thoughts end.
    ReasoningEnded("session.next.reasoning.ended") {
        /// The message they are in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// Which thoughts.
        #[serde(rename = "reasoningID")]
        reasoning_id: PartId,
        /// All of them.
        text: String,
    }
    /// The model began to write a tool call.
    ToolInputStarted("session.next.tool.input.started") {
        /// The message it is in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's id of the call.
        #[serde(rename = "callID")]
        call_id: String,
        /// The tool.
        name: String,
    }
    /// The model has written the call.
    ToolInputEnded("session.next.tool.input.ended") {
        /// The message it is in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's id of the call.
        #[serde(rename = "callID")]
        call_id: String,
        /// What it has written.
        text: String,
    }
    /// The tool runs.
    ToolCalled("session.next.tool.called") {
        /// The message it is in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's id of the call.
        #[serde(rename = "callID")]
        call_id: String,
        /// The tool.
        tool: String,
        /// What it was called with.
        input: Extra,
        /// Who runs it.
        provider: Delivered,
    }
    /// The tool has something to show.
    ToolProgress("session.next.tool.progress") {
        /// The message it is in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's id of the call.
        #[serde(rename = "callID")]
        call_id: String,
        /// Facts, by tool.
        structured: Extra,
        /// What there is to see.
        content: Vec<ToolContent>,
    }
    /// The tool worked.
    ToolSuccess("session.next.tool.success") {
        /// The message it is in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's id of the call.
        #[serde(rename = "callID")]
        call_id: String,
        /// Facts, by tool.
        structured: Extra,
        /// What there is to see.
        content: Vec<ToolContent>,
        /// Who ran it.
        provider: Delivered,
    }
    /// The tool did not work.
    ToolFailed("session.next.tool.failed") {
        /// The message it is in.
        #[serde(rename = "assistantMessageID")]
        assistant_message_id: MessageId,
        /// The model's id of the call.
        #[serde(rename = "callID")]
        call_id: String,
        /// Why.
        error: Wrong,
        /// Who ran it.
        provider: Delivered,
    }
    /// The model is going to be asked again.
    Retried("session.next.retried") {
        /// How often by then.
        attempt: u32,
        /// Why.
        error: Retry,
    }
    /// Older messages are being replaced by a summary.
    CompactionStarted("session.next.compaction.started") {
        /// The request for it.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// Who wanted it.
        reason: Reason,
    }
    /// Older messages were replaced by a summary.
    CompactionEnded("session.next.compaction.ended") {
        /// The summary.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// Who wanted it.
        reason: Reason,
        /// The summary's words.
        text: String,
        /// What was kept as it was; kept messages stay where they are, so it is empty.
        recent: String,
    }
}

/// Why a model is asked again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// For people.
    pub message: String,
    /// Always true here: otherwise it would not be tried again.
    pub is_retryable: bool,
}

impl NextBody {
    /// The version of its form: OpenCode has changed some.
    pub fn version(&self) -> u32 {
        match self {
            Self::StepEnded { .. } | Self::StepFailed { .. } => 2,
            _ => 1,
        }
    }

    /// The message that has to be at hand to translate an event, for those that do not say enough.
    pub fn needs(event: &Event) -> Option<&MessageId> {
        match &event.body {
            EventBody::PromptQueued(it) => Some(&it.message_id),
            EventBody::PromptStarted(it) => Some(&it.message_id),
            EventBody::MessageUpdated(it) => match &it.info {
                Message::Assistant(step) if is_summary(step) => Some(&step.id),
                _ => None,
            },
            _ => None,
        }
    }

    /// An event in this wire's words: none, one or two. `message` is what [`NextBody::needs`] asks for, and `reason`
    /// why it is there, if it is a summary.
    pub fn of(
        event: &Event,
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
                Message::Assistant(step) => step_body(moment, step, message, reason).into_iter().collect(),
                Message::User(_) => Vec::new(),
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
) -> Option<NextBody> {
    let assistant_message_id = step.id.clone();
    if let Some(error) = &step.error {
        let error = Wrong::new(error.message());
        return Some(NextBody::StepFailed { moment, assistant_message_id, error });
    }
    if is_summary(step) {
        let text = message.map(|message| message::words(&message.parts)).unwrap_or_default();
        let (message_id, recent) = (assistant_message_id, String::new());
        return Some(NextBody::CompactionEnded { moment, message_id, reason, text, recent });
    }
    let begins = step.finish.is_none() && step.time.completed.is_none();
    begins.then(|| NextBody::StepStarted {
        moment,
        assistant_message_id,
        agent: step.agent.clone(),
        model: message::model(step),
    })
}

fn part_bodies(moment: Moment, part: &Part) -> Vec<NextBody> {
    let message_id = part.message_id.clone();
    let body = match &part.body {
        PartBody::Text(text) if text.synthetic == Some(true) => {
            NextBody::Synthetic { moment, message_id, text: text.text.clone() }
        }
        PartBody::Text(text) => {
            let Some(time) = &text.time else { return Vec::new() };
            let (assistant_message_id, text_id) = (message_id, part.id.clone());
            if time.end.is_none() {
                NextBody::TextStarted { moment, assistant_message_id, text_id }
            } else {
                NextBody::TextEnded { moment, assistant_message_id, text_id, text: text.text.clone() }
            }
        }
        PartBody::Reasoning(thought) => {
            let (assistant_message_id, reasoning_id) = (message_id, part.id.clone());
            if thought.time.end.is_none() {
                NextBody::ReasoningStarted { moment, assistant_message_id, reasoning_id }
            } else {
                let text = thought.text.clone();
                NextBody::ReasoningEnded { moment, assistant_message_id, reasoning_id, text }
            }
        }
        PartBody::Tool(tool) => return tool_bodies(moment, message_id, tool),
        PartBody::StepFinish(finish) => NextBody::StepEnded {
            moment,
            assistant_message_id: message_id,
            finish: message::finish_name(finish.reason),
            cost: finish.cost,
            tokens: finish.tokens.clone().into(),
            snapshot: finish.snapshot.clone(),
        },
        PartBody::Compaction(wanted) => {
            let reason = if wanted.auto { Reason::Auto } else { Reason::Manual };
            NextBody::CompactionStarted { moment, message_id, reason }
        }
        _ => return Vec::new(),
    };
    vec![body]
}

fn tool_bodies(moment: Moment, assistant_message_id: MessageId, tool: &ToolPart) -> Vec<NextBody> {
    let (call_id, provider) = (tool.call_id.clone(), Delivered { executed: message::is_provided(tool) });
    let body = match &tool.state {
        ToolState::Pending(_) => {
            NextBody::ToolInputStarted { moment, assistant_message_id, call_id, name: tool.tool.clone() }
        }
        ToolState::Running(running) if running.metadata.is_none() => {
            let text = serde_json::to_string(&running.input).unwrap_or_default();
            let written = NextBody::ToolInputEnded {
                moment: moment.clone(),
                assistant_message_id: assistant_message_id.clone(),
                call_id: call_id.clone(),
                text,
            };
            let (tool, input) = (tool.tool.clone(), running.input.clone());
            let called =
                NextBody::ToolCalled { moment, assistant_message_id, call_id, tool, input, provider };
            return vec![written, called];
        }
        ToolState::Running(_) => {
            let (structured, content) = (message::facts(tool), Vec::new());
            NextBody::ToolProgress { moment, assistant_message_id, call_id, structured, content }
        }
        ToolState::Completed(_) => {
            let (structured, content) = (message::facts(tool), message::seen(tool));
            NextBody::ToolSuccess { moment, assistant_message_id, call_id, structured, content, provider }
        }
        ToolState::Error(failed) => {
            let error = Wrong::new(&failed.error);
            NextBody::ToolFailed { moment, assistant_message_id, call_id, error, provider }
        }
    };
    vec![body]
}
