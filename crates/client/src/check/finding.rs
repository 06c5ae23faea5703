//! What a check has to say.

use std::{collections::BTreeMap, fmt};

use protocol::{Millis, SessionId};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Untidy, but a client that follows the status is not misled.
    Warning,
    /// A client that trusts the stream does the wrong thing.
    Violation,
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Warning => "warning",
            Self::Violation => "violation",
        })
    }
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Idle again, with nothing busy in between.
    IdleTwice,
    /// Idle, but never busy.
    IdleWithoutBusy,
    /// One half of an idle pair without the other.
    HalfIdle,
    /// Idle while a message or part of the turn was still open.
    IdleTooEarly,
    /// Idle while a child started by the turn was still at work.
    IdleBeforeChild,
    /// Idle while a permission or question was still waiting for its answer.
    RequestLeftOpen,
    /// Something that belongs to a turn, outside of any.
    OutsideTurn,
    /// Something harmless that belongs to a turn, after it was over.
    LateEvent,
    /// Busy until the end.
    BusyNeverReleased,
    /// A tool call without an outcome.
    ToolNeverClosed,
    /// Text or reasoning without an end.
    TextNeverClosed,
    /// Text for a part that is not there or is closed.
    StrayDelta,
    /// An assistant message that changed in a later turn.
    ClosedMessageChanged,
    /// A known type of event in a shape that is not, which clients cannot act on.
    NotUnderstood,
}

impl Kind {
    /// A short name for tables and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::IdleTwice => "idle-twice",
            Self::IdleWithoutBusy => "idle-without-busy",
            Self::HalfIdle => "half-idle",
            Self::IdleTooEarly => "idle-too-early",
            Self::IdleBeforeChild => "idle-before-child",
            Self::RequestLeftOpen => "request-left-open",
            Self::OutsideTurn => "outside-turn",
            Self::LateEvent => "late-event",
            Self::BusyNeverReleased => "busy-never-released",
            Self::ToolNeverClosed => "tool-never-closed",
            Self::TextNeverClosed => "text-never-closed",
            Self::StrayDelta => "stray-delta",
            Self::ClosedMessageChanged => "closed-message-changed",
            Self::NotUnderstood => "not-understood",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// How bad.
    pub severity: Severity,
    /// In which session.
    pub session: SessionId,
    /// At which event, counted from 1.
    pub position: usize,
    /// When, if the recording says.
    pub time: Option<Millis>,
    /// For people: continues "the session …".
    pub sentence: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, severity, session, position, sentence, .. } = self;
        write!(out, "{severity} {kind} at event {position}: {session} {sentence}")
    }
}

/// What happened to one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its parent, for a child.
    pub parent: Option<SessionId>,
    /// How many turns began.
    pub turns: usize,
    /// How many complete idle pairs there were.
    pub idle_pairs: usize,
}

/// The outcome of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many events there were.
    pub events: usize,
    /// Everything that is wrong, in the order of the stream.
    pub findings: Vec<Finding>,
    /// Every session that had events.
    pub sessions: BTreeMap<SessionId, SessionSummary>,
}

impl Report {
    /// The findings that count.
    pub fn violations(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Violation)
    }

    /// Whether nothing was violated; warnings are allowed.
    pub fn passed(&self) -> bool {
        self.violations().next().is_none()
    }

    /// Complete idle pairs of each session that is nobody's child.
    pub fn idle_pairs(&self) -> BTreeMap<&SessionId, usize> {
        let roots = self.sessions.iter().filter(|(_, summary)| summary.parent.is_none());
        roots.map(|(id, summary)| (id, summary.idle_pairs)).collect()
    }
}
