//! The lifecycle checker: reads the events of any OpenCode-compatible server and finds where they would mislead a
//! client that trusts them.
//!
//! It is pure: events in, findings out, no clock and no network. `baton check` feeds it recordings and live
//! streams, and the tests feed it Baton's own.
//!
//! The rules:
//!
//! - a turn is busy (or retry) until one idle pair, `session.status` idle right before `session.idle`;
//! - at that moment everything the turn opened is closed: messages, parts, requests, children;
//! - events of a turn are sent within the turn. Only the next prompt (a new user message and its parts) comes
//!   before its busy, and a session's own record (`session.updated`, `session.diff`) may come at any time;
//! - deltas are for known, open parts, and messages of earlier turns do not change.
//!
//! Busy is a level, not an edge: repeated busy events count as one. A checker that joins in the middle gives a
//! session the benefit of the doubt until it has seen it created or idle.

mod finding;
mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use protocol::{Event, EventBody, Millis, SessionId};
use serde_json::Value;

pub use self::finding::{Finding, Kind, Report, SessionSummary, Severity};
use self::session::{Note, Session};

/// The way in which a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server has nothing more to send: a session that is still busy stays busy forever.
    Complete,
    /// The observation stopped; more events may have followed.
    Cut,
}

/// Checks one stream of events.
#[derive(Debug, Default)]
pub struct Checker {
    position: usize,
    time: Option<Millis>,
    sessions: BTreeMap<SessionId, Session>,
    findings: Vec<Finding>,
}

impl Checker {
    /// A checker that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks the next event of the stream. Returns the new findings, for live use.
    pub fn observe(&mut self, time: Option<Millis>, event: &Event) -> &[Finding] {
        self.position += 1;
        self.time = time;
        let known = self.findings.len();
        if let Some(id) = event.body.session_id() {
            let children = self.children_at_work(id, &event.body);
            let parent_turn = self.parent_turn(&event.body);
            let session = self.sessions.entry(id.clone()).or_default();
            let notes = session.observe(&event.body, parent_turn, &children);
            self.add(id, notes);
        } else if let EventBody::Other { kind, properties } = &event.body
            && EventBody::KINDS.contains(&kind.as_str())
            && let Some(Ok(id)) = properties.get("sessionID").and_then(Value::as_str).map(str::parse)
        {
            self.add(&id, vec![Note::not_understood(kind)]);
        }
        self.findings.get(known..).unwrap_or_default()
    }

    /// Ends the check.
    pub fn finish(mut self, end: End) -> Report {
        let ids: Vec<_> = self.sessions.keys().cloned().collect();
        for id in ids {
            let notes = self.sessions.get(&id).map(|session| session.finish(end)).unwrap_or_default();
            self.add(&id, notes);
        }
        let sessions = self.sessions.into_iter().map(|(id, session)| (id, session.summary()));
        Report { events: self.position, findings: self.findings, sessions: sessions.collect() }
    }

    fn add(&mut self, session: &SessionId, notes: Vec<Note>) {
        let (position, time) = (self.position, self.time);
        self.findings.extend(notes.into_iter().map(|Note { kind, severity, sentence }| Finding {
            kind,
            severity,
            session: session.clone(),
            position,
            time,
            sentence,
        }));
    }

    /// At a parent's idle: children of its turn that are still busy.
    fn children_at_work(&self, parent: &SessionId, body: &EventBody) -> Vec<SessionId> {
        let EventBody::SessionStatus(change) = body else { return Vec::new() };
        let Some(turn) = self.sessions.get(parent).map(Session::turn) else { return Vec::new() };
        if !change.status.is_idle() {
            return Vec::new();
        }
        let children = self.sessions.iter().filter(|(_, child)| child.works_for(parent, turn));
        children.map(|(id, _)| id.clone()).collect()
    }

    /// At a child's creation: the turn of its parent.
    fn parent_turn(&self, body: &EventBody) -> Option<usize> {
        let EventBody::SessionCreated(created) = body else { return None };
        self.sessions.get(created.info.parent_id.as_ref()?).map(Session::turn)
    }
}

/// Counts the complete idle pairs of each root session in a stream.
pub fn idle_pairs<'a>(events: impl IntoIterator<Item = &'a Event>) -> BTreeMap<SessionId, usize> {
    let mut checker = Checker::new();
    for event in events {
        checker.observe(None, event);
    }
    let report = checker.finish(End::Cut);
    report.idle_pairs().into_iter().map(|(id, count)| (id.clone(), count)).collect()
}
