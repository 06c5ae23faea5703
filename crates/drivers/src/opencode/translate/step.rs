//! One assistant message of OpenCode and the progress of its parts.

use std::collections::{HashMap, HashSet};

use protocol::part::{FilePart, ToolPart};
use protocol::{AgentEvent, Extra, MessageId, Part, PartBody, PartId, ToolState};
use serde_json::Value;

use super::Child;

/// The tool that starts subagents.
const TASK: &str = "task";
/// The metadata field with the session id of a subagent.
pub(in super::super) const TASK_SESSION: &str = "sessionId";

/// An open message.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) id: MessageId,
    /// True if the message is complete and only the end of the turn is missing.
    pub(super) is_done: bool,
    texts: HashMap<PartId, Text>,
    /// The parts of a failed attempt. Later events about them are ignored.
    withdrawn: HashSet<PartId>,
    tools: HashMap<String, CallState>,
}

#[derive(Debug)]
struct Text {
    is_reasoning: bool,
    /// The number of bytes that were emitted.
    told: usize,
    /// Deltas were lost while the event stream was interrupted, so the next delta does not continue the emitted text.
    has_gap: bool,
    is_closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CallState {
    Pending,
    Running,
    Done,
}

impl Step {
    pub(super) fn new(id: MessageId) -> Self {
        Self { id, is_done: false, texts: HashMap::new(), withdrawn: HashSet::new(), tools: HashMap::new() }
    }

    /// Returns true while a tool runs.
    pub(super) fn is_acting(&self) -> bool {
        self.tools.values().any(|stage| *stage == CallState::Running)
    }

    /// Translates the state of a part.
    pub(super) fn part(&mut self, part: Part) -> Vec<AgentEvent> {
        let is_open = part.is_open();
        match part.body {
            PartBody::Text(it) => self.text(&part.id, false, &it.text, is_open, None),
            PartBody::Reasoning(it) => self.text(&part.id, true, &it.text, is_open, it.metadata),
            PartBody::Tool(tool) => self.tool(*tool),
            _ => Vec::new(),
        }
    }

    /// Takes in the current state of a text. Emits the rest that did not arrive as deltas.
    fn text(
        &mut self,
        id: &PartId,
        is_reasoning: bool,
        text: &str,
        is_open: bool,
        metadata: Option<Extra>,
    ) -> Vec<AgentEvent> {
        if self.withdrawn.contains(id) {
            return Vec::new();
        }
        let mut said = self.begin(id, is_reasoning);
        let Some(known) = self.texts.get_mut(id).filter(|known| !known.is_closed) else { return said };
        // OpenCode stores an open text as empty, even after deltas.
        if let Some(rest) = text.get(known.told..).filter(|rest| !rest.is_empty()) {
            known.told = text.len();
            said.push(more(id, is_reasoning, rest.to_owned()));
        }
        if !is_open {
            known.is_closed = true;
            said.push(ended(id, is_reasoning, metadata));
        }
        said
    }

    fn begin(&mut self, id: &PartId, is_reasoning: bool) -> Vec<AgentEvent> {
        if self.texts.contains_key(id) {
            return Vec::new();
        }
        self.texts.insert(id.clone(), Text { is_reasoning, told: 0, has_gap: false, is_closed: false });
        let key = id.to_string();
        vec![if is_reasoning {
            AgentEvent::ReasoningStarted { key }
        } else {
            AgentEvent::TextStarted { key }
        }]
    }

    /// Marks all texts as incomplete after an interruption of the event stream.
    pub(super) fn missed(&mut self) {
        for text in self.texts.values_mut() {
            text.has_gap = true;
        }
    }

    /// Translates a delta. A delta of an unknown or incomplete text is dropped, because the end of the text carries all
    /// of it.
    pub(super) fn delta(&mut self, id: &PartId, delta: &str) -> Vec<AgentEvent> {
        match self.texts.get_mut(id) {
            Some(text) if !text.is_closed && !text.has_gap => {
                text.told += delta.len();
                vec![more(id, text.is_reasoning, delta.to_owned())]
            }
            _ => Vec::new(),
        }
    }

    /// Ends the texts that OpenCode has left open.
    pub(super) fn finish_texts(&mut self) -> Vec<AgentEvent> {
        let mut open: Vec<_> = self.texts.iter_mut().filter(|(_, text)| !text.is_closed).collect();
        open.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        let close = |(id, text): (&PartId, &mut Text)| {
            text.is_closed = true;
            ended(id, text.is_reasoning, None)
        };
        open.into_iter().map(close).collect()
    }

    /// Withdraws the text of a failed attempt before the retry, unless the attempt has called a tool.
    pub(super) fn withdraw(&mut self) -> Vec<AgentEvent> {
        if self.texts.is_empty() {
            return Vec::new();
        }
        if !self.tools.is_empty() {
            return self.finish_texts();
        }
        self.withdrawn.extend(self.texts.drain().map(|(id, _)| id));
        vec![AgentEvent::AttemptWithdrawn]
    }

    fn tool(&mut self, part: ToolPart) -> Vec<AgentEvent> {
        let ToolPart { call_id: call, tool, state, .. } = part;
        let before = self.tools.get(&call).copied();
        if before == Some(CallState::Done) {
            return Vec::new();
        }
        let mut said = Vec::new();
        let is_new = before.is_none_or(|stage| stage < CallState::Running);
        let started = |input: &Extra| AgentEvent::ToolRunning {
            call: call.clone(),
            tool: tool.clone(),
            input: input.clone(),
            title: None,
            metadata: None,
        };
        let stage = match state {
            ToolState::Pending(_) => {
                if before.is_some() {
                    return Vec::new();
                }
                said.push(AgentEvent::ToolPending { call: call.clone(), tool });
                CallState::Pending
            }
            ToolState::Running(it) => {
                let (input, title, metadata) = (it.input, it.title, it.metadata);
                said.push(AgentEvent::ToolRunning { call: call.clone(), tool, input, title, metadata });
                CallState::Running
            }
            ToolState::Completed(it) => {
                said.extend(is_new.then(|| started(&it.input)));
                let attachments = it.attachments.unwrap_or_default().into_iter().filter_map(file).collect();
                let (output, title, metadata) = (it.output, it.title, it.metadata);
                said.push(AgentEvent::ToolCompleted {
                    call: call.clone(),
                    output,
                    title,
                    metadata,
                    attachments,
                });
                CallState::Done
            }
            ToolState::Error(it) => {
                said.extend(is_new.then(|| started(&it.input)));
                said.push(AgentEvent::ToolFailed {
                    call: call.clone(),
                    error: it.error,
                    metadata: it.metadata,
                });
                CallState::Done
            }
        };
        self.tools.insert(call, stage);
        said
    }
}

fn more(id: &PartId, is_reasoning: bool, delta: String) -> AgentEvent {
    let key = id.to_string();
    if is_reasoning {
        AgentEvent::ReasoningDelta { key, delta }
    } else {
        AgentEvent::TextDelta { key, delta }
    }
}

fn ended(id: &PartId, is_reasoning: bool, metadata: Option<Extra>) -> AgentEvent {
    let key = id.to_string();
    if is_reasoning { AgentEvent::ReasoningEnded { key, metadata } } else { AgentEvent::TextEnded { key } }
}

fn file(part: Part) -> Option<FilePart> {
    match part.body {
        PartBody::File(file) => Some(file),
        _ => None,
    }
}

/// The subagent that a tool part has started.
pub(super) fn child(part: &Part) -> Option<Child> {
    let PartBody::Tool(tool) = &part.body else { return None };
    let ToolState::Running(state) = &tool.state else { return None };
    if tool.tool != TASK {
        return None;
    }
    let session = state.metadata.as_ref()?.get(TASK_SESSION)?.as_str()?.parse().ok()?;
    let text = |name: &str| state.input.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let title = state.title.clone().unwrap_or_else(|| text("description"));
    Some(Child { session, title, prompt: text("prompt") })
}
