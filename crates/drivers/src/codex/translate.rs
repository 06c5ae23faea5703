//! Translates the notifications about one thread into agent events. Pure: no clock, no process.
//!
//! An item of Codex becomes a text, a reasoning or a tool part. Codex does not report the end of a model call, but it
//! reports the tokens of each call after the tools of that call, so a step ends there.
//!
//! The translation closes three gaps in the protocol. Codex does not end an item that is cut off by an interruption or
//! by a prompt that joins the turn. It reports token totals more than once, so only the increase counts. It does not
//! report the purpose of a thread, so the translation keeps it from the call that started the thread.

mod tool;

pub(super) use tool::{command_line, relative};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use engine::transcript::ABORTED_TOOL;
use protocol::message::Finish;
use protocol::number::Number;
use protocol::session::{CacheTokens, Tokens};
use protocol::{AgentEvent, Extra, Millis, Todo};
use serde_json::Value;

use super::wire::{
    Agents, Body, CodexNotification, Count, Item, Notice, PlanStep, Progress, Reasoning, ReportedError, Turn,
    TurnStatus,
};
use tool::Tool;

/// Largest output of a running command that is kept, in bytes.
const MAX_PROGRESS: usize = 32 * 1024;

/// The prompt to show for a subagent whose prompt Codex does not report.
const UNTOLD: &str = "Codex does not report the prompt of this agent.";

/// The token totals so far, by thread. The total of an absent thread is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TokenTotals(BTreeMap<String, Count>);

impl TokenTotals {
    /// The counts for a new thread.
    pub(super) fn fresh(thread: &str) -> Self {
        Self(BTreeMap::from([(thread.to_owned(), Count::default())]))
    }

    /// The counts of one thread; zero if it is unknown, because it is new then.
    pub(super) fn of(&self, thread: &str) -> Self {
        let count = self.0.get(thread).copied().unwrap_or_default();
        Self(BTreeMap::from([(thread.to_owned(), count)]))
    }

    /// Adds the counts of other threads.
    pub(super) fn absorb(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The counts for a resumed thread, whose total is unknown.
    pub(super) fn older() -> Self {
        Self::default()
    }
}

/// The task of a subagent, from the call that started its thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubagentTask {
    pub(super) call: String,
    pub(super) title: String,
    pub(super) prompt: String,
}

/// The state of the translation of one turn of a thread, or of several consecutive ones.
#[derive(Debug)]
pub(super) struct Translation {
    thread: String,
    directory: String,
    events: Vec<AgentEvent>,
    /// True while a step is open.
    open: bool,
    /// True if the open step has a tool call.
    worked: bool,
    items: BTreeMap<String, Open>,
    /// Items that have ended. Later notifications about them are ignored.
    ended: BTreeSet<String>,
    pub(super) counted: TokenTotals,
    /// The tokens of the open step.
    used: Option<Tokens>,
    retrying: Option<u32>,
    /// The tasks of subagents, by thread.
    tasks: BTreeMap<String, SubagentTask>,
    /// The tasks of subagents whose threads are not known yet.
    unplaced: VecDeque<SubagentTask>,
    /// The last error that Codex does not retry.
    pub(super) trouble: Option<ReportedError>,
}

/// An item that has begun.
#[derive(Debug)]
enum Open {
    Text {
        said: String,
    },
    Reasoning {
        said: String,
    },
    Tool {
        tool: Box<Tool>,
        progress: String,
        /// The length of `progress` in the last event, in bytes.
        shown: usize,
    },
}

impl Translation {
    pub(super) fn new(thread: &str, directory: &str, counted: TokenTotals) -> Self {
        Self {
            thread: thread.to_owned(),
            directory: directory.trim_end_matches('/').to_owned(),
            events: Vec::new(),
            open: false,
            worked: false,
            items: BTreeMap::new(),
            ended: BTreeSet::new(),
            counted,
            used: None,
            retrying: None,
            tasks: BTreeMap::new(),
            unplaced: VecDeque::new(),
            trouble: None,
        }
    }

    /// Returns true if a notification is about this thread and not about that of a subagent.
    pub(super) fn is_own(&self, notification: &CodexNotification) -> bool {
        notification.thread.as_deref().is_none_or(|thread| thread == self.thread)
    }

    /// The task of a subagent that this thread has started.
    pub(super) fn task(&mut self, thread: &str) -> Option<SubagentTask> {
        self.tasks.get(thread).cloned().or_else(|| self.unplaced.pop_front())
    }

    /// Records the tasks of the threads that a call starts.
    pub(super) fn note_task(&mut self, call: &str, agents: &Agents) {
        self.unplaced.retain(|task| task.call != call);
        let (title, prompt) = match (&agents.prompt, &agents.name) {
            (Some(prompt), _) if !prompt.is_empty() => (prompt.lines().next(), prompt.as_str()),
            (_, Some(name)) => (Some(name.as_str()), UNTOLD),
            _ => return,
        };
        let title = title.unwrap_or_default().to_owned();
        let task = SubagentTask { call: call.to_owned(), title, prompt: prompt.to_owned() };
        for thread in &agents.receiver_thread_ids {
            self.tasks.insert(thread.clone(), task.clone());
        }
        if agents.receiver_thread_ids.is_empty() && agents.status == Progress::Running {
            self.unplaced.push_back(task);
        }
    }

    /// The current event of an open call.
    pub(super) fn shown(&self, call: &str) -> Option<AgentEvent> {
        match self.items.get(call)? {
            Open::Tool { tool, progress, .. } => Some(tool.running(call, progress)),
            _ => None,
        }
    }

    /// Returns true while a command runs.
    pub(super) fn is_running_command(&self) -> bool {
        self.items.values().any(|it| matches!(it, Open::Tool { tool, .. } if tool.name == tool::COMMAND))
    }

    /// The tool of an open call, for the permission request about it.
    pub(super) fn tool(&self, call: &str) -> Option<&Tool> {
        match self.items.get(call)? {
            Open::Tool { tool, .. } => Some(tool),
            _ => None,
        }
    }

    /// Translates a notification.
    pub(super) fn translate(&mut self, notification: CodexNotification, now: Millis) -> Vec<AgentEvent> {
        if self.is_own(&notification) {
            self.own(notification.notice, now);
        }
        std::mem::take(&mut self.events)
    }

    /// Closes everything that is open at the end of a turn. The step of a failed turn stays open, so that the error
    /// closes it.
    pub(super) fn end(&mut self, turn: &Turn) -> Vec<AgentEvent> {
        self.resume();
        self.cut();
        if turn.error.is_none() && turn.status != TurnStatus::Failed {
            // The turn is over, so the step ends with `stop` even if its last item was a tool.
            self.worked = false;
            self.finish();
        }
        std::mem::take(&mut self.events)
    }

    fn own(&mut self, notice: Notice, now: Millis) {
        match notice {
            Notice::ItemStarted(item) => self.started(&item),
            Notice::ItemCompleted(item) => self.completed(item),
            Notice::TextDelta { item, delta } => self.text(item, delta),
            Notice::ReasoningDelta { item, delta } => self.reasoning(item, delta),
            Notice::ReasoningPart { item, index } if index > 0 => self.reasoning(item, "\n\n".into()),
            Notice::OutputDelta { item, delta } => self.progress(&item, &delta),
            Notice::PatchUpdated { item, changes } => {
                if let Some(Open::Tool { tool, .. }) = self.items.get_mut(&item) {
                    **tool = Tool::change(&changes, &self.directory);
                    self.show(&item);
                }
            }
            Notice::PlanUpdated(plan) => self.say(AgentEvent::Todos(plan.into_iter().map(todo).collect())),
            Notice::Usage(usage) => {
                if let Some(tokens) = self.count(usage.total, usage.last) {
                    self.spend(tokens);
                }
            }
            Notice::Error { error, will_retry: true } => self.retry(&error, now),
            Notice::Error { error, will_retry: false } => self.trouble = Some(error),
            Notice::Named(Some(name)) if !name.trim().is_empty() => self.say(AgentEvent::Titled(name)),
            // The diff of the whole turn is ignored, because Baton's own snapshots are more exact.
            _ => {}
        }
    }

    fn started(&mut self, item: &Item) {
        if self.ended.contains(&item.id) || self.items.contains_key(&item.id) {
            return;
        }
        match &item.body {
            // A prompt has joined while the model was answering, so the model begins a new message.
            Body::User if self.open => {
                self.cut();
                self.finish();
            }
            Body::Agents(agents) => {
                self.note_task(&item.id, agents);
                self.begin_tool(item);
            }
            // A text part opens with its first delta, so that no part stays empty.
            _ => self.begin_tool(item),
        }
    }

    fn begin_tool(&mut self, item: &Item) {
        let Some(tool) = Tool::of(&item.body, &self.directory) else { return };
        self.step();
        self.worked = true;
        self.items
            .insert(item.id.clone(), Open::Tool { tool: tool.into(), progress: String::new(), shown: 0 });
        self.show(&item.id);
    }

    fn completed(&mut self, item: Item) {
        if self.ended.contains(&item.id) {
            return;
        }
        match item.body {
            Body::Text(text) => self.complete_text(item.id, &text.text),
            Body::Reasoning(reasoning) => self.complete_reasoning(item.id, &reasoning),
            Body::Compaction => self.say(AgentEvent::Compacted),
            Body::User | Body::Other(_) => {}
            body => self.complete_tool(item.id, body),
        }
    }

    fn complete_text(&mut self, id: String, whole: &str) {
        let said = match self.items.get(&id) {
            Some(Open::Text { said }) => said.as_str(),
            _ => "",
        };
        let rest = whole.strip_prefix(said).unwrap_or_default().to_owned();
        self.text(id.clone(), rest);
        self.close(&id);
        self.ended.insert(id);
    }

    fn complete_reasoning(&mut self, id: String, whole: &Reasoning) {
        if !self.items.contains_key(&id) {
            let parts = if whole.summary.is_empty() { &whole.content } else { &whole.summary };
            self.reasoning(id.clone(), parts.join("\n\n"));
        }
        self.close(&id);
        self.ended.insert(id);
    }

    fn complete_tool(&mut self, id: String, body: Body) {
        let begun = matches!(self.items.get(&id), Some(Open::Tool { .. }));
        let item = Item { id: id.clone(), body };
        if !begun {
            self.begin_tool(&item);
        }
        let Some(Open::Tool { progress, .. }) = self.items.remove(&id) else { return };
        self.ended.insert(id.clone());
        let Some(tool) = Tool::of(&item.body, &self.directory) else { return };
        for file in tool.changed() {
            self.say(AgentEvent::FileEdited { file });
        }
        self.say(tool.ended(id, progress));
        self.settle();
    }

    fn text(&mut self, id: String, delta: String) {
        if delta.is_empty() || self.ended.contains(&id) {
            return;
        }
        self.step();
        match self.items.get_mut(&id) {
            Some(Open::Text { said }) => said.push_str(&delta),
            Some(_) => return,
            None => {
                self.say(AgentEvent::TextStarted { key: id.clone() });
                self.items.insert(id.clone(), Open::Text { said: delta.clone() });
            }
        }
        self.say(AgentEvent::TextDelta { key: id, delta });
    }

    fn reasoning(&mut self, id: String, delta: String) {
        if delta.is_empty() || self.ended.contains(&id) {
            return;
        }
        self.step();
        match self.items.get_mut(&id) {
            Some(Open::Reasoning { said }) => said.push_str(&delta),
            Some(_) => return,
            None => {
                self.say(AgentEvent::ReasoningStarted { key: id.clone() });
                self.items.insert(id.clone(), Open::Reasoning { said: delta.clone() });
            }
        }
        self.say(AgentEvent::ReasoningDelta { key: id, delta });
    }

    /// Appends to the output of a running tool. An event is emitted each time the output has doubled, because every
    /// event is stored.
    fn progress(&mut self, id: &str, delta: &str) {
        let Some(Open::Tool { progress, shown, .. }) = self.items.get_mut(id) else { return };
        progress.push_str(delta);
        tool::keep_end(progress, MAX_PROGRESS);
        if progress.len() >= shown.saturating_mul(2).max(1) {
            *shown = progress.len();
            self.show(id);
        }
    }

    fn show(&mut self, id: &str) {
        if let Some(event) = self.shown(id) {
            self.say(event);
        }
    }

    fn retry(&mut self, error: &ReportedError, now: Millis) {
        // The model repeats the text of the failed attempt. A step with tool calls is kept.
        if self.open && !self.worked && !self.items.is_empty() {
            self.ended.extend(std::mem::take(&mut self.items).into_keys());
            self.say(AgentEvent::AttemptWithdrawn);
        }
        let attempt = attempt(&error.message).or(self.retrying.map(|last| last + 1)).unwrap_or(1);
        self.retrying = Some(attempt);
        let message = error.additional_details.clone().unwrap_or_else(|| error.message.clone());
        // Codex does not report the delay.
        self.events.push(AgentEvent::Retrying { attempt, limit: None, message, next: now });
    }

    /// Opens a step if none is open.
    fn step(&mut self) {
        self.resume();
        if !self.open {
            (self.open, self.worked, self.used) = (true, false, None);
            self.events.push(AgentEvent::step_started());
        }
    }

    fn resume(&mut self) {
        if self.retrying.take().is_some() {
            self.events.push(AgentEvent::Resumed);
        }
    }

    fn say(&mut self, event: AgentEvent) {
        self.resume();
        self.events.push(event);
    }

    /// The increase of the thread's token total.
    fn count(&mut self, total: Count, last: Count) -> Option<Tokens> {
        let before = self.counted.0.insert(self.thread.clone(), total);
        let grown = before.map_or(last, |before| grown(total, before));
        (grown != Count::default()).then(|| tokens(grown))
    }

    fn spend(&mut self, tokens: Tokens) {
        if self.open {
            self.used.get_or_insert_default().add(&tokens);
            self.settle();
        } else {
            self.say(AgentEvent::Spent { tokens, cost: Number(0.0) });
        }
    }

    /// Ends the step if its model call was counted and nothing of it is open.
    fn settle(&mut self) {
        if self.open && self.used.is_some() && self.items.is_empty() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let reason = if self.worked { Finish::ToolCalls } else { Finish::Stop };
        let tokens = self.used.take().unwrap_or_default();
        self.say(AgentEvent::StepFinished {
            reason,
            tokens,
            cost: Number(0.0),
            snapshot: None,
            patch: None,
            error: None,
        });
    }

    fn close(&mut self, id: &str) {
        match self.items.remove(id) {
            Some(Open::Text { .. }) => self.say(AgentEvent::TextEnded { key: id.to_owned() }),
            Some(Open::Reasoning { .. }) => {
                self.say(AgentEvent::ReasoningEnded { key: id.to_owned(), metadata: None });
            }
            Some(Open::Tool { .. }) => {
                let metadata = Some(Extra::from_iter([("interrupted".to_owned(), Value::Bool(true))]));
                let error = ABORTED_TOOL.to_owned();
                self.say(AgentEvent::ToolFailed { call: id.to_owned(), error, metadata });
            }
            None => {}
        }
        self.settle();
    }

    /// Closes the open items that will not be continued.
    fn cut(&mut self) {
        let open: Vec<String> = self.items.keys().cloned().collect();
        for id in open {
            self.close(&id);
            self.ended.insert(id);
        }
    }
}

fn todo(step: PlanStep) -> Todo {
    let status = match step.status.as_str() {
        "inProgress" => "in_progress",
        "completed" => "completed",
        _ => "pending",
    };
    Todo { content: step.step, status: status.into(), priority: "medium".into(), extra: Extra::new() }
}

/// Parses the number of the attempt from a message such as `Reconnecting... 1/2`.
fn attempt(message: &str) -> Option<u32> {
    let (before, _) = message.rsplit_once('/')?;
    let digits = before.rsplit(|it: char| !it.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn grown(total: Count, before: Count) -> Count {
    Count {
        total: total.total.saturating_sub(before.total),
        input: total.input.saturating_sub(before.input),
        read: total.read.saturating_sub(before.read),
        written: total.written.saturating_sub(before.written),
        output: total.output.saturating_sub(before.output),
        reasoning: total.reasoning.saturating_sub(before.reasoning),
    }
}

fn tokens(count: Count) -> Tokens {
    Tokens {
        total: Some(count.total),
        input: count.input.saturating_sub(count.read).saturating_sub(count.written),
        output: count.output.saturating_sub(count.reasoning),
        reasoning: count.reasoning,
        cache: CacheTokens { read: count.read, write: count.written, ..CacheTokens::default() },
        extra: Extra::new(),
    }
}
