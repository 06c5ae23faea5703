//! The findings of a check.

use std::{collections::BTreeMap, fmt};

use protocol::{Millis, SessionId};

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

/// The kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Idle again, without busy in between.
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
    /// An event that belongs to a turn, outside of any.
    OutsideTurn,
    /// A harmless event that belongs to a turn, after its end.
    LateEvent,
    /// Busy until the end of the stream.
    BusyNeverReleased,
    /// A tool call without a result.
    ToolNeverClosed,
    /// Text or reasoning without an end.
    TextNeverClosed,
    /// Text for a part that is unknown or closed.
    StrayDelta,
    /// An assistant message that changed in a later turn.
    ClosedMessageChanged,
    /// A known type of event in an unknown shape, which clients cannot use.
    NotUnderstood,
}

impl Kind {
    /// A short name for tables and scripts.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: Kind,
    pub severity: Severity,
    pub session: SessionId,
    /// Number of the event, counted from 1.
    pub position: usize,
    /// Time of the event, if the recording has it.
    pub time: Option<Millis>,
    /// A text for users that continues "the session …".
    pub sentence: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, severity, session, position, sentence, .. } = self;
        write!(out, "{severity} {kind} at event {position}: {session} {sentence}")
    }
}

/// The counts of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The parent, for a child.
    pub parent: Option<SessionId>,
    /// Number of turns.
    pub turns: usize,
    /// Number of complete idle pairs.
    pub idle_pairs: usize,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of events.
    pub events: usize,
    /// All findings, in the order of the stream.
    pub findings: Vec<Finding>,
    /// All sessions that had events.
    pub sessions: BTreeMap<SessionId, SessionSummary>,
}

impl Report {
    /// The findings that are violations.
    pub fn violations(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Violation)
    }

    /// True if there are no violations; warnings are allowed.
    pub fn passed(&self) -> bool {
        self.violations().next().is_none()
    }

    /// Complete idle pairs of each root session.
    pub fn idle_pairs(&self) -> BTreeMap<&SessionId, usize> {
        let roots = self.sessions.iter().filter(|(_, summary)| summary.parent.is_none());
        roots.map(|(id, summary)| (id, summary.idle_pairs)).collect()
    }
}
