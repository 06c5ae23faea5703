//! Translates one conversation, that of Claude Code itself or of a subagent, into steps, texts and tool calls.

use std::collections::BTreeMap;
use std::path::PathBuf;

use protocol::message::Finish;
use protocol::number::Number;
use protocol::session::{CacheTokens, Tokens};
use protocol::{AgentEvent, Extra};
use serde_json::{Value, json};

use super::super::todos::Todos;
use super::super::tools::{self, Call};
use super::super::wire::{Block, BlockDelta, CompleteMessage, StreamedPiece, Usage};

/// The state of the translation of one conversation.
#[derive(Debug)]
pub(super) struct Scope {
    directory: PathBuf,
    step: Option<Step>,
    /// Calls without a result, by id.
    calls: BTreeMap<String, Open>,
    /// The text of the last step.
    said: String,
    pub(super) todos: Todos,
}

#[derive(Debug)]
struct Step {
    message: String,
    /// The message is streamed, so complete blocks only repeat it.
    streamed: bool,
    /// The model has completed the message.
    stopped: bool,
    did: StepProgress,
    /// Blocks that are open, by index.
    blocks: BTreeMap<u64, Writing>,
    /// The next key for a text that is not streamed.
    whole: usize,
    finish: Finish,
    usage: Usage,
    /// The cost of a segment that has ended before the results of the step's calls arrived.
    owed: Option<Number>,
}

/// The progress of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StepProgress {
    Nothing,
    /// The step has text but no tool calls.
    Spoke,
    Called,
}

/// A block that is being written.
#[derive(Debug)]
enum Writing {
    Text,
    Reasoning { signature: String },
}

/// A call without a result.
#[derive(Debug)]
pub(super) struct Open {
    name: String,
    /// The input with Claude Code's own field names.
    input: Extra,
    pub(super) call: Call,
}

impl Scope {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, step: None, calls: BTreeMap::new(), said: String::new(), todos: Todos::default() }
    }

    /// Discards the state of a turn that did not end properly.
    pub(super) fn reset(&mut self) {
        self.step = None;
        self.calls.clear();
        self.said.clear();
    }

    pub(super) fn is_open(&self) -> bool {
        self.step.is_some()
    }

    /// Returns true while a call has no result.
    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Returns true if the open step has made calls.
    pub(super) fn has_called(&self) -> bool {
        self.step.as_ref().is_some_and(|step| step.did == StepProgress::Called)
    }

    /// Ends a segment: the step ends with its cost, but not before its calls have their results, which some versions send
    /// after the end of the segment.
    pub(super) fn end_segment(&mut self, cost: Number, out: &mut Vec<AgentEvent>) {
        if self.calls.is_empty() {
            return self.finish(cost, out);
        }
        if let Some(step) = &mut self.step {
            let mut owed = step.owed.unwrap_or_default();
            owed += cost;
            step.owed = Some(owed);
        }
    }

    /// Ends a step that has waited for results until the end of the turn.
    pub(super) fn end_turn(&mut self, out: &mut Vec<AgentEvent>) {
        if self.step.as_ref().is_some_and(|step| step.owed.is_some()) {
            self.finish(Number::default(), out);
        }
    }

    /// Adds a text that only the end of a segment contains.
    pub(super) fn add_missing(&mut self, text: &str, out: &mut Vec<AgentEvent>) {
        if text.trim().is_empty() || self.said.contains(text.trim()) {
            return;
        }
        // The results of calls are the input of another message.
        let is_answered = |step: &Step| step.did == StepProgress::Called && self.calls.is_empty();
        if self.step.as_ref().is_none_or(is_answered) {
            self.begin(Step::new("result".to_owned(), false, Usage::default()), out);
        }
        let Some(step) = &mut self.step else { return };
        step.did = step.did.max(StepProgress::Spoke);
        self.said.push_str(text);
        out.extend(whole_text(step.key(), text.to_owned()));
    }

    /// An open call by its id.
    pub(super) fn call(&self, id: &str) -> Option<&Call> {
        Some(&self.calls.get(id)?.call)
    }

    /// Translates a streamed piece of a message.
    pub(super) fn piece(&mut self, piece: StreamedPiece, out: &mut Vec<AgentEvent>) {
        match piece {
            StreamedPiece::MessageStart { message } => {
                if self.step.as_ref().is_some_and(|step| step.streamed && !step.stopped)
                    && self.calls.is_empty()
                {
                    // The model repeats the step after an incomplete answer.
                    out.push(AgentEvent::AttemptWithdrawn);
                    self.said.clear();
                    self.step = Some(Step::new(message.id, true, message.usage));
                } else {
                    self.begin(Step::new(message.id, true, message.usage), out);
                }
            }
            StreamedPiece::ContentBlockStart { index, content_block } => {
                self.block(index, content_block, out);
            }
            StreamedPiece::ContentBlockDelta { index, delta } => self.grow(index, delta, out),
            StreamedPiece::ContentBlockStop { index } => {
                let Some(writing) = self.step.as_mut().and_then(|step| step.blocks.remove(&index)) else {
                    return;
                };
                out.push(ended(index.to_string(), writing));
            }
            StreamedPiece::MessageDelta { delta, usage } => {
                let Some(step) = &mut self.step else { return };
                step.finish = delta.stop_reason.as_deref().map_or(step.finish, finish);
                step.usage = step.usage.and(usage);
            }
            StreamedPiece::MessageStop => {
                if let Some(step) = &mut self.step {
                    step.stopped = true;
                }
            }
            StreamedPiece::Unknown => {}
        }
    }

    fn begin(&mut self, step: Step, out: &mut Vec<AgentEvent>) {
        self.finish(Number::default(), out);
        self.step = Some(step);
        self.said.clear();
        out.push(AgentEvent::step_started());
    }

    /// Ends the step. Open calls fail, because their results will never arrive.
    pub(super) fn finish(&mut self, mut cost: Number, out: &mut Vec<AgentEvent>) {
        let Some(step) = self.step.take() else { return };
        cost += step.owed.unwrap_or_default();
        for (call, _) in std::mem::take(&mut self.calls) {
            let error = "Claude Code continued without a result of this call".to_owned();
            out.push(AgentEvent::ToolFailed { call, error, metadata: None });
        }
        out.push(AgentEvent::StepFinished {
            reason: step.reason(),
            tokens: step.usage.tokens(),
            cost,
            snapshot: None,
            patch: None,
            error: None,
        });
    }

    fn block(&mut self, index: u64, block: Block, out: &mut Vec<AgentEvent>) {
        let Some(step) = &mut self.step else { return };
        let key = index.to_string();
        match block {
            Block::Text { .. } => {
                step.did = step.did.max(StepProgress::Spoke);
                step.blocks.insert(index, Writing::Text);
                out.push(AgentEvent::TextStarted { key });
            }
            Block::Thinking { .. } => {
                step.blocks.insert(index, Writing::Reasoning { signature: String::new() });
                out.push(AgentEvent::ReasoningStarted { key });
            }
            Block::ToolUse { id, name, input } => {
                let tool = Call::new(&name, &input, &self.directory).tool;
                out.push(AgentEvent::ToolPending { call: id, tool });
            }
            Block::ToolResult { .. } | Block::Unknown => {}
        }
    }

    fn grow(&mut self, index: u64, growth: BlockDelta, out: &mut Vec<AgentEvent>) {
        let Some(writing) = self.step.as_mut().and_then(|step| step.blocks.get_mut(&index)) else { return };
        let key = index.to_string();
        match (growth, writing) {
            (BlockDelta::TextDelta { text: delta }, Writing::Text) => {
                self.said.push_str(&delta);
                out.push(AgentEvent::TextDelta { key, delta });
            }
            (BlockDelta::ThinkingDelta { thinking: delta }, Writing::Reasoning { .. }) => {
                out.push(AgentEvent::ReasoningDelta { key, delta });
            }
            (BlockDelta::SignatureDelta { signature: more }, Writing::Reasoning { signature }) => {
                signature.push_str(&more);
            }
            _ => {}
        }
    }

    /// Translates complete blocks of a message.
    pub(super) fn spoken(&mut self, message: CompleteMessage, out: &mut Vec<AgentEvent>) {
        let CompleteMessage { id, content, usage, stop_reason } = message;
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
                    step.did = StepProgress::Called;
                    let call = Call::new(&name, &input, &self.directory);
                    out.push(running(&id, &call));
                    self.calls.insert(id, Open { name, input, call });
                }
                Block::Text { text } if !step.streamed => {
                    step.did = step.did.max(StepProgress::Spoke);
                    self.said.push_str(&text);
                    out.extend(whole_text(step.key(), text));
                }
                Block::Thinking { thinking, signature } if !step.streamed => {
                    let key = step.key();
                    out.push(AgentEvent::ReasoningStarted { key: key.clone() });
                    out.push(AgentEvent::ReasoningDelta { key: key.clone(), delta: thinking });
                    let signature = signature.unwrap_or_default();
                    out.push(ended(key, Writing::Reasoning { signature }));
                }
                _ => {}
            }
        }
    }

    /// Translates the result of a call.
    pub(super) fn result(
        &mut self,
        id: String,
        content: &Value,
        is_error: bool,
        result: &Value,
        out: &mut Vec<AgentEvent>,
    ) {
        let Some(Open { name, input, call }) = self.calls.remove(&id) else { return };
        let (output, attachments) = tools::output(content);
        if is_error {
            out.push(AgentEvent::ToolFailed { call: id, error: output, metadata: None });
            return self.end_late_step(out);
        }
        let todos = self.todos.observe(&name, &input, &output, result);
        let metadata = call.facts(&output, result);
        let Call { title, edits, .. } = call;
        out.push(AgentEvent::ToolCompleted { call: id, output, title, metadata, attachments });
        out.extend(edits.map(|file| AgentEvent::FileEdited { file }));
        out.extend(todos.map(AgentEvent::Todos));
        self.end_late_step(out);
    }

    /// Ends a step whose segment has ended and whose last result has arrived.
    fn end_late_step(&mut self, out: &mut Vec<AgentEvent>) {
        if self.calls.is_empty() {
            self.end_turn(out);
        }
    }

    /// Adds the report of a subagent as text, unless it was streamed already: some versions do not send its last
    /// message.
    pub(super) fn report(&mut self, report: String, out: &mut Vec<AgentEvent>) {
        let was_said = self.step.as_ref().is_some_and(|step| step.did == StepProgress::Spoke);
        if !was_said && !report.is_empty() {
            let content = vec![Block::Text { text: report }];
            let (id, usage) = ("report".to_owned(), Usage::default());
            self.spoken(CompleteMessage { id, content, usage, stop_reason: None }, out);
        }
        self.finish(Number::default(), out);
    }
}

impl Step {
    fn new(message: String, streamed: bool, usage: Usage) -> Self {
        let (blocks, finish) = (BTreeMap::new(), Finish::Unknown);
        Self {
            message,
            streamed,
            stopped: false,
            did: StepProgress::Nothing,
            blocks,
            whole: 0,
            finish,
            usage,
            owed: None,
        }
    }

    /// The finish reason of the step. Only streamed messages contain one.
    fn reason(&self) -> Finish {
        match self.finish {
            Finish::Unknown if self.streamed => Finish::Unknown,
            Finish::Unknown if self.did == StepProgress::Called => Finish::ToolCalls,
            Finish::Unknown => Finish::Stop,
            known => known,
        }
    }

    fn key(&mut self) -> String {
        self.whole += 1;
        format!("whole-{}", self.whole)
    }
}

impl Usage {
    /// Merges two counts. The older value applies where the newer one is absent.
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

/// The event for a running call.
pub(super) fn running(id: &str, call: &Call) -> AgentEvent {
    let title = (!call.title.is_empty()).then(|| call.title.clone());
    AgentEvent::ToolRunning {
        call: id.to_owned(),
        tool: call.tool.clone(),
        input: call.input.clone(),
        title,
        metadata: None,
    }
}

/// The events for a text that arrives at once.
fn whole_text(key: String, text: String) -> [AgentEvent; 3] {
    [
        AgentEvent::TextStarted { key: key.clone() },
        AgentEvent::TextDelta { key: key.clone(), delta: text },
        AgentEvent::TextEnded { key },
    ]
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

fn finish(reason: &str) -> Finish {
    match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "max_tokens" => Finish::Length,
        "refusal" => Finish::ContentFilter,
        _ => Finish::Unknown,
    }
}
