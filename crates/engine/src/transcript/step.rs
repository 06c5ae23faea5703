//! One open step: an assistant message and its parts.

use std::collections::HashMap;

use protocol::{
    AgentEvent, AssistantMessage, Extra, Message, MessageError, MessageId, MessageWithParts, Part, PartBody,
    PartId, Session, ToolState,
    message::Finish,
    number::Number,
    part::{
        PartTime, PatchPart, ReasoningPart, StepFinishPart, StepStartPart, TextPart, ToolCompleted,
        ToolFailed, ToolPart, ToolPending, ToolRunning,
    },
    session::Tokens,
    title,
};

use super::Emit;

struct Finished {
    reason: Finish,
    tokens: Tokens,
    cost: Number,
    snapshot: Option<String>,
    patch: Option<PatchPart>,
    error: Option<MessageError>,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) message: AssistantMessage,
    /// Open text and reasoning, by the runner's key.
    texts: HashMap<String, Streamed>,
    /// Tools by call id, open or closed: a late progress report must not reopen one.
    tools: HashMap<String, Part>,
    /// Closed text of this attempt; withdrawn if the attempt fails.
    said: Vec<PartId>,
}

/// The open text of an answer.
#[derive(Debug, Clone)]
pub struct OpenText {
    /// The runner's name for this text.
    pub key: String,
    pub part: PartId,
    pub message: MessageId,
    pub text: String,
}

#[derive(Debug)]
struct Streamed {
    part: Part,
    dirty: bool,
    /// Length of the text that clients have received, in UTF-16 code units.
    sent: u64,
}

impl Step {
    pub(super) fn new(message: AssistantMessage) -> Self {
        Self { message, texts: HashMap::new(), tools: HashMap::new(), said: Vec::new() }
    }

    pub(super) fn start(&mut self, snapshot: Option<String>, emit: &mut Emit<'_>) {
        emit.assistant(&self.message);
        let body = PartBody::StepStart(StepStartPart { snapshot, extra: Extra::new() });
        emit.part(emit.new_part(&self.message.id, body));
    }

    /// The message with its open parts, to be closed.
    pub(super) fn into_open(self) -> MessageWithParts {
        let mut parts: Vec<Part> =
            self.texts.into_values().map(|text| text.part).chain(self.tools.into_values()).collect();
        parts.sort_by(|left, right| left.id.cmp(&right.id));
        MessageWithParts::new(Message::Assistant(Box::new(self.message)), parts)
    }

    pub(super) fn take_dirty(&mut self) -> Vec<Part> {
        self.texts
            .values_mut()
            .filter_map(|text| std::mem::take(&mut text.dirty).then(|| text.part.clone()))
            .collect()
    }

    pub(super) fn open_texts(&self, key: Option<&str>) -> Vec<OpenText> {
        let open = self.texts.iter().filter(|(it, _)| key.is_none_or(|key| *it == key));
        let mut open: Vec<OpenText> = open
            .filter_map(|(key, text)| match &text.part.body {
                PartBody::Text(words) => Some(OpenText {
                    key: key.clone(),
                    part: text.part.id.clone(),
                    message: self.message.id.clone(),
                    text: words.text.clone(),
                }),
                _ => None,
            })
            .collect();
        open.sort_by(|left, right| left.part.cmp(&right.part));
        open
    }

    /// Returns true when the step is over.
    pub(super) fn apply(&mut self, report: AgentEvent, session: &mut Session, emit: &mut Emit<'_>) -> bool {
        match report {
            AgentEvent::TextStarted { key } => {
                let time = Some(PartTime::started(emit.now()));
                self.open_text(key, PartBody::Text(TextPart { time, ..TextPart::default() }), emit);
            }
            AgentEvent::ReasoningStarted { key } => {
                let time = PartTime::started(emit.now());
                let body = ReasoningPart { text: String::new(), time, metadata: None, extra: Extra::new() };
                self.open_text(key, PartBody::Reasoning(body), emit);
            }
            AgentEvent::TextDelta { key, delta } | AgentEvent::ReasoningDelta { key, delta } => {
                self.append_text(&key, delta, emit);
            }
            AgentEvent::TextReplaced { key, text } => self.replace_text(&key, text),
            AgentEvent::TextEnded { key } => self.close_text(&key, None, emit),
            AgentEvent::ReasoningEnded { key, metadata } => self.close_text(&key, metadata, emit),
            AgentEvent::ToolPending { call, tool } => self.tool_pending(call, tool, emit),
            AgentEvent::ToolRunning { call, tool, input, title, metadata } => {
                let time = PartTime::started(emit.now());
                // Every agent's calls have titles in the same words; an agent's own title is for tools that only it knows.
                let title = title::of_call(&tool, &input).or(title.filter(|title| !title.is_empty()));
                let state = ToolRunning { input, title, metadata, time, extra: Extra::new() };
                self.tool_running(call, tool, state, emit);
            }
            AgentEvent::ToolCompleted { call, output, title, metadata, attachments } => {
                let attach = |file| emit.new_part(&self.message.id, PartBody::File(file));
                let attachments: Vec<Part> = attachments.into_iter().map(attach).collect();
                let attachments = (!attachments.is_empty()).then_some(attachments);
                self.tool_ended(&call, emit, |input, time| {
                    ToolState::Completed(ToolCompleted {
                        input,
                        output,
                        title,
                        metadata,
                        time,
                        attachments,
                        extra: Extra::new(),
                    })
                });
            }
            AgentEvent::ToolFailed { call, error, metadata } => {
                self.tool_ended(&call, emit, |input, time| {
                    ToolState::Error(ToolFailed { input, error, metadata, time, extra: Extra::new() })
                });
            }
            AgentEvent::AttemptWithdrawn => self.withdraw(emit),
            AgentEvent::Patched(patch) => {
                emit.part(emit.new_part(&self.message.id, PartBody::Patch(patch)));
            }
            // Published with the next change of the message.
            AgentEvent::Structured(value) => self.message.structured = Some(value),
            AgentEvent::StepFinished { reason, tokens, cost, snapshot, patch, error } => {
                self.finish(Finished { reason, tokens, cost, snapshot, patch, error }, session, emit);
                return true;
            }
            // The transcript handles the rest, which concerns the session.
            _ => {}
        }
        false
    }

    fn open_text(&mut self, key: String, body: PartBody, emit: &mut Emit<'_>) {
        // The same key again means that the runner missed an end; close the old text first.
        self.close_text(&key, None, emit);
        let part = emit.new_part(&self.message.id, body);
        emit.part(part.clone());
        self.texts.insert(key, Streamed { part, dirty: false, sent: 0 });
    }

    fn append_text(&mut self, key: &str, delta: String, emit: &mut Emit<'_>) {
        let Some(text) = self.texts.get_mut(key) else { return };
        match &mut text.part.body {
            PartBody::Text(part) => part.text.push_str(&delta),
            PartBody::Reasoning(part) => part.text.push_str(&delta),
            _ => {}
        }
        text.dirty = true;
        let offset = text.sent;
        text.sent += delta.chars().fold(0, |sum, it| sum + it.len_utf16() as u64);
        emit.delta(&text.part, delta, offset);
    }

    /// Replaces streamed text; clients see the new text when the part ends.
    fn replace_text(&mut self, key: &str, text: String) {
        if let Some(Streamed { part: Part { body: PartBody::Text(part), .. }, dirty, .. }) =
            self.texts.get_mut(key)
        {
            part.text = text;
            *dirty = true;
        }
    }

    fn close_text(&mut self, key: &str, metadata: Option<Extra>, emit: &mut Emit<'_>) {
        let Some(mut text) = self.texts.remove(key) else { return };
        let now = Some(emit.now());
        match &mut text.part.body {
            PartBody::Text(part) => {
                if let Some(time) = &mut part.time {
                    time.end = now;
                }
            }
            PartBody::Reasoning(part) => {
                part.time.end = now;
                part.metadata = metadata.or(part.metadata.take());
            }
            _ => {}
        }
        self.said.push(text.part.id.clone());
        emit.part(text.part);
    }

    fn tool_pending(&mut self, call: String, tool: String, emit: &mut Emit<'_>) {
        if self.tools.contains_key(&call) {
            return;
        }
        let state = ToolState::Pending(ToolPending::default());
        let part = self.tool_part(&call, tool, state, emit);
        emit.part(part.clone());
        self.tools.insert(call, part);
    }

    fn tool_running(&mut self, call: String, name: String, mut running: ToolRunning, emit: &mut Emit<'_>) {
        let Some(part) = self.tools.get_mut(&call) else {
            let part = self.tool_part(&call, name, ToolState::Running(running), emit);
            emit.part(part.clone());
            self.tools.insert(call, part);
            return;
        };
        let PartBody::Tool(tool) = &mut part.body else { return };
        match &tool.state {
            // A progress report keeps the time the tool started.
            ToolState::Running(before) => running.time = before.time.clone(),
            ToolState::Pending(_) => {}
            ToolState::Completed(_) | ToolState::Error(_) => return,
        }
        tool.tool = name;
        tool.state = ToolState::Running(running);
        emit.part(part.clone());
    }

    fn tool_ended(
        &mut self,
        call: &str,
        emit: &mut Emit<'_>,
        end: impl FnOnce(Extra, PartTime) -> ToolState,
    ) {
        let Some(part) = self.tools.get_mut(call).filter(|part| part.is_open()) else { return };
        let PartBody::Tool(tool) = &mut part.body else { return };
        let now = emit.now();
        let start = if let ToolState::Running(running) = &tool.state { running.time.start } else { now };
        tool.state = end(tool.state.input().clone(), PartTime::span(start, now));
        emit.part(part.clone());
    }

    fn tool_part(&self, call: &str, tool: String, state: ToolState, emit: &Emit<'_>) -> Part {
        let body = ToolPart { call_id: call.to_owned(), tool, state, metadata: None, extra: Extra::new() };
        emit.new_part(&self.message.id, PartBody::Tool(Box::new(body)))
    }

    /// Withdraws the text of a failed attempt. Tool calls that have ended stay, because they have taken effect.
    fn withdraw(&mut self, emit: &mut Emit<'_>) {
        let mut gone = std::mem::take(&mut self.said);
        gone.extend(self.texts.drain().map(|(_, text)| text.part.id));
        self.tools.retain(|_, part| {
            let keep = !part.is_open();
            if !keep {
                gone.push(part.id.clone());
            }
            keep
        });
        gone.sort();
        for part in gone {
            emit.part_removed(self.message.id.clone(), part);
        }
    }

    fn finish(&mut self, end: Finished, session: &mut Session, emit: &mut Emit<'_>) {
        let mut keys: Vec<(PartId, String)> =
            self.texts.iter().map(|(key, text)| (text.part.id.clone(), key.clone())).collect();
        keys.sort();
        for (_, key) in keys {
            self.close_text(&key, None, emit);
        }
        let Finished { reason, tokens, cost, snapshot, patch, error } = end;
        super::spend(session, &tokens, cost);
        self.message.finish = Some(reason);
        self.message.cost += cost;
        self.message.tokens = tokens.clone();
        let body = StepFinishPart { reason, snapshot, cost, tokens, extra: Extra::new() };
        emit.part(emit.new_part(&self.message.id, PartBody::StepFinish(body)));
        emit.assistant(&self.message);
        if let Some(patch) = patch {
            emit.part(emit.new_part(&self.message.id, PartBody::Patch(patch)));
        }
        emit.session(session);
        if error.is_some() {
            self.message.error = error;
        }
        // Tools that the runner left open are closed with the message.
        let tools = std::mem::take(&mut self.tools).into_values().collect();
        let info = Message::Assistant(Box::new(self.message.clone()));
        super::close(vec![MessageWithParts::new(info, tools)], None, emit);
    }
}
