//! What a runner may say while it works on a turn, and how it says that it is done.
//!
//! There is deliberately no word for idle here. A runner emits [`AgentEvent`]s and *returns* a
//! [`TurnEnd`]; the session actor alone turns that into a status.

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

/// Something a runner reports. Text and reasoning are named by a key that is unique within the step,
/// tools by the model's call id.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "moved once, into the sink; a box would be a chore for every runner"
)]
pub enum AgentEvent {
    /// A model call begins: opens an assistant message.
    StepStarted {
        /// Tree before the step.
        snapshot: Option<String>,
        /// Who speaks, if not the agent and model of the prompt that is being answered.
        speaker: Option<Speaker>,
    },
    /// Words begin.
    TextStarted {
        /// Names this text within the step.
        key: String,
    },
    /// Words go on.
    TextDelta {
        /// Which text.
        key: String,
        /// What is added.
        delta: String,
    },
    /// Other words stand in place of those that were said so far; told with their end.
    TextReplaced {
        /// Which text.
        key: String,
        /// All of it.
        text: String,
    },
    /// Words end.
    TextEnded {
        /// Which text.
        key: String,
    },
    /// Thinking begins.
    ReasoningStarted {
        /// Names this reasoning within the step.
        key: String,
    },
    /// Thinking goes on.
    ReasoningDelta {
        /// Which reasoning.
        key: String,
        /// What is added.
        delta: String,
    },
    /// Thinking ends.
    ReasoningEnded {
        /// Which reasoning.
        key: String,
        /// Signatures that the provider wants back.
        metadata: Option<Extra>,
    },
    /// The model began to write a tool call.
    ToolPending {
        /// The model's id of the call.
        call: String,
        /// The tool's name.
        tool: String,
    },
    /// The tool runs, or has progress to show. A call that was never pending may start here.
    ToolRunning {
        /// The model's id of the call.
        call: String,
        /// The tool's name (it may differ from the pending one, as for `invalid`).
        tool: String,
        /// What it was called with.
        input: Extra,
        /// For people.
        title: Option<String>,
        /// Progress, by tool.
        metadata: Option<Extra>,
    },
    /// The tool worked.
    ToolCompleted {
        /// The model's id of the call.
        call: String,
        /// What the model gets to see.
        output: String,
        /// For people.
        title: String,
        /// Facts, by tool.
        metadata: Extra,
        /// Files it produced.
        attachments: Vec<FilePart>,
    },
    /// The tool failed or was refused.
    ToolFailed {
        /// The model's id of the call.
        call: String,
        /// What the model gets to see.
        error: String,
        /// Facts, by tool.
        metadata: Option<Extra>,
    },
    /// The open step has the structured answer that the prompt asked for.
    Structured(Value),
    /// The model call is over and its tools are done: closes the assistant message.
    StepFinished {
        /// Why the model stopped.
        reason: Finish,
        /// What it used.
        tokens: Tokens,
        /// What it cost.
        cost: Number,
        /// Tree after the step.
        snapshot: Option<String>,
        /// Files the step changed.
        patch: Option<PatchPart>,
        /// An error that belongs to a step that did finish (a content filter).
        error: Option<MessageError>,
    },
    /// What the open step has changed, which will not be finished.
    Patched(PatchPart),
    /// The attempt failed after it had said something: what it said is taken back, so that no client
    /// shows it twice. The step stays open for the next attempt.
    AttemptWithdrawn,
    /// The runner waits before it asks again.
    Retrying {
        /// Which retry comes next, from 1.
        attempt: u32,
        /// Why, for people.
        message: String,
        /// When the next attempt starts.
        next: Millis,
    },
    /// The wait is over.
    Resumed,
    /// The turn goes on with something that no person wrote, such as a request to summarise: closes the open
    /// step, if there is one, and adds a user message that the next steps answer.
    Continued(Vec<PartBody>),
    /// A part of an earlier message is different from now on; not one of the open step.
    Revised(Box<Part>),
    /// Older messages were replaced by a summary.
    Compacted,
    /// What was changed in the tree.
    Diffed {
        /// By the prompt that is being answered.
        prompt: Vec<FileDiff>,
        /// By the whole session.
        session: Vec<FileDiff>,
    },
    /// The todo list was replaced.
    Todos(Vec<Todo>),
    /// A file was changed by a tool.
    FileEdited {
        /// Absolute path.
        file: String,
    },
    /// A call of a model that is no step, such as one for a title. What it used counts for the session.
    Spent {
        /// What it used.
        tokens: Tokens,
        /// What it cost.
        cost: Number,
    },
    /// The session has a better title now. One that a person gave it meanwhile stays.
    Titled(String),
    /// What a runner wants to remember about the session, such as another program's name for it. It replaces what was
    /// noted under the same name, and [`Session::note`](crate::Session::note) tells it to later turns.
    Noted {
        /// Whose note it is.
        name: String,
        /// The note.
        note: String,
    },
    /// Something went wrong that does not end the turn.
    Warning(MessageError),
}

impl AgentEvent {
    /// A step of the prompt's own agent and model, without a snapshot.
    pub fn step_started() -> Self {
        Self::StepStarted { snapshot: None, speaker: None }
    }
}

/// Who speaks in a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    /// The agent.
    pub agent: String,
    /// The model.
    pub model: ModelRef,
    /// Whether the step is a summary that replaces older messages.
    pub summary: bool,
    /// The message that the step answers, if that is not the newest prompt of the run: a summary answers the request
    /// for it even when another prompt joined after that request.
    pub answers: Option<MessageId>,
}

/// A request before it has an id.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// May I?
    Permission {
        /// Which permission.
        permission: String,
        /// What it is about.
        patterns: Vec<String>,
        /// For showing it well.
        metadata: Extra,
        /// What a reply of `always` would allow.
        always: Vec<String>,
        /// The tool call that waits.
        call: Option<String>,
    },
    /// Which one?
    Question {
        /// What is asked.
        questions: Vec<Question>,
        /// The tool call that waits.
        call: Option<String>,
    },
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Go ahead, this time.
    Once,
    /// Go ahead from now on; what `always` named is remembered.
    Always,
    /// The person's answers.
    Answers(crate::request::Answers),
    /// The person said no, perhaps with a correction.
    Rejected {
        /// What to do instead.
        message: Option<String>,
    },
    /// Nobody answered a permission in time, and this is the reply that counts then.
    Default(PermissionReply),
    /// Nobody answered in time, or the turn was stopped.
    Withdrawn,
}

/// How a runner's turn ended. The return value of the runner, never an event.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    /// It said all it had to say.
    Completed,
    /// A permission or question was refused.
    Blocked,
    /// A budget was used up.
    Budget {
        /// Which one, for people.
        message: String,
    },
    /// It failed.
    Error(MessageError),
    /// It noticed that it was cancelled and stopped.
    Cancelled,
}
