//! Subagents: which there are, what they say, and when they are done.
//!
//! A subagent is named after the call that started it. It begins with the first word about it and ends with the result
//! of that call; one that was sent to the background ends when its task does, and is remembered until the agent was told
//! so, because that is when the agent goes on by itself.

use std::collections::BTreeMap;

use protocol::{AgentEvent, MessageError, TurnEnd};
use serde_json::Value;

use super::super::tools::{self, Call};
use super::scope::{self, Scope};
use super::{Signal, Translator};
use crate::external::Subagent;

/// Subagents at a time that get a session; others are shown as calls only.
const MAX_CHILDREN: usize = 64;

/// Why a subagent has ended that nobody has heard of any more.
const LEFT: &str = "Claude Code went on without a result of this subagent";

/// What its subagents are called by clients.
const TASK: &str = "task";

/// A subagent.
#[derive(Debug)]
pub(super) struct Child {
    scope: Scope,
    /// The subagent that started it; none if it was the agent itself.
    parent: Option<String>,
    /// Its name for the work.
    task: Option<String>,
    /// The call that started it is over, and it works on.
    background: bool,
    /// It has ended.
    over: bool,
}

/// Subagents by the calls that started them.
pub(super) type Children = BTreeMap<String, Child>;

impl Translator {
    /// Whether there are subagents that work, or have ended without the agent being told.
    pub(in crate::claude) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Whether a subagent works.
    pub(in crate::claude) fn has_busy_children(&self) -> bool {
        self.children.values().any(|child| !child.over)
    }

    /// Its name for what a subagent does.
    pub(in crate::claude) fn task_of(&self, child: &str) -> Option<&str> {
        self.children.get(child)?.task.as_deref()
    }

    /// Whose wish it is: a subagent's, or its own.
    pub(super) fn whose(&self, agent: Option<&str>, call: Option<&str>) -> Option<String> {
        let by_task = |child: &Child| agent.is_some() && child.task.as_deref() == agent;
        let by_call = |child: &Child| call.is_some_and(|call| child.scope.call(call).is_some());
        let found = |fits: &dyn Fn(&Child) -> bool| {
            self.children.iter().find(|(_, child)| !child.over && fits(child)).map(|(name, _)| name.clone())
        };
        found(&by_task).or_else(|| found(&by_call))
    }

    /// Hears something in the conversation of a subagent, or in its own.
    pub(super) fn within(
        &mut self,
        whose: Option<&str>,
        out: &mut Vec<Signal>,
        act: impl FnOnce(&mut Scope, &mut Vec<AgentEvent>),
    ) {
        let mut events = Vec::new();
        match whose {
            None => act(&mut self.main, &mut events),
            Some(name) => {
                self.bear(name, None, out);
                let Some(child) = self.children.get_mut(name).filter(|child| !child.over) else { return };
                act(&mut child.scope, &mut events);
            }
        }
        out.extend(events.into_iter().map(|event| Signal::Say(whose.map(str::to_owned), event)));
    }

    /// A subagent works for this call, if that is what the call is for.
    pub(super) fn bear(&mut self, name: &str, task: Option<String>, out: &mut Vec<Signal>) {
        if let Some(child) = self.children.get_mut(name) {
            child.task = task.or(child.task.take());
            return;
        }
        let Some((parent, call)) = self.caller(name) else { return };
        if call.tool != TASK || self.children.len() >= MAX_CHILDREN {
            return;
        }
        let said = |key: &str| call.input.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let birth = Subagent {
            name: name.to_owned(),
            title: format!("{} (@{} subagent)", call.title, said("subagent_type")),
            prompt: said("prompt"),
            call: name.to_owned(),
            shown: Some(scope::running(name, call)),
        };
        let scope = Scope::new(self.directory.clone());
        let child = Child { scope, parent: parent.clone(), task, background: false, over: false };
        self.children.insert(name.to_owned(), child);
        out.push(Signal::Born { parent, birth });
    }

    /// Who has made a call that has no result yet, and the call.
    fn caller(&self, call: &str) -> Option<(Option<String>, &Call)> {
        if let Some(call) = self.main.call(call) {
            return Some((None, call));
        }
        let mut below = self.children.iter().filter(|(_, child)| !child.over);
        below.find_map(|(name, child)| Some((Some(name.clone()), child.scope.call(call)?)))
    }

    /// The result of a call: if it is a subagent's, that has ended, unless it goes on in the background.
    pub(super) fn reported(
        &mut self,
        name: &str,
        content: &Value,
        is_error: bool,
        result: &Value,
        out: &mut Vec<Signal>,
    ) {
        if result.get("status").is_some_and(|status| status == "async_launched") {
            self.bear(name, None, out);
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

    /// Work that goes on beside the turn has ended.
    pub(super) fn task_ended(&mut self, task: &str, how: &str, why: Option<String>, out: &mut Vec<Signal>) {
        let end = match how {
            "completed" => TurnEnd::Completed,
            "killed" | "stopped" => TurnEnd::Cancelled,
            how => failed(&why.unwrap_or_else(|| format!("the subagent has ended ({how})"))),
        };
        if let Some(name) = self.in_background(task) {
            self.end(&name, String::new(), end, out);
        }
    }

    /// The agent was told that work beside the turn has ended.
    pub(super) fn task_told(&mut self, task: &str) {
        if let Some(name) = self.in_background(task) {
            self.children.remove(&name);
        }
    }

    fn in_background(&self, task: &str) -> Option<String> {
        let fits = |child: &Child| child.background && child.task.as_deref() == Some(task);
        self.children.iter().find(|(_, child)| fits(child)).map(|(name, _)| name.clone())
    }

    /// Ends subagents whose calls have no result and will have none.
    pub(super) fn leave(&mut self, out: &mut Vec<Signal>) {
        let waits = |child: &Child, name: &str| match &child.parent {
            None => self.main.call(name).is_some(),
            Some(parent) => self.children.get(parent).is_some_and(|it| it.scope.call(name).is_some()),
        };
        let left = self.children.iter().filter(|(name, child)| !child.background && !waits(child, name));
        let left: Vec<String> = left.map(|(name, _)| name.clone()).collect();
        self.end_those(left, &failed(LEFT), out);
    }

    /// Ends subagents that somebody waits for.
    pub(super) fn end_awaited(&mut self, end: &TurnEnd, out: &mut Vec<Signal>) {
        let awaited = self.children.iter().filter(|(_, child)| !child.background);
        let awaited = awaited.map(|(name, _)| name.clone()).collect();
        self.end_those(awaited, end, out);
    }

    fn end_those(&mut self, names: Vec<String>, end: &TurnEnd, out: &mut Vec<Signal>) {
        for name in names {
            self.end(&name, String::new(), end.clone(), out);
            self.children.remove(&name);
        }
    }

    /// Ends a subagent, and before that all that are below it.
    fn end(&mut self, name: &str, report: String, end: TurnEnd, out: &mut Vec<Signal>) {
        let below = self.children.iter().filter(|(_, child)| child.parent.as_deref() == Some(name));
        let below = below.map(|(name, _)| name.clone()).collect();
        self.end_those(below, &failed(LEFT), out);
        let Some(child) = self.children.get_mut(name).filter(|child| !child.over) else { return };
        child.over = true;
        let mut events = Vec::new();
        if end == TurnEnd::Completed {
            child.scope.report(report, &mut events);
        }
        out.extend(events.into_iter().map(|event| Signal::Say(Some(name.to_owned()), event)));
        out.push(Signal::Ended { child: name.to_owned(), end });
    }
}

fn failed(message: &str) -> TurnEnd {
    TurnEnd::Error(MessageError::unknown(message))
}
