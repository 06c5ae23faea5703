//! Assembles the text of one answer from deltas and snapshots.
//!
//! An answer is the text of every step that answers a prompt, in the order of messages and parts: without the
//! user's own text (which also comes as events), without reasoning, and without text that the server added for the
//! model. Snapshots are authoritative; deltas fill the time between them.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    EventBody, Message, MessageError, MessageId, MessageWithParts, Millis, Part, PartBody, PartId, SessionId,
    message::Finish,
};

/// One answer as it grows.
#[derive(Debug, Clone)]
pub struct Answer {
    session: SessionId,
    /// The prompt and later user messages: a server may answer several prompts at once, and may continue a turn
    /// with messages that no user wrote.
    prompts: BTreeSet<MessageId>,
    /// The steps in order.
    steps: BTreeMap<(Millis, MessageId), Step>,
}

#[derive(Debug, Clone, Default)]
struct Step {
    words: BTreeMap<PartId, String>,
    error: Option<MessageError>,
    finish: Option<Finish>,
    /// The output of a compaction is for the model only.
    is_summary: bool,
}

impl Answer {
    /// An empty answer to a prompt of a session.
    pub fn new(session: SessionId, prompt: MessageId) -> Self {
        Self { session, prompts: BTreeSet::from([prompt]), steps: BTreeMap::new() }
    }

    /// The text so far.
    pub fn text(&self) -> String {
        let steps = self.steps.values().filter(|step| !step.is_summary);
        let words = steps.flat_map(|step| step.words.values()).map(|words| words.trim());
        words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Number of steps so far.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// The error of the last step, if it has one.
    pub fn error(&self) -> Option<&MessageError> {
        self.steps.last_key_value().and_then(|(_, step)| step.error.as_ref())
    }

    /// True if the model's output limit cut the answer off.
    pub fn is_cut_off(&self) -> bool {
        let last = self.steps.last_key_value().map(|(_, step)| step);
        last.is_some_and(|step| {
            step.finish == Some(Finish::Length)
                || matches!(step.error, Some(MessageError::OutputLength { .. }))
        })
    }

    /// True if a message is a step of this answer.
    pub fn has(&self, message: &MessageId) -> bool {
        self.steps.keys().any(|(_, step)| step == message)
    }

    /// Applies an event. Returns true if the text changed.
    pub fn apply(&mut self, event: &EventBody) -> bool {
        if event.session_id() != Some(&self.session) {
            return false;
        }
        match event {
            EventBody::MessageUpdated(it) => {
                self.message(&it.info);
                false
            }
            EventBody::MessageRemoved(it) => {
                let before = self.steps.len();
                self.steps.retain(|(_, id), _| *id != it.message_id);
                self.steps.len() != before
            }
            EventBody::PartUpdated(it) => self.part(&it.part),
            EventBody::PartRemoved(it) => {
                self.step(&it.message_id).is_some_and(|step| step.words.remove(&it.part_id).is_some())
            }
            EventBody::PartDelta(it) if it.field == "text" => {
                // An unknown part is reasoning, belongs to a prompt, or its snapshot has not arrived yet.
                let words = self.step(&it.message_id).and_then(|step| step.words.get_mut(&it.part_id));
                words.is_some_and(|words| {
                    words.push_str(&it.delta);
                    !it.delta.is_empty()
                })
            }
            _ => false,
        }
    }

    /// Applies messages that were read from the server.
    pub fn read(&mut self, messages: &[MessageWithParts]) {
        for message in messages {
            self.message(&message.info);
            for part in &message.parts {
                self.part(part);
            }
        }
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::User(user) => {
                let first = self.prompts.first().is_some_and(|first| user.id >= *first);
                let continued = user.continues().is_some_and(|prompt| self.prompts.contains(&prompt));
                if first || continued {
                    self.prompts.insert(user.id.clone());
                }
            }
            Message::Assistant(step) if self.prompts.contains(&step.parent_id) => {
                let entry = self.steps.entry((step.time.created, step.id.clone())).or_default();
                entry.error.clone_from(&step.error);
                entry.finish = step.finish;
                entry.is_summary = step.summary == Some(true);
            }
            Message::Assistant(_) => {}
        }
    }

    fn part(&mut self, part: &Part) -> bool {
        let PartBody::Text(text) = &part.body else { return false };
        let is_hidden = text.synthetic == Some(true) || text.ignored == Some(true);
        let Some(step) = self.step(&part.message_id).filter(|_| !is_hidden) else { return false };
        let before = step.words.insert(part.id.clone(), text.text.clone());
        before.unwrap_or_default() != text.text
    }

    fn step(&mut self, message: &MessageId) -> Option<&mut Step> {
        self.steps.iter_mut().find(|((_, id), _)| id == message).map(|(_, step)| step)
    }
}
