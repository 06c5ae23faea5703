//! Events that a runner reports during a turn, and the value it returns at the end.
//!
//! Idle is deliberately absent. A runner emits [`AgentEvent`]s and *returns* a [`TurnEnd`]; only the session actor
//! turns that into a status.

use serde_json::Value;

use crate::{
    Extra, MessageError, MessageId, Millis, Part, PartBody, Todo,
    message::{Finish, ModelRef},
    number::Number,
    part::{FilePart, PatchPart},
    project::FileDiff,
    request::{PermissionReply, Question},
    session::Tokens,
};

/// An event that a runner reports. A key that is unique within the step identifies text and reasoning; the model's
/// call id identifies a tool call.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "each event is moved once, into the sink; boxing would burden every runner"
)]
pub enum AgentEvent {
    /// A model call begins: opens an assistant message.
    StepStarted {
        /// Snapshot of the working tree before the step, if one exists already.
        snapshot: Option<String>,
        /// Agent and model of the step, if they differ from those of the prompt.
        speaker: Option<Speaker>,
    },
    /// The snapshot of the working tree before the open step, if the step began without it.
    SnapshotTaken { snapshot: String },
    /// Opens a text part.
    TextStarted {
        /// Identifies the text within the step.
        key: String,
    },
    /// Appends to a text part.
    TextDelta { key: String, delta: String },
    /// Replaces the text so far. Clients see the new text when the part ends.
    TextReplaced {
        key: String,
        /// The complete new text.
        text: String,
    },
    /// Closes a text part.
    TextEnded { key: String },
    /// Opens a reasoning part.
    ReasoningStarted {
        /// Identifies the reasoning within the step.
        key: String,
    },
    /// Appends to a reasoning part.
    ReasoningDelta { key: String, delta: String },
    /// Closes a reasoning part.
    ReasoningEnded {
        key: String,
        /// Provider metadata, such as signatures that later requests must repeat.
        metadata: Option<Extra>,
    },
    /// The model started to write a tool call.
    ToolPending {
        /// The model's call id.
        call: String,
        tool: String,
    },
    /// The tool runs or reports progress. A call may start here without having been pending.
    ToolRunning {
        /// The model's call id.
        call: String,
        /// Tool name. It may differ from the pending one, for example `invalid`.
        tool: String,
        input: Extra,
        /// Short description for users.
        title: Option<String>,
        /// Progress, in a form that depends on the tool.
        metadata: Option<Extra>,
    },
    /// The tool succeeded.
    ToolCompleted {
        /// The model's call id.
        call: String,
        /// Result for the model.
        output: String,
        /// Short description for users.
        title: String,
        /// Details, in a form that depends on the tool.
        metadata: Extra,
        /// Files that the tool produced.
        attachments: Vec<FilePart>,
    },
    /// The tool failed or the user refused it.
    ToolFailed {
        /// The model's call id.
        call: String,
        /// Error text for the model.
        error: String,
        /// Details, in a form that depends on the tool.
        metadata: Option<Extra>,
    },
    /// Structured output of the open step, in the format that the prompt asked for.
    Structured(Value),
    /// The model call and its tools have finished. Closes the assistant message.
    StepFinished {
        reason: Finish,
        tokens: Tokens,
        /// Cost of the model call.
        cost: Number,
        /// Snapshot of the working tree after the step.
        snapshot: Option<String>,
        /// Files that the step changed.
        patch: Option<PatchPart>,
        /// Error of a step that finished all the same, such as a content filter.
        error: Option<MessageError>,
    },
    /// Files that the open step changed. Reported when the step will not finish.
    Patched(PatchPart),
    /// The attempt failed after it had produced output. Removes that output, so that no client shows it twice. The
    /// step stays open for the next attempt.
    AttemptWithdrawn,
    /// The runner waits before it calls the model again.
    Retrying {
        /// Number of the next retry, starting at 1.
        attempt: u32,
        /// Number of retries after which the runner gives up, if it is known.
        limit: Option<u32>,
        /// Reason for the retry, for users.
        message: String,
        /// Start of the next attempt.
        next: Millis,
    },
    /// The wait before a retry is over.
    Resumed,
    /// The turn continues with a generated user message, such as a request to summarise. Closes the open step and
    /// adds that message, which the next steps answer.
    Continued(Vec<PartBody>),
    /// Changes a part of an earlier message, never one of the open step.
    Revised(Box<Part>),
    /// A summary has replaced older messages.
    Compacted,
    /// Changes to the working tree.
    Diffed {
        /// Changes since the prompt that the turn answers.
        prompt: Vec<FileDiff>,
        /// Changes since the session began.
        session: Vec<FileDiff>,
    },
    /// Replaces the todo list.
    Todos(Vec<Todo>),
    /// A tool changed a file.
    FileEdited {
        /// Absolute path of the file.
        file: String,
    },
    /// Usage of a model call that is not a step, such as the one for a title. It counts for the session.
    Spent { tokens: Tokens, cost: Number },
    /// Suggests a session title. A title that the user has set meanwhile stays.
    Titled(String),
    /// Stores a value for later turns of the session, such as another program's id of the conversation. Replaces
    /// the note of the same name; [`Session::note`](crate::Session::note) returns it.
    Noted {
        /// Name of the note; one per runner.
        name: String,
        note: String,
    },
    /// An error that does not end the turn.
    Warning(MessageError),
}

impl AgentEvent {
    /// A step of the prompt's own agent and model, without a snapshot.
    pub fn step_started() -> Self {
        Self::StepStarted { snapshot: None, speaker: None }
    }
}

/// Agent and model of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    pub agent: String,
    pub model: ModelRef,
    /// True if the step writes a summary that replaces older messages.
    pub summary: bool,
    /// Message that the step answers, if it is not the newest prompt of the run. A summary answers the request for
    /// it even if another prompt arrived later.
    pub answers: Option<MessageId>,
}

/// A request before it has an id.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Asks for a permission.
    Permission {
        /// Name of the permission, such as `edit`.
        permission: String,
        /// Files, commands or other resources that need the permission.
        patterns: Vec<String>,
        /// Details that clients display.
        metadata: Extra,
        /// Patterns that a reply of `always` would allow.
        always: Vec<String>,
        /// Tool call that waits for the reply.
        call: Option<String>,
    },
    /// Asks one or more questions.
    Question {
        questions: Vec<Question>,
        /// Tool call that waits for the answers.
        call: Option<String>,
    },
}

/// Outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Allowed this time.
    Once,
    /// Allowed from now on. The engine has stored the request's `always` patterns.
    Always,
    /// The user's answers to the questions.
    Answers(crate::request::Answers),
    /// The user refused, possibly with a correction.
    Rejected {
        /// Correction: what to do instead.
        message: Option<String>,
    },
    /// The permission timed out and the configured default reply applies.
    Default(PermissionReply),
    /// The request timed out or the turn was aborted.
    Withdrawn,
}

/// Return value of a runner: the outcome of its turn. Never an event.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    /// The runner finished normally.
    Completed,
    /// The user refused a permission or question, or it timed out.
    Blocked,
    /// A budget is used up.
    Budget {
        /// Name of the exhausted budget, for users.
        message: String,
    },
    Error(MessageError),
    /// The runner saw the cancellation and stopped.
    Cancelled,
}
