//! The checker's state of one session.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use protocol::{
    EndReason, EventBody, Message, MessageId, Part, PartBody, PartId, SessionId, ToolState, event::PartDelta,
};

use super::{
    End,
    finding::{Kind, SessionSummary, Severity},
};

/// A finding without its position.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) kind: Kind,
    pub(super) severity: Severity,
    pub(super) sentence: String,
}

impl Note {
    pub(super) fn not_understood(event: &str) -> Self {
        Self::warning(Kind::NotUnderstood, format!("sent {event} in a shape that clients do not understand"))
    }

    fn violation(kind: Kind, sentence: impl Into<String>) -> Self {
        Self { kind, severity: Severity::Violation, sentence: sentence.into() }
    }

    fn warning(kind: Kind, sentence: impl Into<String>) -> Self {
        Self { kind, severity: Severity::Warning, sentence: sentence.into() }
    }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Joined in the middle: nothing is known yet.
    #[default]
    Unknown,
    Busy,
    Idle,
    Deleted,
}

#[derive(Debug, Clone, Copy)]
struct KnownMessage {
    is_user: bool,
    /// The turn it belongs to. A prompt that waits for its busy belongs to the next one.
    turn: usize,
    completed: bool,
}

#[derive(Debug)]
struct KnownPart {
    message: MessageId,
    is_open: bool,
    /// The tool's name; `None` for text.
    tool: Option<String>,
}

/// The known state of a session.
#[derive(Debug, Default)]
pub(super) struct Session {
    parent: Option<SessionId>,
    /// The parent's turn that started it.
    parent_turn: Option<usize>,
    phase: Phase,
    /// True if its creation or an idle was seen, so that everything that is open is known.
    is_synced: bool,
    turns: usize,
    idle_pairs: usize,
    /// `session.status` idle was seen, and `session.idle` must follow.
    is_half_idle: bool,
    messages: HashMap<MessageId, KnownMessage>,
    /// Parts of the running turn; of earlier turns only those still open.
    parts: BTreeMap<PartId, KnownPart>,
    /// Open permissions and questions.
    requests: BTreeSet<String>,
    /// Requests of turns that the server could not finish: they may stay open, and be answered outside of a turn.
    orphans: BTreeSet<String>,
}

impl Session {
    pub(super) fn turn(&self) -> usize {
        self.turns
    }

    /// True if this turn of this session started it and it is still busy.
    pub(super) fn works_for(&self, parent: &SessionId, turn: usize) -> bool {
        self.phase == Phase::Busy && self.parent.as_ref() == Some(parent) && self.parent_turn == Some(turn)
    }

    pub(super) fn summary(self) -> SessionSummary {
        SessionSummary { parent: self.parent, turns: self.turns, idle_pairs: self.idle_pairs }
    }

    /// Checks an event. `children` still work for the running turn; `parent_turn` is the turn that a new child
    /// belongs to.
    pub(super) fn observe(
        &mut self,
        body: &EventBody,
        parent_turn: Option<usize>,
        children: &[SessionId],
    ) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.is_half_idle && !matches!(body, EventBody::SessionIdle(_)) {
            self.is_half_idle = false;
            let sentence = format!("sent {} where `session.idle` should complete the idle pair", body.kind());
            notes.push(Note::violation(Kind::HalfIdle, sentence));
        }
        match body {
            EventBody::SessionStatus(change) if change.status.is_idle() => {
                if change.status.reason() == Some(EndReason::Interrupted) {
                    self.orphans.append(&mut self.requests);
                }
                notes.extend(self.idle(children));
            }
            EventBody::SessionStatus(_) => self.busy(),
            EventBody::SessionCreated(created) => {
                self.parent.clone_from(&created.info.parent_id);
                self.parent_turn = parent_turn;
                self.is_synced = true;
                if self.phase == Phase::Unknown {
                    self.phase = Phase::Idle;
                }
            }
            _ => notes.extend(self.other(body)),
        }
        notes
    }

    fn other(&mut self, body: &EventBody) -> Option<Note> {
        match body {
            EventBody::SessionIdle(_) => self.idle_twin(),
            EventBody::SessionDeleted(_) => self.deleted(),
            EventBody::MessageUpdated(it) => self.message(&it.info),
            EventBody::PartUpdated(it) => self.part(&it.part),
            EventBody::PartDelta(it) => self.delta(it),
            EventBody::PermissionAsked(it) => self.asked(it.id.as_str(), body),
            EventBody::QuestionAsked(it) => self.asked(it.id.as_str(), body),
            EventBody::PermissionReplied(it) => self.answered(it.request_id.as_str(), body),
            EventBody::QuestionReplied(it) => self.answered(it.request_id.as_str(), body),
            EventBody::QuestionRejected(it) => self.answered(it.request_id.as_str(), body),
            EventBody::SessionError(_) | EventBody::TodoUpdated(_) | EventBody::SessionCompacted(_) => {
                self.work(body.kind())
            }
            // A user removes messages (undo, delete), or the server withdraws an attempt.
            EventBody::MessageRemoved(it) => {
                self.messages.remove(&it.message_id);
                self.parts.retain(|_, part| part.message != it.message_id);
                None
            }
            EventBody::PartRemoved(it) => {
                self.parts.remove(&it.part_id);
                None
            }
            _ => None,
        }
    }

    /// Findings that are only certain at the end of the stream.
    pub(super) fn finish(&self, end: End) -> Vec<Note> {
        let mut notes = Vec::new();
        let is_over = self.phase == Phase::Idle || end == End::Complete;
        if self.phase == Phase::Deleted || !is_over {
            return notes;
        }
        if self.is_half_idle {
            notes.push(Note::violation(
                Kind::HalfIdle,
                "never sent the `session.idle` that completes the idle pair",
            ));
        }
        if self.phase == Phase::Busy {
            notes.push(Note::violation(Kind::BusyNeverReleased, "is busy at the end and never went idle"));
        }
        for (id, part) in self.parts.iter().filter(|(_, part)| part.is_open) {
            notes.push(match &part.tool {
                Some(tool) => {
                    Note::violation(Kind::ToolNeverClosed, format!("never closed its tool {tool} ({id})"))
                }
                None => Note::violation(Kind::TextNeverClosed, format!("never closed its text ({id})")),
            });
        }
        notes
    }

    fn busy(&mut self) {
        if self.phase == Phase::Busy {
            return;
        }
        self.phase = Phase::Busy;
        self.turns += 1;
        self.parts.retain(|_, part| part.is_open);
    }

    fn idle(&mut self, children: &[SessionId]) -> Vec<Note> {
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        let was_synced = std::mem::replace(&mut self.is_synced, true);
        self.is_half_idle = true;
        match phase {
            Phase::Busy => self.turn_over(children),
            Phase::Idle if self.turns > 0 => {
                vec![Note::violation(Kind::IdleTwice, "went idle again without being busy in between")]
            }
            Phase::Unknown if !was_synced => {
                vec![Note::warning(Kind::IdleWithoutBusy, "went idle, and no busy was seen")]
            }
            _ => vec![Note::violation(Kind::IdleWithoutBusy, "went idle without ever having been busy")],
        }
    }

    /// Checks that everything the turn opened is closed.
    fn turn_over(&mut self, children: &[SessionId]) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut open: Vec<String> = Vec::new();
        let of_turn =
            self.messages.iter().filter(|(_, message)| message.turn == self.turns && !message.is_user);
        open.extend(of_turn.filter(|(_, message)| !message.completed).map(|(id, _)| format!("message {id}")));
        open.sort();
        let parts = self.parts.iter().filter(|(_, part)| part.is_open && self.is_of_turn(&part.message));
        open.extend(parts.clone().map(|(id, part)| match &part.tool {
            Some(tool) => format!("tool {tool} ({id})"),
            None => format!("text {id}"),
        }));
        if !open.is_empty() {
            let sentence = format!("went idle while this was open: {}", open.join(", "));
            notes.push(Note::violation(Kind::IdleTooEarly, sentence));
        }
        let tasks = parts.filter(|(_, part)| part.tool.as_deref() == Some("task"));
        let mut at_work: Vec<_> = children.iter().map(|child| format!("child {child}")).collect();
        at_work.extend(tasks.map(|(id, _)| format!("task {id}")));
        if !at_work.is_empty() {
            let sentence = format!("went idle before its children: {}", at_work.join(", "));
            notes.push(Note::violation(Kind::IdleBeforeChild, sentence));
        }
        for request in std::mem::take(&mut self.requests) {
            let sentence = format!("went idle and left {request} waiting for an answer");
            notes.push(Note::violation(Kind::RequestLeftOpen, sentence));
        }
        notes
    }

    fn idle_twin(&mut self) -> Option<Note> {
        if std::mem::take(&mut self.is_half_idle) {
            self.idle_pairs += 1;
            return None;
        }
        Some(Note::violation(
            Kind::HalfIdle,
            "sent `session.idle` without an idle `session.status` right before",
        ))
    }

    fn deleted(&mut self) -> Option<Note> {
        let was_busy = std::mem::replace(&mut self.phase, Phase::Deleted) == Phase::Busy;
        was_busy
            .then(|| Note::violation(Kind::BusyNeverReleased, "was deleted while busy and never went idle"))
    }

    /// Checks an event that only a running turn sends.
    fn work(&mut self, what: &str) -> Option<Note> {
        match self.phase {
            Phase::Busy => None,
            // Joined in the middle of a turn.
            Phase::Unknown => {
                self.busy();
                None
            }
            Phase::Idle if self.turns == 0 => {
                Some(Note::violation(Kind::OutsideTurn, format!("sent {what} before it was busy")))
            }
            Phase::Idle => {
                Some(Note::violation(Kind::OutsideTurn, format!("sent {what} after it went idle")))
            }
            Phase::Deleted => {
                Some(Note::violation(Kind::OutsideTurn, format!("sent {what} after it was deleted")))
            }
        }
    }

    fn message(&mut self, message: &Message) -> Option<Note> {
        let known = self.messages.get(message.id()).copied();
        let id = message.id();
        match message {
            Message::User(_) => {
                let next = self.turns + usize::from(self.phase != Phase::Busy);
                let turn = known.map_or(next, |known| known.turn);
                self.messages.insert(id.clone(), KnownMessage { is_user: true, turn, completed: true });
                self.late(turn)
                    .then(|| Note::warning(Kind::LateEvent, format!("changed prompt {id} after its turn")))
            }
            Message::Assistant(message) => {
                let note = self.work(&format!("message.updated for {id}"));
                let (turn, was_completed) =
                    known.map_or((self.turns, false), |known| (known.turn, known.completed));
                let completed = message.time.completed.is_some();
                self.messages.insert(id.clone(), KnownMessage { is_user: false, turn, completed });
                let is_old = was_completed && turn < self.turns;
                note.or_else(|| is_old.then(|| changed(id)))
            }
        }
    }

    fn part(&mut self, part: &Part) -> Option<Note> {
        let message = self.messages.get(&part.message_id).copied();
        let note = match message {
            Some(message) if message.is_user => self.late(message.turn).then(|| {
                Note::warning(Kind::LateEvent, format!("changed prompt {} after its turn", part.message_id))
            }),
            _ => self.work(&format!("message.part.updated for {}", part.id)).or_else(|| {
                let is_old =
                    message.is_some_and(|it| it.completed && it.turn < self.turns) && !is_pruned(part);
                is_old.then(|| changed(&part.message_id))
            }),
        };
        let tool = match &part.body {
            PartBody::Tool(tool) => Some(tool.tool.clone()),
            _ => None,
        };
        let known = KnownPart { message: part.message_id.clone(), is_open: part.is_open(), tool };
        self.parts.insert(part.id.clone(), known);
        note
    }

    fn delta(&mut self, delta: &PartDelta) -> Option<Note> {
        let id = &delta.part_id;
        self.work(&format!("message.part.delta for {id}")).or_else(|| match self.parts.get(id) {
            Some(part) if part.is_open => None,
            Some(_) => {
                Some(Note::violation(Kind::StrayDelta, format!("sent text for {id}, which is closed")))
            }
            None if !self.is_synced => None,
            None => {
                Some(Note::violation(Kind::StrayDelta, format!("sent text for {id}, which is not known")))
            }
        })
    }

    fn asked(&mut self, request: &str, body: &EventBody) -> Option<Note> {
        if self.orphans.contains(request) {
            return None;
        }
        self.requests.insert(request.to_owned());
        self.work(&format!("{} for {request}", body.kind()))
    }

    fn answered(&mut self, request: &str, body: &EventBody) -> Option<Note> {
        if self.orphans.remove(request) {
            return None;
        }
        self.requests.remove(request);
        self.work(&format!("{} for {request}", body.kind()))
    }

    /// True if an event of this turn comes after the turn's end.
    fn late(&self, turn: usize) -> bool {
        turn < self.turns || (turn == self.turns && self.phase != Phase::Busy && self.turns > 0)
    }

    fn is_of_turn(&self, message: &MessageId) -> bool {
        self.messages.get(message).is_none_or(|message| message.turn == self.turns)
    }
}

fn changed(message: &MessageId) -> Note {
    let sentence = format!("changed {message}, which was completed in an earlier turn");
    Note::violation(Kind::ClosedMessageChanged, sentence)
}

/// A compaction may drop the output of old tools from the model's view, and marks their parts.
fn is_pruned(part: &Part) -> bool {
    let PartBody::Tool(tool) = &part.body else { return false };
    matches!(&tool.state, ToolState::Completed(state) if state.time.compacted.is_some())
}
