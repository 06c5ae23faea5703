//! The registry of subagents.
//!
//! A subagent is named after the call that started it. It begins with the first line about it and ends with the result
//! of that call. A subagent in the background ends with its task, and stays in the registry until Claude Code has told
//! the agent about the end, because the agent continues by itself at that point.

use std::collections::BTreeMap;

use protocol::{AgentEvent, MessageError, TurnEnd};
use serde_json::Value;

use super::super::tools::{self, Call};
use super::scope::{self, Scope};
use super::{Signals, Translator};
use crate::external::{Signal, Subagent};

/// Most subagents at a time that get a session. Others are shown only as tool calls.
const MAX_CHILDREN: usize = 64;

/// The error of a subagent whose result never arrived.
const LEFT: &str = "Claude Code continued without a result of this subagent";

/// The tool under which clients know subagents.
const TASK: &str = "task";

#[derive(Debug)]
pub(super) struct Child {
    scope: Scope,
    /// The subagent that started it; none if it was the agent itself.
    parent: Option<String>,
    /// Claude Code's task id.
    task: Option<String>,
    /// True if the subagent continues after the end of the call that started it.
    background: bool,
    over: bool,
}

/// Subagents by the calls that started them.
pub(super) type Children = BTreeMap<String, Child>;

impl Translator {
    /// Returns true if a subagent works, or has ended and the agent has not been told yet.
    pub(in crate::claude) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Returns true while a subagent works.
    pub(in crate::claude) fn has_busy_children(&self) -> bool {
        self.children.values().any(|child| !child.over)
    }

    /// The task id of a subagent.
    pub(in crate::claude) fn task_of(&self, child: &str) -> Option<&str> {
        self.children.get(child)?.task.as_deref()
    }

    /// The subagent that made a permission request. None for the agent itself.
    pub(super) fn whose(&self, agent: Option<&str>, call: Option<&str>) -> Option<String> {
        let by_task = |child: &Child| agent.is_some() && child.task.as_deref() == agent;
        let by_call = |child: &Child| call.is_some_and(|call| child.scope.call(call).is_some());
        let found = |fits: &dyn Fn(&Child) -> bool| {
            self.children.iter().find(|(_, child)| !child.over && fits(child)).map(|(name, _)| name.clone())
        };
        found(&by_task).or_else(|| found(&by_call))
    }

    /// Translates in the conversation of a subagent, or of the agent itself.
    pub(super) fn within(
        &mut self,
        whose: Option<&str>,
        out: &mut Signals,
        act: impl FnOnce(&mut Scope, &mut Vec<AgentEvent>),
    ) {
        let mut events = Vec::new();
        match whose {
            None => act(&mut self.main, &mut events),
            Some(name) => {
                self.start_child(name, None, out);
                let Some(child) = self.children.get_mut(name).filter(|child| !child.over) else { return };
                act(&mut child.scope, &mut events);
            }
        }
        out.extend(events.into_iter().map(|event| Signal::Emit(whose.map(str::to_owned), event)));
    }

    /// A subagent works for this call, if that is what the call is for.
    pub(super) fn start_child(&mut self, name: &str, task: Option<String>, out: &mut Signals) {
        if let Some(child) = self.children.get_mut(name) {
            child.task = task.or(child.task.take());
            return;
        }
        let Some((parent, call)) = self.caller(name) else { return };
        if call.tool != TASK || self.children.len() >= MAX_CHILDREN {
            return;
        }
        let said = |key: &str| call.input.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let subagent = Subagent {
            name: name.to_owned(),
            title: format!("{} (@{} subagent)", call.title, said("subagent_type")),
            prompt: said("prompt"),
            call: name.to_owned(),
            shown: Some(scope::running(name, call)),
        };
        let scope = Scope::new(self.directory.clone());
        let child = Child { scope, parent: parent.clone(), task, background: false, over: false };
        self.children.insert(name.to_owned(), child);
        out.push(Signal::ChildStarted(parent, subagent));
    }

    /// Finds an open call and the subagent that made it.
    fn caller(&self, call: &str) -> Option<(Option<String>, &Call)> {
        if let Some(call) = self.main.call(call) {
            return Some((None, call));
        }
        let mut below = self.children.iter().filter(|(_, child)| !child.over);
        below.find_map(|(name, child)| Some((Some(name.clone()), child.scope.call(call)?)))
    }

    /// Takes in the result of a call. A subagent that the call started has ended, unless it continues in the
    /// background.
    pub(super) fn reported(
        &mut self,
        name: &str,
        content: &Value,
        is_error: bool,
        result: &Value,
        out: &mut Signals,
    ) {
        if result.get("status").is_some_and(|status| status == "async_launched") {
            self.start_child(name, None, out);
            if let Some(child) = self.children.get_mut(name) {
                child.background = true;
            }
            return;
        }
        if self.children.get(name).is_none_or(|child| child.background) {
            return;
        }
        let report = result.get("content").filter(|content| content.is_array()).unwrap_or(content);
        let report = tools::output(report).0;
        let end = if is_error { failed(&report) } else { TurnEnd::Completed };
        self.end(name, report, end, out);
        self.children.remove(name);
    }

    /// Ends the subagent of a background task.
    pub(super) fn task_ended(&mut self, task: &str, how: &str, why: Option<String>, out: &mut Signals) {
        let end = match how {
            "completed" => TurnEnd::Completed,
            "killed" | "stopped" => TurnEnd::Cancelled,
            how => failed(&why.unwrap_or_else(|| format!("the subagent has ended ({how})"))),
        };
        if let Some(name) = self.in_background(task) {
            self.end(&name, String::new(), end, out);
        }
    }

    /// Removes the subagent of a background task, because the agent has been told about its end.
    pub(super) fn task_told(&mut self, task: &str) {
        if let Some(name) = self.in_background(task) {
            self.children.remove(&name);
        }
    }

    fn in_background(&self, task: &str) -> Option<String> {
        let fits = |child: &Child| child.background && child.task.as_deref() == Some(task);
        self.children.iter().find(|(_, child)| fits(child)).map(|(name, _)| name.clone())
    }

    /// Ends subagents whose calls were closed without a result.
    pub(super) fn leave(&mut self, out: &mut Signals) {
        let waits = |child: &Child, name: &str| match &child.parent {
            None => self.main.call(name).is_some(),
            Some(parent) => self.children.get(parent).is_some_and(|it| it.scope.call(name).is_some()),
        };
        let left = self.children.iter().filter(|(name, child)| !child.background && !waits(child, name));
        let left: Vec<String> = left.map(|(name, _)| name.clone()).collect();
        self.end_those(left, &failed(LEFT), out);
    }

    /// Ends the subagents in the foreground.
    pub(super) fn end_awaited(&mut self, end: &TurnEnd, out: &mut Signals) {
        let awaited = self.children.iter().filter(|(_, child)| !child.background);
        let awaited = awaited.map(|(name, _)| name.clone()).collect();
        self.end_those(awaited, end, out);
    }

    fn end_those(&mut self, names: Vec<String>, end: &TurnEnd, out: &mut Signals) {
        for name in names {
            self.end(&name, String::new(), end.clone(), out);
            self.children.remove(&name);
        }
    }

    /// Ends a subagent after all of its own subagents.
    fn end(&mut self, name: &str, report: String, end: TurnEnd, out: &mut Signals) {
        let below = self.children.iter().filter(|(_, child)| child.parent.as_deref() == Some(name));
        let below = below.map(|(name, _)| name.clone()).collect();
        self.end_those(below, &failed(LEFT), out);
        let Some(child) = self.children.get_mut(name).filter(|child| !child.over) else { return };
        child.over = true;
        let mut events = Vec::new();
        if end == TurnEnd::Completed {
            child.scope.report(report, &mut events);
        }
        out.extend(events.into_iter().map(|event| Signal::Emit(Some(name.to_owned()), event)));
        out.push(Signal::ChildEnded(name.to_owned(), end));
    }
}

fn failed(message: &str) -> TurnEnd {
    TurnEnd::Error(MessageError::unknown(message))
}
