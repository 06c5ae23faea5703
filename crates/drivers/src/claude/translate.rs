//! Translates the lines of Claude Code into signals. Pure: lines and the time go in, signals come out.
//!
//! One call of its model is one step. A step begins with `message_start` and ends with the next `message_start` or with
//! the segment, because only then have its tools finished and is its cost known ([`scope`]). Lines of a subagent name
//! the call that they belong to. They form a separate conversation ([`children`]) and never open, end or reopen a step
//! of the session itself.

mod children;
mod scope;

use std::collections::BTreeSet;
use std::path::PathBuf;

use protocol::number::Number;
use protocol::session::Tokens;
use protocol::{AgentEvent, MessageError, Millis, Todo, TurnEnd};
use serde_json::Value;

use super::permit;
use super::wire::{Block, ControlBody, Line, Permit, Segment, State, System};
use crate::external::Signal;
use children::Children;
use scope::Scope;

pub(super) type Signals = Vec<Signal<Request>>;

/// The state of Claude Code that a line reports besides its signals.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Report {
    /// The agent itself works, and not only a subagent.
    Working,
    /// The agent or a subagent waits for an answer.
    Asked,
    State(State),
    /// The agent takes up the prompt with this id.
    Echoed(String),
    /// A segment of the turn has ended.
    Segment(Segment),
    /// A control request with this id, which Baton does not support.
    Unsupported(String),
    /// Claude Code has refused the control request with this id of Baton.
    Refused {
        id: String,
        error: String,
    },
}

/// A permission request of Claude Code.
#[derive(Debug)]
pub struct Request {
    pub(super) id: String,
    pub(super) permit: Permit,
}

/// The state of the translation of one conversation.
#[derive(Debug)]
pub(super) struct Translator {
    directory: PathBuf,
    /// The conversation of the agent itself.
    main: Scope,
    children: Children,
    /// The ids of running background tasks.
    tasks: BTreeSet<String>,
    /// The cost of the process in dollars at the end of the last segment.
    spent: f64,
    retrying: bool,
    /// The last segment ended with calls.
    has_called: bool,
}

impl Translator {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self {
            main: Scope::new(directory.clone()),
            directory,
            children: Children::new(),
            tasks: BTreeSet::new(),
            spent: 0.0,
            retrying: false,
            has_called: false,
        }
    }

    /// Returns true while a call of the agent itself has no result.
    pub(super) fn has_calls(&self) -> bool {
        self.main.has_calls()
    }

    /// Returns true if the last segment ended with calls, whose results are the input of another message.
    pub(super) fn has_called(&self) -> bool {
        self.has_called
    }

    /// Ends the step that waits for results when the turn ends.
    pub(super) fn end_turn(&mut self, out: &mut Signals) {
        self.within(None, out, Scope::end_turn);
    }

    /// Returns true while a background task runs.
    pub(super) fn has_background(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Discards the state of a turn that did not end properly.
    pub(super) fn reset(&mut self) {
        self.main.reset();
        self.children.clear();
        self.retrying = false;
    }

    /// Takes over the todo list of a resumed conversation.
    pub(super) fn remember(&mut self, todos: Vec<Todo>) {
        self.main.todos.remember(todos);
    }

    /// Translates a line.
    pub(super) fn translate(&mut self, line: Value, now: Millis, out: &mut Signals) -> Option<Report> {
        match serde_json::from_value::<Line>(line) {
            Ok(line) => {
                let report = self.line(line, now, out);
                self.leave(out);
                report
            }
            Err(error) => {
                out.push(Signal::Noise(error.to_string()));
                None
            }
        }
    }

    fn line(&mut self, line: Line, now: Millis, out: &mut Signals) -> Option<Report> {
        match line {
            Line::System(system) => self.system(system, now, out),
            Line::StreamEvent { event, parent_tool_use_id: whose } => {
                self.resumed(out);
                self.within(whose.as_deref(), out, |scope, events| scope.piece(event, events));
                working(whose.as_deref())
            }
            Line::Assistant { message, parent_tool_use_id: whose, error } => {
                self.resumed(out);
                // The segment reports this error again, so the message that repeats it is skipped.
                if error.is_none() {
                    self.within(whose.as_deref(), out, |scope, events| scope.spoken(message, events));
                }
                working(whose.as_deref())
            }
            Line::User { is_replay: true, uuid, .. } => uuid.map(Report::Echoed),
            Line::User { message, parent_tool_use_id: whose, tool_use_result, .. } => {
                self.results(whose.as_deref(), message.content, &tool_use_result, out);
                None
            }
            Line::Result(segment) => {
                self.resumed(out);
                self.segment(&segment, out);
                Some(Report::Segment(segment))
            }
            Line::ControlRequest { request_id: id, request: ControlBody::CanUseTool(permit) } => {
                let child = self.whose(permit.agent_id.as_deref(), permit.tool_use_id.as_deref());
                let ask = permit::ask(&permit, &self.directory);
                out.push(Signal::Asked { id: id.clone(), child, ask, request: Request { id, permit } });
                Some(Report::Asked)
            }
            Line::ControlRequest { request_id: id, request: ControlBody::Unknown } => {
                Some(Report::Unsupported(id))
            }
            Line::ControlCancelRequest { request_id: id } => {
                out.push(Signal::Withdrawn(id));
                None
            }
            Line::ControlResponse { response } => (response.subtype == "error").then(|| {
                let error = response.error.unwrap_or_else(|| "no reason given".into());
                Report::Refused { id: response.request_id, error }
            }),
            Line::Unknown => None,
        }
    }

    fn system(&mut self, system: System, now: Millis, out: &mut Signals) -> Option<Report> {
        match system {
            System::Init { session_id } => {
                out.push(Signal::Note(session_id));
                return Some(Report::Working);
            }
            System::SessionStateChanged { state } => return Some(Report::State(state)),
            System::ApiRetry { attempt, retry_delay_ms, error_status, error } => {
                self.retrying = true;
                let status = error_status.map_or_else(String::new, |status| format!(" ({status})"));
                let message =
                    format!("{}{status}", error.as_deref().unwrap_or("the call of the model failed"));
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a delay that does not fit is as good as endless"
                )]
                let next = now.saturating_add(retry_delay_ms.max(0.0) as Millis);
                out.push(Signal::Emit(None, AgentEvent::Retrying { attempt, limit: None, message, next }));
            }
            System::TaskStarted { task_id, tool_use_id } => {
                if let Some(call) = tool_use_id {
                    self.start_child(&call, Some(task_id.clone()), out);
                }
                self.tasks.insert(task_id);
            }
            System::TaskUpdated { task_id, patch } => {
                let ended = patch
                    .status
                    .filter(|status| !matches!(status.as_str(), "running" | "pending" | "paused"));
                if let Some(status) = ended {
                    self.tasks.remove(&task_id);
                    self.task_ended(&task_id, &status, patch.error, out);
                }
            }
            System::TaskNotification { task_id, status } => {
                self.tasks.remove(&task_id);
                self.task_ended(&task_id, &status, None, out);
                self.task_told(&task_id);
            }
            System::CompactBoundary => out.push(Signal::Emit(None, AgentEvent::Compacted)),
            System::Unknown => {}
        }
        None
    }

    /// Ends the retry, because the model answers again.
    fn resumed(&mut self, out: &mut Signals) {
        if std::mem::take(&mut self.retrying) {
            out.push(Signal::Emit(None, AgentEvent::Resumed));
        }
    }

    fn results(&mut self, whose: Option<&str>, blocks: Vec<Block>, result: &Value, out: &mut Signals) {
        for block in blocks {
            let Block::ToolResult { tool_use_id: id, content, is_error } = block else { continue };
            let is_error = is_error == Some(true);
            self.reported(&id, &content, is_error, result, out);
            self.within(whose, out, |scope, events| scope.result(id, &content, is_error, result, events));
        }
    }

    /// Ends the step with the cost of the segment, and adds the text of the segment if it was not said. A failed step stays open, so that the turn closes it with its error.
    fn segment(&mut self, segment: &Segment, out: &mut Signals) {
        let mut cost = Number(segment.total_cost_usd);
        cost += Number(-self.spent);
        self.spent = segment.total_cost_usd;
        let text = segment.result.as_deref().filter(|_| !segment.is_error).unwrap_or_default();
        self.within(None, out, |main, events| main.add_missing(text, events));
        self.has_called = self.main.has_called();
        if self.main.is_open() && !segment.is_error {
            self.within(None, out, |main, events| main.end_segment(cost, events));
        } else if cost.0 > 0.0 {
            out.push(Signal::Emit(None, AgentEvent::Spent { tokens: Tokens::default(), cost }));
        }
        if segment.is_error {
            let end = if segment.was_aborted() {
                TurnEnd::Cancelled
            } else {
                TurnEnd::Error(MessageError::unknown(segment.complaint()))
            };
            self.end_awaited(&end, out);
        }
    }
}

/// The output of a subagent does not count as work of the agent.
fn working(whose: Option<&str>) -> Option<Report> {
    whose.is_none().then_some(Report::Working)
}
