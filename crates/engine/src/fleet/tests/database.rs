//! The database of the model: the record, the log, and the sessions that follow from the log.
//!
//! One call is one transaction. A transaction that is split in two (what it reads before it has the log lock, and the
//! rest) exists only for the planted mistakes that depend on it.

use super::mistakes::Mistake;
use crate::fleet::{
    Fence, Identity, Record, Refusal, Ruling, Transaction,
    order::Position,
    record::{Kind, Ownership, State},
};

pub(super) const NODES: u8 = 3;
/// A directory of node 0.
pub(super) const OWN: u8 = 0;
/// A directory on a volume.
pub(super) const SHARED: u8 = 1;

pub(super) type TestTransaction = Transaction<u8, u8>;

/// A prompt of a client. The attempt is part of the id; a correct client never changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Prompt {
    pub(super) number: u8,
    pub(super) attempt: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum What {
    Accept(Prompt),
    Busy(Prompt),
    /// A tool call is shown as running, which admits it.
    Admit,
    Idle,
    /// The idle of a turn that a takeover or a restart has ended.
    Interrupt,
    /// Saves the text of an open part: no event, no position.
    Checkpoint,
}

impl What {
    pub(super) fn is_idle(self) -> bool {
        matches!(self, Self::Idle | Self::Interrupt)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Commit {
    pub(super) id: u16,
    pub(super) fence: Fence<u8, u8>,
    /// The session's newest event, as its actor knows it.
    pub(super) expected: u8,
    pub(super) what: What,
}

impl Commit {
    pub(super) fn session(&self) -> u8 {
        self.fence.holding
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Event {
    pub(super) position: Position,
    pub(super) session: u8,
    pub(super) seq: u8,
    pub(super) epoch: u64,
    pub(super) by: Identity<u8>,
    pub(super) id: u16,
    pub(super) what: What,
}

/// The state of a session: the fold of its events.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Session {
    pub(super) head: u8,
    pub(super) epoch: u64,
    pub(super) running: Option<Prompt>,
    pub(super) waiting: Vec<Prompt>,
    pub(super) known: Vec<Prompt>,
    pub(super) ended: Vec<Prompt>,
}

impl Session {
    pub(super) fn fold(&mut self, event: &Event) {
        (self.head, self.epoch) = (event.seq, event.epoch);
        match event.what {
            What::Accept(prompt) => {
                self.known.push(prompt);
                self.waiting.push(prompt);
            }
            What::Busy(prompt) => {
                self.waiting.retain(|waiting| *waiting != prompt);
                self.running = Some(prompt);
            }
            What::Idle | What::Interrupt => self.ended.extend(self.running.take()),
            What::Admit | What::Checkpoint => {}
        }
    }

    pub(super) fn is_unfinished(&self) -> bool {
        self.running.is_some() || !self.waiting.is_empty()
    }
}

/// The answer to a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Written {
    Stored(Position),
    /// Nothing had to be written: the prompt is known, or it was a checkpoint.
    Nothing,
    Fenced(Refusal),
    /// The session has other events than its actor knows.
    Conflict,
}

/// Results of the part of a transaction that a planted mistake runs before it has the log lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Begun {
    fence: Option<Result<(), Refusal>>,
    number: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Database {
    pub(super) record: Record<u8, u8>,
    pub(super) sessions: [Session; 2],
    pub(super) log: Vec<Event>,
    /// The last position of each generation that has ended.
    pub(super) ends: Vec<Position>,
    /// The timeline of the server that runs now.
    pub(super) timeline: u64,
    /// A sequence object, which only a planted mistake uses.
    sequence: u64,
}

impl Database {
    pub(super) fn new() -> Self {
        let row = |kind| Ownership { kind, owner: None, epoch: 0, custody: false };
        let holdings = [(OWN, row(Kind::Own(0))), (SHARED, row(Kind::Shared))];
        Self {
            record: Record::new(holdings.into()),
            sessions: <[Session; 2]>::default(),
            log: Vec::new(),
            ends: Vec::new(),
            timeline: 0,
            sequence: 0,
        }
    }

    pub(super) fn session(&self, session: u8) -> &Session {
        &self.sessions[usize::from(session)]
    }

    /// Begins a generation if the server has changed. Every connection does this first.
    pub(super) fn greet(&mut self, mistake: Option<Mistake>) {
        if mistake == Some(Mistake::NoGeneration) || self.timeline == self.record.timeline {
            return;
        }
        let before = self.record.clone();
        self.record.greet(self.timeline);
        self.ends.push(self.last());
        if mistake == Some(Mistake::FailoverKeepsFences) {
            (self.record.members, self.record.holdings) = (before.members, before.holdings);
        }
    }

    pub(super) fn last(&self) -> Position {
        self.log.last().map_or(Position::default(), |event| event.position)
    }

    /// The position after the newest one. It follows from the rows, under the log lock.
    fn next(&self) -> Position {
        let last = self.last();
        let generation = self.record.generation;
        if last.generation() == generation { last.next() } else { Position::new(generation, 1) }
    }

    /// Runs a transaction on the record.
    pub(super) fn apply(&mut self, transaction: &TestTransaction, mistake: Option<Mistake>) -> Ruling {
        self.greet(mistake);
        let before = self.record.clone();
        let transaction = mistake.map_or(*transaction, |mistake| mistake.loosen(*transaction, &self.record));
        let answer = self.record.apply(&transaction);
        mistake.map_or(answer, |mistake| mistake.damage(&transaction, answer, &before, &mut self.record))
    }

    /// The part of a commit before the log lock, for mistakes that do here what belongs under the lock.
    pub(super) fn begin(&mut self, commit: &Commit, mistake: Option<Mistake>) -> Begun {
        self.greet(mistake);
        let mut begun = Begun::default();
        match mistake {
            Some(Mistake::FenceOutsideLock) => begun.fence = Some(self.record.check(&commit.fence)),
            Some(Mistake::NumbersFromSequence) => {
                self.sequence = self.sequence.max(self.last().number()) + 1;
                begun.number = Some(self.sequence);
            }
            _ => {}
        }
        begun
    }

    /// Runs a commit under the log lock.
    pub(super) fn write(
        &mut self,
        commit: &Commit,
        begun: Option<Begun>,
        mistake: Option<Mistake>,
    ) -> Written {
        self.greet(mistake);
        let begun = begun.unwrap_or_default();
        let checked = begun.fence.unwrap_or_else(|| self.record.check(&commit.fence));
        if let Err(refusal) = mistake.map_or(checked, |mistake| mistake.ignore(checked, commit)) {
            return Written::Fenced(refusal);
        }
        let session = self.session(commit.session());
        match commit.what {
            What::Checkpoint => return Written::Nothing,
            What::Accept(prompt) if session.known.contains(&prompt) => return Written::Nothing,
            _ if session.head != commit.expected => return Written::Conflict,
            _ => {}
        }
        let position = begun.number.map_or_else(|| self.next(), |number| Position::new(0, number));
        let event = Event {
            position,
            session: commit.session(),
            seq: commit.expected + 1,
            epoch: commit.fence.epoch,
            by: commit.fence.by,
            id: commit.id,
            what: commit.what,
        };
        self.sessions[usize::from(event.session)].fold(&event);
        self.log.push(event);
        Written::Stored(position)
    }

    /// Tells if the record holds a commit: its event is there, or there was nothing to write.
    pub(super) fn holds(&self, commit: &Commit) -> bool {
        let is_known = match commit.what {
            What::Accept(prompt) => self.session(commit.session()).known.contains(&prompt),
            _ => false,
        };
        is_known || self.log.iter().any(|event| event.id == commit.id)
    }

    /// Rank of a node among those that may claim shared work.
    pub(super) fn rank(&self, node: u8) -> Option<u32> {
        let up = |(_, member): &(&u8, &crate::fleet::record::Member)| member.state == State::Up;
        let rank = self.record.members.iter().filter(up).position(|(other, _)| *other == node);
        rank.and_then(|rank| u32::try_from(rank).ok())
    }
}
