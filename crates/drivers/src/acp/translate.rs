//! Translates the updates of an agent into agent events. Pure: the caller decodes [`Update`]s and emits the events.
//!
//! The protocol does not report steps. Text that follows finished tools begins the next step, because the agent must
//! have called its model again; tools that still run keep their step open.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    ContentChunk, Cost, MessageId, Meta, PlanEntry, SessionInfoUpdate, SessionUpdate, StateUpdate,
    StopReason, ToolCallStatus, ToolCallUpdate, Usage,
};

use protocol::message::Finish;
use protocol::number::Number;
use protocol::session::{CacheTokens, Tokens};
use protocol::{AgentEvent, Extra, MessageError, Millis, Rest, Todo, TurnEnd};
use serde_json::{Value, json};

use super::limits;
use super::tool::{self, Tool};
use super::wire::{Answered, Update, amendment};

/// The state of the translation of one turn.
#[derive(Debug, Default)]
pub(super) struct Translation {
    /// True while a step is open.
    open: bool,
    /// True if a tool of the open step has finished.
    acted: bool,
    speech: Option<OpenText>,
    /// The number of text and reasoning parts so far, from which their keys are made.
    spoken: usize,
    tools: BTreeMap<String, Tool>,
    /// The output of commands that Baton runs for the agent, by terminal id.
    terminals: BTreeMap<String, String>,
    /// The cost of the session, reported and emitted.
    spent: Spent,
    /// The number of the retry that the agent waits for.
    retry: Option<u32>,
    /// The error of the turn, from an agent whose answer to the prompt does not report it.
    failure: Option<String>,
    /// True if the user has refused a request and the agent has done nothing since.
    refused: bool,
    /// The tokens of the open step, from an agent that reports them with its chunks. None if it does not.
    counted: Option<Tokens>,
}

/// The text or reasoning part that is open.
#[derive(Debug)]
struct OpenText {
    key: String,
    thought: bool,
    id: Option<MessageId>,
}

/// The cost of a session in dollars. Agents report the total, and steps need the difference.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    known: f64,
    told: f64,
}

/// The agent's report that it works or is idle. Version 1 of the protocol has no such message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    Working,
    Idle,
}

impl Translation {
    /// Begins a turn in a session that has cost `cost` dollars so far.
    pub(super) fn new(cost: f64) -> Self {
        Self { spent: Spent { known: cost, told: cost }, ..Self::default() }
    }

    /// The cost of the session so far, in dollars.
    pub(super) fn cost(&self) -> f64 {
        self.spent.known
    }

    /// Opens the first step.
    pub(super) fn begin(&mut self) -> Vec<AgentEvent> {
        self.open = true;
        vec![AgentEvent::step_started()]
    }

    /// Records that the user has refused a request.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
    }

    /// Translates an update.
    pub(super) fn update(&mut self, update: Update, now: Millis) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        let Update::Session(update) = update else { return events };
        match *update {
            SessionUpdate::AgentMessageChunk(chunk) => self.chunk(chunk, false, &mut events),
            SessionUpdate::AgentThoughtChunk(chunk) => self.chunk(chunk, true, &mut events),
            SessionUpdate::ToolCall(call) => self.tool(amendment(call), true, &mut events),
            SessionUpdate::ToolCallUpdate(call) => self.tool(call, false, &mut events),
            SessionUpdate::Plan(plan) => {
                events.push(AgentEvent::Todos(plan.entries.into_iter().map(todo).collect()));
            }
            SessionUpdate::UsageUpdate(usage) => self.spend(usage.cost),
            SessionUpdate::SessionInfoUpdate(info) => self.info(&info, now, &mut events),
            _ => {}
        }
        events
    }

    /// Takes in the call of a permission request, which may be the first message about that call.
    pub(super) fn call(&mut self, call: ToolCallUpdate) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        self.tool(call, true, &mut events);
        events
    }

    /// Records the output so far of the agent's commands, by terminal id.
    pub(super) fn written(&mut self, outputs: impl IntoIterator<Item = (String, String)>) {
        self.terminals.extend(outputs);
    }

    /// Returns true while a tool runs.
    pub(super) fn is_acting(&self) -> bool {
        self.tools.values().any(|tool| !tool.is_over())
    }

    /// Returns true while the agent runs a command itself.
    pub(super) fn is_running_command(&self) -> bool {
        self.tools.values().any(Tool::is_running_command)
    }

    /// Returns a call by its id, for a permission request.
    pub(super) fn known(&self, id: &str) -> Option<&Tool> {
        self.tools.get(id)
    }

    fn chunk(&mut self, chunk: ContentChunk, thought: bool, events: &mut Vec<AgentEvent>) {
        self.count(chunk.meta.as_ref());
        let Some(text) = tool::words(&chunk.content).filter(|text| !text.is_empty()) else { return };
        // An agent that reports an error this way sends the reason as a text chunk without a message id.
        if let Some(failure) = &mut self.failure
            && chunk.message_id.is_none()
        {
            failure.push_str(&text);
            return;
        }
        self.resume(events);
        self.next_step(events);
        self.refused = false;
        let goes_on = self
            .speech
            .as_ref()
            .is_some_and(|speech| speech.thought == thought && speech.id == chunk.message_id);
        if !goes_on {
            self.hush(events);
            self.speak(thought, chunk.message_id, events);
        }
        let Some(OpenText { key, .. }) = &self.speech else { return };
        let (key, delta) = (key.clone(), text);
        events.push(if thought {
            AgentEvent::ReasoningDelta { key, delta }
        } else {
            AgentEvent::TextDelta { key, delta }
        });
    }

    /// Adds the tokens that a chunk reports for a call of the agent's model.
    fn count(&mut self, meta: Option<&Meta>) {
        if let Some(usage) = meta.and_then(|meta| meta.get("usage")).and_then(usage) {
            let sum = self.counted.get_or_insert_default();
            add(sum, &tokens(Some(&usage)));
        }
    }

    fn speak(&mut self, thought: bool, id: Option<MessageId>, events: &mut Vec<AgentEvent>) {
        self.spoken += 1;
        let key = self.spoken.to_string();
        events.push(if thought {
            AgentEvent::ReasoningStarted { key: key.clone() }
        } else {
            AgentEvent::TextStarted { key: key.clone() }
        });
        self.speech = Some(OpenText { key, thought, id });
    }

    /// Closes the open text or reasoning part.
    fn hush(&mut self, events: &mut Vec<AgentEvent>) {
        match self.speech.take() {
            Some(OpenText { key, thought: true, .. }) => {
                events.push(AgentEvent::ReasoningEnded { key, metadata: None });
            }
            Some(OpenText { key, thought: false, .. }) => events.push(AgentEvent::TextEnded { key }),
            None => {}
        }
    }

    /// Opens the next step if the tools of the open one have finished, or if no step is open.
    fn next_step(&mut self, events: &mut Vec<AgentEvent>) {
        if self.open && self.acted && !self.is_acting() {
            let tokens = self.counted.as_mut().map(std::mem::take).unwrap_or_default();
            events.push(finished(Finish::ToolCalls, tokens, 0.0, None));
            self.open = false;
            self.acted = false;
        }
        if !self.open {
            events.extend(self.begin());
        }
    }

    fn tool(&mut self, call: ToolCallUpdate, new: bool, events: &mut Vec<AgentEvent>) {
        let (id, fields) = (call.tool_call_id.to_string(), &call.fields);
        // An update without any description is about a call of an earlier turn, except for a failure that says why: some
        // agents report a call that they reject with nothing else.
        let is_described = fields.title.is_some() || fields.kind.is_some() || fields.raw_input.is_some();
        let is_named = call.meta.as_ref().is_some_and(|meta| meta.contains_key("toolName"));
        let is_failed = fields.status == Some(ToolCallStatus::Failed);
        let is_failure = is_failed && (fields.content.is_some() || is_named);
        let stray = !new && !is_described && !is_failure;
        if self.tools.get(&id).map_or(stray, Tool::is_over) || self.tools.len() >= limits::TOOLS {
            // The words before and after a failure belong to two messages, even if the failed call is unknown.
            if is_failed {
                self.hush(events);
            }
            return;
        }
        self.resume(events);
        self.hush(events);
        if !self.open {
            events.extend(self.begin());
        }
        let tool = self.tools.entry(id.clone()).or_insert_with(|| Tool::new(&id));
        tool.amend(call);
        let told = tool.tell(&self.terminals);
        self.acted |= tool.is_over();
        // A call that fails after a refusal is the refused one and does not count as work of the agent.
        let failed = told.iter().any(|event| matches!(event, AgentEvent::ToolFailed { .. }));
        self.refused &= failed || told.is_empty();
        events.extend(told);
    }

    fn spend(&mut self, cost: Option<Cost>) {
        let Some(cost) = cost.filter(|cost| cost.currency == "USD" && cost.amount.is_finite()) else {
            return;
        };
        // A restarted agent may count its cost from zero again.
        if cost.amount < self.spent.known {
            self.spent.told -= self.spent.known;
        }
        self.spent.known = cost.amount;
    }

    fn info(&mut self, info: &SessionInfoUpdate, now: Millis, events: &mut Vec<AgentEvent>) {
        if let Some(title) = info.title.value().map(|title| title.trim()).filter(|title| !title.is_empty()) {
            events.push(AgentEvent::Titled(title.to_owned()));
        }
        let Some(meta) = &info.meta else { return };
        match activity(meta) {
            Some("systemError") => {
                self.failure.get_or_insert_default();
            }
            Some("active") => self.resume(events),
            _ => {}
        }
        let Some(error) = meta.get("codex").and_then(|codex| codex.get("error")) else { return };
        let message =
            error.get("message").and_then(Value::as_str).unwrap_or("the agent calls its model again");
        if error.get("willRetry").and_then(Value::as_bool) == Some(true) {
            let attempt = self.retry.unwrap_or_default() + 1;
            self.retry = Some(attempt);
            events.push(AgentEvent::Retrying {
                attempt,
                limit: None,
                message: message.to_owned(),
                next: now,
            });
        } else {
            self.failure = Some(message.to_owned());
        }
    }

    /// Emits `Resumed` if the agent was waiting for a retry.
    fn resume(&mut self, events: &mut Vec<AgentEvent>) {
        if self.retry.take().is_some() {
            events.push(AgentEvent::Resumed);
        }
    }

    /// Closes the step and returns the end of the turn for the agent's answer to the prompt.
    pub(super) fn answered(&mut self, answered: &Answered) -> (Vec<AgentEvent>, TurnEnd) {
        let failed = |message: String| TurnEnd::Error(MessageError::unknown(message));
        let Answered { response, unknown } = answered;
        let (reason, end) = match (self.failure.take(), unknown, response.stop_reason) {
            (Some(failure), ..) if failure.trim().is_empty() => {
                (Finish::Error, failed("the agent failed without giving a reason".to_owned()))
            }
            (Some(failure), ..) => (Finish::Error, failed(plain(failure.trim()))),
            (None, Some(reason), _) => {
                let message = format!("the agent stopped for an unknown reason: {reason}");
                (Finish::Unknown, failed(message))
            }
            (.., StopReason::EndTurn | StopReason::Cancelled) if self.refused => {
                (Finish::Stop, TurnEnd::Blocked)
            }
            (.., StopReason::EndTurn) => (Finish::Stop, TurnEnd::Completed),
            (.., StopReason::MaxTokens) => (Finish::Length, TurnEnd::Completed),
            (.., StopReason::MaxTurnRequests) => {
                let message = "the agent reached its limit of model calls for one turn".to_owned();
                (Finish::Unknown, TurnEnd::Budget { message })
            }
            (.., StopReason::Refusal) => {
                let message = "the agent's model refused to answer".to_owned();
                let error = MessageError::ContentFilter { message, extra: Rest::NONE };
                (Finish::ContentFilter, TurnEnd::Error(error))
            }
            (.., StopReason::Cancelled) => (
                Finish::Unknown,
                failed("the agent reported a cancelled turn, but the turn was not cancelled".to_owned()),
            ),
            (.., other) => {
                (Finish::Unknown, failed(format!("the agent stopped for an unknown reason: {other:?}")))
            }
        };
        let error = if let TurnEnd::Error(error) = &end { Some(error.clone()) } else { None };
        // The answer counts the whole turn, so it would count the tokens of chunks a second time.
        let tokens = self.counted.take().unwrap_or_else(|| tokens(response.usage.as_ref()));
        (self.finish(reason, tokens, error), end)
    }

    /// Closes the open part and the open step.
    pub(super) fn finish(
        &mut self,
        reason: Finish,
        tokens: Tokens,
        error: Option<MessageError>,
    ) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        self.resume(&mut events);
        self.hush(&mut events);
        if !self.open {
            return events;
        }
        let cost = (self.spent.known - self.spent.told).max(0.0);
        self.spent.told = self.spent.known;
        self.open = false;
        events.push(finished(reason, tokens, cost, error));
        events
    }
}

/// Returns the activity that an update reports explicitly.
pub(super) fn says(update: &Update) -> Option<Activity> {
    let info = match update {
        Update::State(StateUpdate::Running(_)) => return Some(Activity::Working),
        Update::State(StateUpdate::Idle(_)) => return Some(Activity::Idle),
        Update::State(_) => return None,
        Update::Session(update) => match &**update {
            SessionUpdate::SessionInfoUpdate(info) => info,
            _ => return None,
        },
    };
    match activity(info.meta.as_ref()?)? {
        "active" => Some(Activity::Working),
        "idle" | "systemError" => Some(Activity::Idle),
        _ => None,
    }
}

/// Returns true for an update that shows the agent working, and false for one that only describes the agent.
pub(super) fn is_work(update: &Update) -> bool {
    if let Update::Session(said) = update {
        match &**said {
            SessionUpdate::AgentMessageChunk(chunk) | SessionUpdate::AgentThoughtChunk(chunk) => {
                return tool::words(&chunk.content).is_some_and(|text| !text.is_empty());
            }
            SessionUpdate::ToolCall(_) => return true,
            _ => {}
        }
    }
    says(update) == Some(Activity::Working)
}

fn activity(meta: &Meta) -> Option<&str> {
    meta.get("codex")?.pointer("/threadStatus/type")?.as_str()
}

/// Extracts the message from an error that contains the JSON of a provider.
fn plain(failure: &str) -> String {
    let sent: Option<Value> = serde_json::from_str(failure).ok();
    let sentence = sent.as_ref().and_then(|sent| sent.pointer("/error/message")?.as_str());
    sentence.unwrap_or(failure).to_owned()
}

fn todo(entry: PlanEntry) -> Todo {
    // Todos use the same words for status and priority.
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    Todo {
        content: entry.content,
        status: word(json!(entry.status)),
        priority: word(json!(entry.priority)),
        extra: Extra::new(),
    }
}

fn finished(reason: Finish, tokens: Tokens, cost: f64, error: Option<MessageError>) -> AgentEvent {
    AgentEvent::StepFinished { reason, tokens, cost: Number(cost), snapshot: None, patch: None, error }
}

/// Converts token counts. Some agents count cached tokens as input and thoughts as output and others do not, so the
/// total decides which.
fn tokens(usage: Option<&Usage>) -> Tokens {
    let Some(usage) = usage else { return Tokens::default() };
    let [read, write, reasoning] =
        [usage.cached_read_tokens, usage.cached_write_tokens, usage.thought_tokens]
            .map(Option::unwrap_or_default);
    let (mut input, mut output) = (usage.input_tokens, usage.output_tokens);
    let all = [input, output, read, write, reasoning].into_iter().fold(0, u64::saturating_add);
    if usage.total_tokens < all {
        input = input.saturating_sub(read).saturating_sub(write);
        output = output.saturating_sub(reasoning);
    }
    let cache = CacheTokens { read, write, extra: Rest::NONE };
    Tokens { total: Some(usage.total_tokens), input, output, reasoning, cache, extra: Extra::new() }
}

/// Reads the token counts in `_meta.usage` of a chunk. Qwen Code has used two sets of names for them.
fn usage(told: &Value) -> Option<Usage> {
    let count = |names: [&str; 2]| names.iter().find_map(|name| told.get(*name)?.as_u64());
    let input = count(["inputTokens", "promptTokens"]);
    let output = count(["outputTokens", "completionTokens"]);
    let thought = count(["thoughtTokens", "thoughtsTokens"]);
    let cached = count(["cachedReadTokens", "cachedTokens"]);
    let sum = input.unwrap_or_default().saturating_add(output.unwrap_or_default());
    let total = told.get("totalTokens").and_then(Value::as_u64).filter(|total| *total > 0).unwrap_or(sum);
    let usage = Usage::new(total, input.unwrap_or_default(), output.unwrap_or_default());
    (total > 0).then(|| usage.thought_tokens(thought).cached_read_tokens(cached))
}

/// Adds token counts of the same step.
fn add(sum: &mut Tokens, more: &Tokens) {
    let total = [sum.total, more.total].into_iter().flatten().fold(0, u64::saturating_add);
    sum.total = Some(total);
    sum.input = sum.input.saturating_add(more.input);
    sum.output = sum.output.saturating_add(more.output);
    sum.reasoning = sum.reasoning.saturating_add(more.reasoning);
    sum.cache.read = sum.cache.read.saturating_add(more.cache.read);
    sum.cache.write = sum.cache.write.saturating_add(more.cache.write);
}
