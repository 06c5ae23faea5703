//! From what Claude Code writes to what a runner says. Pure: lines and the time go in, signals come out.
//!
//! One call of its model is one step, which begins with `message_start` and ends with the next one or with the
//! segment: only then are its tools done, and what the segment cost is known. Lines of a subagent (they name the call
//! that they belong to) show up as progress of that call and never open, end or reopen anything of the session's own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use protocol::message::Finish;
use protocol::number::Number;
use protocol::session::{CacheTokens, Tokens};
use protocol::{AgentEvent, Extra, Millis};
use serde_json::{Value, json};

use super::todos::Todos;
use super::tools::{self, Call};
use super::wire::{Block, Growth, Line, Permit, Piece, Segment, Spoken, State, System, Usage, Wish};

/// Calls of a subagent that its progress shows.
const MAX_INNER: usize = 50;

/// What a line means.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "made and taken apart on the spot")]
pub(super) enum Signal {
    /// Something to report.
    Say(AgentEvent),
    /// Its own name for the session.
    Named(String),
    /// What it says it does.
    State(State),
    /// A segment of the turn is over.
    Segment(Segment),
    /// It wants to be allowed something.
    Permit {
        /// Its name for the request.
        id: String,
        /// What.
        permit: Permit,
    },
    /// It does not want to be allowed that any more.
    Dropped {
        /// Its name for the request.
        id: String,
    },
    /// It wants something that nobody here can do.
    Unable {
        /// Its name for the request.
        id: String,
    },
    /// It has answered a request of ours.
    Answered {
        /// Our name for it.
        id: String,
        /// Why not.
        error: Option<String>,
    },
    /// Work in the background is over, for people.
    Notified(String),
    /// It works on the session itself.
    Working,
    /// Nobody understands it.
    Strange(String),
}

/// What is known about the conversation so far.
#[derive(Debug)]
pub(super) struct Translator {
    directory: PathBuf,
    step: Option<Step>,
    /// Calls without a result, by id.
    calls: BTreeMap<String, Open>,
    todos: Todos,
    /// Work that goes on beside the turn, by its id.
    tasks: BTreeSet<String>,
    /// What the process had cost when the last segment ended.
    spent: f64,
    retrying: bool,
}

#[derive(Debug)]
struct Step {
    message: String,
    /// Its words arrive in pieces, so whole blocks only repeat them.
    streamed: bool,
    /// The model has said all of it.
    stopped: bool,
    /// Blocks that are open, by index.
    blocks: BTreeMap<u64, Writing>,
    /// The next key of words that did not come in pieces.
    whole: usize,
    finish: Finish,
    usage: Usage,
}

/// A block that is being written.
#[derive(Debug)]
enum Writing {
    Text,
    Reasoning { signature: String },
}

/// A call without a result.
#[derive(Debug)]
struct Open {
    name: String,
    /// As Claude Code wrote it.
    input: Extra,
    call: Call,
    /// What a subagent has called.
    inner: Vec<Value>,
}

impl Translator {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            step: None,
            calls: BTreeMap::new(),
            todos: Todos::default(),
            tasks: BTreeSet::new(),
            spent: 0.0,
            retrying: false,
        }
    }

    /// Whether work goes on beside the turn.
    pub(super) fn has_background(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Forgets a turn that was not ended properly, so that the next one begins afresh.
    pub(super) fn reset(&mut self) {
        self.step = None;
        self.calls.clear();
        self.retrying = false;
    }

    /// What a line means.
    pub(super) fn hear(&mut self, line: Value, now: Millis) -> Vec<Signal> {
        let mut out = Vec::new();
        match serde_json::from_value::<Line>(line) {
            Ok(line) => self.line(line, now, &mut out),
            Err(error) => out.push(Signal::Strange(error.to_string())),
        }
        out
    }

    fn line(&mut self, line: Line, now: Millis, out: &mut Vec<Signal>) {
        match line {
            Line::System(system) => self.system(system, now, out),
            Line::StreamEvent { event, parent_tool_use_id: None } => {
                self.resume(out);
                self.piece(event, out);
            }
            Line::Assistant { message, parent_tool_use_id: None, error } => {
                self.resume(out);
                // A failure in the shape of a message is told again, as a failure, by the segment.
                if error.is_none() {
                    self.spoken(message, out);
                }
            }
            Line::Assistant { message, parent_tool_use_id: Some(parent), .. } => {
                self.progress(&parent, &message, out);
            }
            Line::User { message, parent_tool_use_id: None, tool_use_result } => {
                self.results(message.content, &tool_use_result, out);
            }
            Line::Result(segment) => {
                self.resume(out);
                self.segment(&segment, out);
                out.push(Signal::Segment(segment));
            }
            Line::ControlRequest { request_id: id, request: Wish::CanUseTool(permit) } => {
                out.push(Signal::Permit { id, permit });
            }
            Line::ControlRequest { request_id: id, request: Wish::Unknown } => {
                out.push(Signal::Unable { id });
            }
            Line::ControlCancelRequest { request_id: id } => out.push(Signal::Dropped { id }),
            Line::ControlResponse { response } => {
                let failed = response.subtype == "error";
                let error = failed.then(|| response.error.unwrap_or_else(|| "it did not say why".into()));
                out.push(Signal::Answered { id: response.request_id, error });
            }
            Line::StreamEvent { .. } | Line::User { .. } | Line::Unknown => {}
        }
    }

    fn system(&mut self, system: System, now: Millis, out: &mut Vec<Signal>) {
        match system {
            System::Init { session_id } => out.extend([Signal::Named(session_id), Signal::Working]),
            System::SessionStateChanged { state } => out.push(Signal::State(state)),
            System::ApiRetry { attempt, retry_delay_ms, error_status, error } => {
                self.retrying = true;
                let status = error_status.map_or_else(String::new, |status| format!(" ({status})"));
                let message =
                    format!("{}{status}", error.as_deref().unwrap_or("the model could not be asked"));
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a delay that does not fit is as good as endless"
                )]
                let next = now.saturating_add(retry_delay_ms.max(0.0) as Millis);
                out.push(Signal::Say(AgentEvent::Retrying { attempt, message, next }));
            }
            System::TaskStarted { task_id } => {
                self.tasks.insert(task_id);
            }
            System::TaskUpdated { task_id, patch } => {
                if patch.status.is_some_and(|status| !matches!(status.as_str(), "running" | "pending")) {
                    self.tasks.remove(&task_id);
                }
            }
            System::TaskNotification { task_id, summary } => {
                self.tasks.remove(&task_id);
                out.push(Signal::Notified(summary));
            }
            System::CompactBoundary => out.push(Signal::Say(AgentEvent::Compacted)),
            System::Unknown => {}
        }
    }

    /// The model speaks again, so nobody waits to ask it.
    fn resume(&mut self, out: &mut Vec<Signal>) {
        if std::mem::take(&mut self.retrying) {
            out.push(Signal::Say(AgentEvent::Resumed));
        }
        out.push(Signal::Working);
    }

    fn piece(&mut self, piece: Piece, out: &mut Vec<Signal>) {
        match piece {
            Piece::MessageStart { message } => {
                if self.step.as_ref().is_some_and(|step| step.streamed && !step.stopped)
                    && self.calls.is_empty()
                {
                    // The same step again, after an answer that broke off.
                    out.push(Signal::Say(AgentEvent::AttemptWithdrawn));
                    self.step = Some(Step::new(message.id, true, message.usage));
                } else {
                    self.begin(Step::new(message.id, true, message.usage), out);
                }
            }
            Piece::ContentBlockStart { index, content_block } => self.block(index, content_block, out),
            Piece::ContentBlockDelta { index, delta } => self.grow(index, delta, out),
            Piece::ContentBlockStop { index } => {
                let Some(writing) = self.step.as_mut().and_then(|step| step.blocks.remove(&index)) else {
                    return;
                };
                out.push(Signal::Say(ended(index.to_string(), writing)));
            }
            Piece::MessageDelta { delta, usage } => {
                let Some(step) = &mut self.step else { return };
                step.finish = delta.stop_reason.as_deref().map_or(step.finish, finish);
                step.usage = step.usage.and(usage);
            }
            Piece::MessageStop => {
                if let Some(step) = &mut self.step {
                    step.stopped = true;
                }
            }
            Piece::Unknown => {}
        }
    }

    fn begin(&mut self, step: Step, out: &mut Vec<Signal>) {
        self.finish(Number::default(), out);
        self.step = Some(step);
        out.push(Signal::Say(AgentEvent::step_started()));
    }

    /// Ends the step. A call that has no result by now will never have one.
    fn finish(&mut self, cost: Number, out: &mut Vec<Signal>) {
        let Some(step) = self.step.take() else { return };
        for (call, _) in std::mem::take(&mut self.calls) {
            let error = "Claude Code went on without a result of this call".to_owned();
            out.push(Signal::Say(AgentEvent::ToolFailed { call, error, metadata: None }));
        }
        out.push(Signal::Say(AgentEvent::StepFinished {
            reason: step.finish,
            tokens: step.usage.tokens(),
            cost,
            snapshot: None,
            patch: None,
            error: None,
        }));
    }

    fn block(&mut self, index: u64, block: Block, out: &mut Vec<Signal>) {
        let Some(step) = &mut self.step else { return };
        let key = index.to_string();
        match block {
            Block::Text { .. } => {
                step.blocks.insert(index, Writing::Text);
                out.push(Signal::Say(AgentEvent::TextStarted { key }));
            }
            Block::Thinking { .. } => {
                step.blocks.insert(index, Writing::Reasoning { signature: String::new() });
                out.push(Signal::Say(AgentEvent::ReasoningStarted { key }));
            }
            Block::ToolUse { id, name, input } => {
                let tool = Call::new(&name, &input, &self.directory).tool;
                out.push(Signal::Say(AgentEvent::ToolPending { call: id, tool }));
            }
            Block::ToolResult { .. } | Block::Unknown => {}
        }
    }

    fn grow(&mut self, index: u64, growth: Growth, out: &mut Vec<Signal>) {
        let Some(writing) = self.step.as_mut().and_then(|step| step.blocks.get_mut(&index)) else { return };
        let key = index.to_string();
        match (growth, writing) {
            (Growth::TextDelta { text: delta }, Writing::Text) => {
                out.push(Signal::Say(AgentEvent::TextDelta { key, delta }));
            }
            (Growth::ThinkingDelta { thinking: delta }, Writing::Reasoning { .. }) => {
                out.push(Signal::Say(AgentEvent::ReasoningDelta { key, delta }));
            }
            (Growth::SignatureDelta { signature: more }, Writing::Reasoning { signature }) => {
                signature.push_str(&more);
            }
            _ => {}
        }
    }

    /// Whole blocks of a message.
    fn spoken(&mut self, message: Spoken, out: &mut Vec<Signal>) {
        let Spoken { id, content, usage, stop_reason } = message;
        if self.step.as_ref().is_none_or(|step| step.message != id) {
            let mut step = Step::new(id, false, usage);
            step.stopped = true;
            self.begin(step, out);
        }
        let Some(step) = &mut self.step else { return };
        step.finish = stop_reason.as_deref().map_or(step.finish, finish);
        for block in content {
            match block {
                Block::ToolUse { id, name, input } => {
                    let call = Call::new(&name, &input, &self.directory);
                    out.push(Signal::Say(running(&id, &call, None)));
                    self.calls.insert(id, Open { name, input, call, inner: Vec::new() });
                }
                Block::Text { text } if !step.streamed => {
                    let key = step.key();
                    out.push(Signal::Say(AgentEvent::TextStarted { key: key.clone() }));
                    out.push(Signal::Say(AgentEvent::TextDelta { key: key.clone(), delta: text }));
                    out.push(Signal::Say(AgentEvent::TextEnded { key }));
                }
                Block::Thinking { thinking, signature } if !step.streamed => {
                    let key = step.key();
                    out.push(Signal::Say(AgentEvent::ReasoningStarted { key: key.clone() }));
                    out.push(Signal::Say(AgentEvent::ReasoningDelta { key: key.clone(), delta: thinking }));
                    let signature = signature.unwrap_or_default();
                    out.push(Signal::Say(ended(key, Writing::Reasoning { signature })));
                }
                _ => {}
            }
        }
    }

    /// What a subagent calls is progress of the call that it answers.
    fn progress(&mut self, parent: &str, message: &Spoken, out: &mut Vec<Signal>) {
        let Some(open) = self.calls.get_mut(parent) else { return };
        for block in &message.content {
            let Block::ToolUse { id, name, input } = block else { continue };
            let inner = Call::new(name, input, &self.directory);
            if open.inner.len() < MAX_INNER {
                open.inner.push(json!({
                    "id": id, "tool": inner.tool, "state": { "status": "running", "title": inner.title },
                }));
            }
            let summary = Extra::from_iter([("summary".to_owned(), Value::Array(open.inner.clone()))]);
            out.push(Signal::Say(running(parent, &open.call, Some(summary))));
        }
    }

    fn results(&mut self, blocks: Vec<Block>, result: &Value, out: &mut Vec<Signal>) {
        for block in blocks {
            let Block::ToolResult { tool_use_id: id, content, is_error } = block else { continue };
            let Some(Open { name, input, call, mut inner }) = self.calls.remove(&id) else { continue };
            let (output, attachments) = tools::output(&content);
            if is_error == Some(true) {
                out.push(Signal::Say(AgentEvent::ToolFailed { call: id, error: output, metadata: None }));
                continue;
            }
            let todos = self.todos.heard(&name, &input, &output, result);
            let mut metadata = call.facts(&output, result);
            if !inner.is_empty() {
                inner.iter_mut().for_each(complete);
                metadata.insert("summary".to_owned(), inner.into());
            }
            let Call { title, edits, .. } = call;
            out.push(Signal::Say(AgentEvent::ToolCompleted {
                call: id,
                output,
                title,
                metadata,
                attachments,
            }));
            out.extend(edits.map(|file| Signal::Say(AgentEvent::FileEdited { file })));
            out.extend(todos.map(|todos| Signal::Say(AgentEvent::Todos(todos))));
        }
    }

    /// Ends the step with what the segment cost. One that failed is left open for the turn to be closed with its error.
    fn segment(&mut self, segment: &Segment, out: &mut Vec<Signal>) {
        let mut cost = Number(segment.total_cost_usd);
        cost += Number(-self.spent);
        self.spent = segment.total_cost_usd;
        if self.step.is_some() && !segment.is_error {
            self.finish(cost, out);
        } else if cost.0 > 0.0 {
            out.push(Signal::Say(AgentEvent::Spent { tokens: Tokens::default(), cost }));
        }
    }
}

impl Step {
    fn new(message: String, streamed: bool, usage: Usage) -> Self {
        let (blocks, finish) = (BTreeMap::new(), Finish::Unknown);
        Self { message, streamed, stopped: false, blocks, whole: 0, finish, usage }
    }

    fn key(&mut self) -> String {
        self.whole += 1;
        format!("whole-{}", self.whole)
    }
}

impl Usage {
    /// The newer counts, and the older ones of what they do not tell.
    fn and(self, newer: Self) -> Self {
        Self {
            input_tokens: newer.input_tokens.or(self.input_tokens),
            output_tokens: newer.output_tokens.or(self.output_tokens),
            cache_read_input_tokens: newer.cache_read_input_tokens.or(self.cache_read_input_tokens),
            cache_creation_input_tokens: newer
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
        }
    }

    fn tokens(self) -> Tokens {
        let cache = CacheTokens {
            read: self.cache_read_input_tokens.unwrap_or_default(),
            write: self.cache_creation_input_tokens.unwrap_or_default(),
            ..CacheTokens::default()
        };
        let (input, output) = (self.input_tokens.unwrap_or_default(), self.output_tokens.unwrap_or_default());
        Tokens { input, output, cache, ..Tokens::default() }
    }
}

fn running(id: &str, call: &Call, metadata: Option<Extra>) -> AgentEvent {
    let title = (!call.title.is_empty()).then(|| call.title.clone());
    AgentEvent::ToolRunning {
        call: id.to_owned(),
        tool: call.tool.clone(),
        input: call.input.clone(),
        title,
        metadata,
    }
}

fn ended(key: String, writing: Writing) -> AgentEvent {
    match writing {
        Writing::Text => AgentEvent::TextEnded { key },
        Writing::Reasoning { signature } => {
            let metadata = (!signature.is_empty())
                .then(|| Extra::from_iter([("anthropic".to_owned(), json!({ "signature": signature }))]));
            AgentEvent::ReasoningEnded { key, metadata }
        }
    }
}

fn complete(inner: &mut Value) {
    if let Some(status) = inner.pointer_mut("/state/status") {
        *status = "completed".into();
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "max_tokens" => Finish::Length,
        "refusal" => Finish::ContentFilter,
        _ => Finish::Unknown,
    }
}
