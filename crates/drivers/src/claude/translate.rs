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

use super::wire::{Block, ControlBody, Line, Permit, Segment, State, System};
use crate::external::Subagent;
use children::Children;
use scope::Scope;

/// One consequence of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Signal {
    /// An event for the session, or for the session of the subagent with this name.
    Say(Option<String>, AgentEvent),
    /// A subagent begins, which the agent itself or another subagent has started.
    ChildStarted {
        /// The subagent that has started it; none for the agent itself.
        parent: Option<String>,
        /// The subagent.
        subagent: Subagent,
    },
    /// A subagent has ended.
    Ended { child: String, end: TurnEnd },
    /// Claude Code's id of the conversation.
    Named(String),
    /// Claude Code reports its state.
    State(State),
    /// A segment of the turn has ended.
    Segment(Segment),
    /// A permission request.
    Permit {
        /// Claude Code's id of the request.
        id: String,
        permit: Permit,
        /// The subagent that asks. None if it is the agent itself.
        child: Option<String>,
    },
    /// Claude Code has withdrawn a permission request.
    Dropped {
        /// Claude Code's id of the request.
        id: String,
    },
    /// A control request that Baton does not support.
    Unable {
        /// Claude Code's id of the request.
        id: String,
    },
    /// Claude Code has answered a control request.
    Answered {
        /// Baton's id of the request.
        id: String,
        error: Option<String>,
    },
    /// A background task has ended, with its summary.
    Notified(String),
    /// The agent itself works, and not only a subagent.
    Working,
    /// A line that cannot be decoded, with the error.
    Strange(String),
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
    pub(super) fn end_turn(&mut self) -> Vec<Signal> {
        let mut out = Vec::new();
        self.within(None, &mut out, Scope::end_turn);
        out
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
    pub(super) fn translate(&mut self, line: Value, now: Millis) -> Vec<Signal> {
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
            Line::StreamEvent { event, parent_tool_use_id: whose } => {
                self.working(whose.as_deref(), out);
                self.within(whose.as_deref(), out, |scope, events| scope.piece(event, events));
            }
            Line::Assistant { message, parent_tool_use_id: whose, error } => {
                self.working(whose.as_deref(), out);
                // The segment reports this error again, so the message that repeats it is skipped.
                if error.is_none() {
                    self.within(whose.as_deref(), out, |scope, events| scope.spoken(message, events));
                }
            }
            Line::User { message, parent_tool_use_id: whose, tool_use_result } => {
                self.results(whose.as_deref(), message.content, &tool_use_result, out);
            }
            Line::Result(segment) => {
                self.working(None, out);
                self.segment(&segment, out);
                out.push(Signal::Segment(segment));
            }
            Line::ControlRequest { request_id: id, request: ControlBody::CanUseTool(permit) } => {
                let child = self.whose(permit.agent_id.as_deref(), permit.tool_use_id.as_deref());
                out.push(Signal::Permit { id, permit, child });
            }
            Line::ControlRequest { request_id: id, request: ControlBody::Unknown } => {
                out.push(Signal::Unable { id });
            }
            Line::ControlCancelRequest { request_id: id } => out.push(Signal::Dropped { id }),
            Line::ControlResponse { response } => {
                let failed = response.subtype == "error";
                let error = failed.then(|| response.error.unwrap_or_else(|| "no reason given".into()));
                out.push(Signal::Answered { id: response.request_id, error });
            }
            Line::Unknown => {}
        }
        self.leave(out);
    }

    fn system(&mut self, system: System, now: Millis, out: &mut Vec<Signal>) {
        match system {
            System::Init { session_id } => out.extend([Signal::Named(session_id), Signal::Working]),
            System::SessionStateChanged { state } => out.push(Signal::State(state)),
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
                out.push(Signal::Say(None, AgentEvent::Retrying { attempt, limit: None, message, next }));
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
            System::TaskNotification { task_id, status, summary } => {
                self.tasks.remove(&task_id);
                self.task_ended(&task_id, &status, None, out);
                self.task_told(&task_id);
                out.push(Signal::Notified(summary));
            }
            System::CompactBoundary => out.push(Signal::Say(None, AgentEvent::Compacted)),
            System::Unknown => {}
        }
    }

    /// Ends the retry, because the model answers again. The output of a subagent does not count as work of the agent.
    fn working(&mut self, whose: Option<&str>, out: &mut Vec<Signal>) {
        if std::mem::take(&mut self.retrying) {
            out.push(Signal::Say(None, AgentEvent::Resumed));
        }
        if whose.is_none() {
            out.push(Signal::Working);
        }
    }

    fn results(&mut self, whose: Option<&str>, blocks: Vec<Block>, result: &Value, out: &mut Vec<Signal>) {
        for block in blocks {
            let Block::ToolResult { tool_use_id: id, content, is_error } = block else { continue };
            let is_error = is_error == Some(true);
            self.reported(&id, &content, is_error, result, out);
            self.within(whose, out, |scope, events| scope.result(id, &content, is_error, result, events));
        }
    }

    /// Ends the step with the cost of the segment, and adds the text of the segment if it was not said. A failed step stays open, so that the turn closes it with its error.
    fn segment(&mut self, segment: &Segment, out: &mut Vec<Signal>) {
        let mut cost = Number(segment.total_cost_usd);
        cost += Number(-self.spent);
        self.spent = segment.total_cost_usd;
        let text = segment.result.as_deref().filter(|_| !segment.is_error).unwrap_or_default();
        self.within(None, out, |main, events| main.add_missing(text, events));
        self.has_called = self.main.has_called();
        if self.main.is_open() && !segment.is_error {
            self.within(None, out, |main, events| main.end_segment(cost, events));
        } else if cost.0 > 0.0 {
            out.push(Signal::Say(None, AgentEvent::Spent { tokens: Tokens::default(), cost }));
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
