//! The net effect of a group of commits on the tables.
//!
//! A group is written by a fixed number of statements, whatever the number of its events: first everything that the
//! group removes, then everything that it leaves behind. A row that the group writes twice is written once.

use std::collections::{BTreeMap, BTreeSet};

use engine::ports::Fence;
use protocol::{MessageId, Millis};

use crate::change::{ApprovalRow, Change, Entry, PartRow, Prepared, SessionRow};

/// Rows that a message or a session has: its session and the ids below it.
type Two<'a> = (&'a str, &'a str);
type Three<'a> = (&'a str, &'a str, &'a str);

/// The changes of a group.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    /// The workspaces of the group with the epochs that its writers have for them.
    pub(super) fences: BTreeSet<(&'a str, u64)>,
    pub(super) heads: BTreeMap<&'a str, Head>,
    pub(super) checkpoints: BTreeMap<Three<'a>, &'a str>,
    pub(super) sessions_removed: BTreeSet<&'a str>,
    pub(super) messages_removed: BTreeSet<Two<'a>>,
    pub(super) parts_removed: BTreeSet<Three<'a>>,
    pub(super) requests_removed: BTreeSet<Two<'a>>,
    /// Sessions with their workspaces.
    pub(super) sessions: BTreeMap<&'a str, (&'a str, &'a SessionRow)>,
    pub(super) messages: BTreeMap<Two<'a>, MessageRow<'a>>,
    pub(super) parts: BTreeMap<Three<'a>, (bool, &'a str)>,
    /// Changes of the searched texts, in order.
    pub(super) texts: Vec<TextChange<'a>>,
    pub(super) seen: BTreeMap<&'a str, u64>,
    pub(super) todos: BTreeMap<&'a str, &'a str>,
    /// `None` is idle.
    pub(super) statuses: BTreeMap<&'a str, Option<&'a str>>,
    pub(super) requests: BTreeMap<Two<'a>, RequestRow<'a>>,
    /// Approvals with their workspaces, in order.
    pub(super) approvals: Vec<(&'a str, &'a ApprovalRow)>,
    /// Changes of the queue, in order.
    pub(super) prompts: Vec<PromptChange<'a>>,
    pub(super) events: Vec<EventRow<'a>>,
}

/// The numbers of a session's events.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "the column of the session has this name")]
pub(super) struct Head {
    /// Number of events that the session must have before the group.
    pub(super) expected: u64,
    /// True if the group creates the session.
    pub(super) creates: bool,
    /// Number of events after the group.
    pub(super) head: u64,
    /// True if the session exists after the group.
    pub(super) alive: bool,
    /// True if the group has deleted the session.
    deleted: bool,
}

#[derive(Debug)]
pub(super) struct MessageRow<'a> {
    pub(super) created: Millis,
    pub(super) answers: Option<&'a str>,
    pub(super) open: bool,
    pub(super) body: &'a str,
}

#[derive(Debug)]
pub(super) struct RequestRow<'a> {
    /// The order in which the group asked.
    pub(super) nth: usize,
    pub(super) kind: &'a str,
    pub(super) body: &'a str,
}

/// A change of the texts that a search looks through.
#[derive(Debug)]
pub(super) struct TextChange<'a> {
    pub(super) session: &'a str,
    pub(super) message: &'a str,
    /// `None` removes all texts of the message.
    pub(super) part: Option<&'a str>,
    /// `None` removes the text.
    pub(super) text: Option<&'a str>,
}

/// A change of a session's queue.
#[derive(Debug)]
pub(super) struct PromptChange<'a> {
    pub(super) session: &'a str,
    /// Number of the event.
    pub(super) number: u64,
    pub(super) kind: PromptKind<'a>,
}

#[derive(Debug)]
pub(super) enum PromptKind<'a> {
    /// The message and its delivery.
    Queued(&'a str, &'a str),
    Started(&'a str),
    Ended(&'a str),
    Withdrawn(&'a str),
    /// The new order of waiting prompts, with their deliveries.
    Rearranged(&'a [(MessageId, String)]),
}

/// An event and its place in the log.
#[derive(Debug)]
pub(super) struct EventRow<'a> {
    pub(super) key: Key<'a>,
    pub(super) workspace: &'a str,
    pub(super) directory: &'a str,
    pub(super) project: &'a str,
    pub(super) id: &'a str,
    pub(super) body: &'a str,
}

/// The key of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key<'a> {
    /// The session and the number of the event in it.
    Session(&'a str, u64),
    /// The event outlives its session: its deletion, and what followed it.
    Orphan,
    /// The group has deleted the event with its session; only its position remains.
    Deleted,
}

impl<'a> Batch<'a> {
    /// Returns true if a commit may join the group: it continues what the group has written so far. Others begin the
    /// next group, where the database decides.
    pub(super) fn admits(&self, commit: &Prepared) -> bool {
        let known = self.heads.get(commit.session.as_str());
        self.fits(commit.workspace.as_str(), commit.epoch)
            && known.is_none_or(|known| known.alive && !known.deleted && known.head == commit.expected)
    }

    /// Returns true if the group's writers have this epoch for the workspace, or none yet.
    pub(super) fn fits(&self, workspace: &str, epoch: u64) -> bool {
        self.fences.iter().all(|known| known.0 != workspace || known.1 == epoch)
    }

    /// Adds a commit, which [`Batch::admits`] has admitted.
    pub(super) fn add(&mut self, commit: &'a Prepared) {
        let (session, workspace) = (commit.session.as_str(), commit.workspace.as_str());
        self.fences.insert((workspace, commit.epoch));
        let (expected, creates) = (commit.expected, commit.creates());
        let fresh = Head { expected, creates, head: expected, alive: true, deleted: false };
        let known = self.heads.entry(session).or_insert(fresh);
        let (mut head, mut alive, mut deleted) = (known.head, known.alive, known.deleted);
        for entry in &commit.entries {
            // A wrong expectation may be any number; the database refuses it.
            head = head.saturating_add(1);
            match &entry.change {
                Change::SessionSaved { row, .. } => {
                    self.sessions.insert(session, (workspace, row));
                    alive = true;
                }
                Change::SessionDeleted => {
                    self.remove_session(session);
                    (alive, deleted) = (false, true);
                }
                // Events after the deletion of their session change nothing.
                change if alive => self.apply(commit, change, head),
                _ => {}
            }
            let key = if alive { Key::Session(session, head) } else { Key::Orphan };
            self.events.push(row(commit, entry, key));
        }
        if let Some(known) = self.heads.get_mut(session) {
            (known.head, known.alive, known.deleted) = (head, alive, deleted);
        }
    }

    /// Saves the text of parts, unless the group has closed or removed them.
    pub(super) fn checkpoint(&mut self, fence: &'a Fence, parts: &'a [PartRow]) {
        self.fences.insert((fence.workspace.as_str(), fence.epoch));
        for part in parts {
            self.save_text(part);
        }
    }

    fn save_text(&mut self, part: &'a PartRow) {
        let key = (part.session.as_str(), part.message.as_str(), part.id.as_str());
        match self.parts.get_mut(&key) {
            Some((true, body)) => *body = &part.body,
            Some((false, _)) => {}
            None => {
                self.checkpoints.insert(key, &part.body);
            }
        }
    }

    fn remove_session(&mut self, session: &'a str) {
        self.sessions_removed.insert(session);
        self.sessions.remove(session);
        self.todos.remove(session);
        self.seen.remove(session);
        self.texts.retain(|change| change.session != session);
        self.statuses.remove(session);
        self.messages.retain(|key, _| key.0 != session);
        self.parts.retain(|key, _| key.0 != session);
        self.requests.retain(|key, _| key.0 != session);
        self.prompts.retain(|change| change.session != session);
        for event in &mut self.events {
            if matches!(event.key, Key::Session(known, _) if known == session) {
                event.key = Key::Deleted;
            }
        }
    }

    /// Changes one table of an existing session. `number` is the number of the event in its session.
    fn apply(&mut self, commit: &'a Prepared, change: &'a Change, number: u64) {
        let session = commit.session.as_str();
        match change {
            Change::None | Change::SessionSaved { .. } | Change::SessionDeleted => {}
            Change::MessageSaved { id, created, answers, open, body } => {
                let answers = answers.as_ref().map(MessageId::as_str);
                let row = MessageRow { created: *created, answers, open: *open, body };
                self.messages.insert((session, id.as_str()), row);
            }
            Change::MessageRemoved(id) => {
                let message = (session, id.as_str());
                self.messages.remove(&message);
                self.parts.retain(|key, _| (key.0, key.1) != message);
                self.messages_removed.insert(message);
                self.texts.push(TextChange { session, message: id.as_str(), part: None, text: None });
            }
            Change::PartSaved(part) => {
                let key = (session, part.message.as_str(), part.id.as_str());
                self.parts.insert(key, (part.open, &part.body));
                let (message, text) = (part.message.as_str(), part.searchable.as_deref());
                self.texts.push(TextChange { session, message, part: Some(part.id.as_str()), text });
            }
            Change::PartRemoved(message, id) => {
                let part = (session, message.as_str(), id.as_str());
                self.parts.remove(&part);
                self.parts_removed.insert(part);
                let (message, id) = (message.as_str(), id.as_str());
                self.texts.push(TextChange { session, message, part: Some(id), text: None });
            }
            Change::Seen(cursor) => drop(self.seen.insert(session, *cursor)),
            Change::Todos(body) => drop(self.todos.insert(session, body)),
            Change::Busy(body) => drop(self.statuses.insert(session, Some(body))),
            Change::Idle => drop(self.statuses.insert(session, None)),
            Change::Asked { id, kind, body } => {
                let nth = self.events.len();
                let row = self.requests.entry((session, id)).or_insert(RequestRow { nth, kind, body });
                (row.kind, row.body) = (kind, body);
            }
            Change::Answered(id) => self.answer(session, id),
            Change::Permitted { id, saved } => {
                self.answer(session, id);
                self.approvals.extend(saved.iter().map(|row| (commit.workspace.as_str(), row)));
            }
            Change::PromptQueued(message, delivery) => {
                self.prompt(session, number, PromptKind::Queued(message.as_str(), delivery));
            }
            Change::PromptStarted(message) => {
                self.prompt(session, number, PromptKind::Started(message.as_str()));
            }
            Change::PromptEnded(message) => {
                self.prompt(session, number, PromptKind::Ended(message.as_str()));
            }
            Change::PromptWithdrawn(message) => {
                self.prompt(session, number, PromptKind::Withdrawn(message.as_str()));
            }
            Change::Queue(order) => self.prompt(session, number, PromptKind::Rearranged(order)),
        }
    }

    fn answer(&mut self, session: &'a str, request: &'a str) {
        self.requests.remove(&(session, request));
        self.requests_removed.insert((session, request));
    }

    fn prompt(&mut self, session: &'a str, number: u64, kind: PromptKind<'a>) {
        self.prompts.push(PromptChange { session, number, kind });
    }
}

fn row<'a>(commit: &'a Prepared, entry: &'a Entry, key: Key<'a>) -> EventRow<'a> {
    // The store refuses events that are not text before they are queued.
    let body = std::str::from_utf8(&entry.json).unwrap_or_default();
    EventRow {
        key,
        workspace: commit.workspace.as_str(),
        directory: &commit.directory,
        project: &commit.project,
        id: entry.event.id.as_str(),
        body,
    }
}
