//! One server of the model: the real protocol, and the smallest session actors that can break a rule.

use std::time::Duration;

use super::{
    database::{Begun, Commit, Session, TestTransaction, What},
    monitor::Origin,
};
use crate::fleet::{
    Fence, Node, Ruling, Terms, Writer,
    order::{Gate, Tail},
};

pub(super) const TERMS: Terms = Terms { length: Duration::from_secs(6) };
/// One step of the model's time: the share of a lease that one look counts for.
pub(super) const TICK: Duration = Duration::from_millis(1_500);
/// The same time on the slowest clock that a lease tolerates.
pub(super) const SLOW: Duration = Duration::from_secs(1);
/// Longest pause that makes a difference, in ticks.
const MAX_OWED: u8 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Life {
    Down,
    Running,
    Paused,
}

/// The connection of a node to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Link {
    Up,
    /// Nothing arrives.
    Cut,
    /// Transactions arrive, answers do not.
    Mute,
    /// The answer to a beat arrives one tick late.
    Slow,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    Change(TestTransaction),
    Write(Commit),
}

/// A transaction that was sent and not answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    pub(super) origin: Origin,
    pub(super) ask: Ask,
    pub(super) begun: Option<Begun>,
}

/// The actor of a workspace's session, with what it remembers of the session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and the search needs all combinations"
)]
pub(super) struct Actor {
    pub(super) epoch: u64,
    pub(super) custody: bool,
    pub(super) memory: Session,
    /// The turn was begun by this actor.
    pub(super) is_running: bool,
    pub(super) is_admitted: bool,
    pub(super) is_repaired: bool,
    pub(super) has_given_up: bool,
}

impl Actor {
    pub(super) fn new(epoch: u64, custody: bool, memory: Session) -> Self {
        let is_repaired = memory.running.is_none();
        Self {
            epoch,
            custody,
            memory,
            is_running: false,
            is_admitted: false,
            is_repaired,
            has_given_up: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) life: Life,
    pub(super) link: Link,
    pub(super) origin: Origin,
    /// Time that its clock measures in one tick.
    pub(super) clock: Duration,
    /// Ticks that the node has not been told of.
    pub(super) owed: u8,
    pub(super) node: Node<u8, u8>,
    pub(super) writer: Writer<Commit>,
    pub(super) flights: Vec<Flight>,
    /// A beat whose answer is late.
    pub(super) late: Option<(TestTransaction, Ruling)>,
    pub(super) actors: [Option<Actor>; 2],
    pub(super) tools: [bool; 2],
    /// Time after which the watchdog kills the tools of shared workspaces.
    pub(super) guard: Duration,
    pub(super) tail: Tail,
    pub(super) gates: [Gate; 2],
    /// Real ticks since the newest successful beat was sent, and since the pending one was.
    pub(super) age: u8,
    pub(super) asked: u8,
}

impl Process {
    pub(super) fn new(origin: Origin) -> Self {
        Self {
            life: Life::Running,
            link: Link::Up,
            origin,
            clock: TICK,
            owed: 0,
            node: Node::new(origin.node, TERMS),
            writer: Writer::default(),
            flights: Vec::new(),
            late: None,
            actors: [None, None],
            tools: [false; 2],
            guard: Duration::ZERO,
            tail: Tail::default(),
            gates: <[Gate; 2]>::default(),
            age: 0,
            asked: 0,
        }
    }

    pub(super) fn pass(&mut self) {
        self.age = (self.age + 1).min(MAX_OWED);
        self.asked = (self.asked + 1).min(MAX_OWED);
        self.owed = (self.owed + 1).min(MAX_OWED);
        self.guard = self.guard.saturating_sub(self.clock);
    }

    /// Age of the newest successful beat, by the clock of this machine.
    pub(super) fn measured(&self) -> Duration {
        self.clock * u32::from(self.age)
    }

    pub(super) fn is_running(&self) -> bool {
        self.life == Life::Running
    }

    pub(super) fn actor(&self, workspace: u8) -> Option<&Actor> {
        self.actors[usize::from(workspace)].as_ref()
    }

    /// The actor, if its node may act for the workspace and the writer is free.
    pub(super) fn ready(&self, workspace: u8) -> Option<&Actor> {
        let may = self.is_running() && self.writer.is_free() && self.node.may_act(&workspace);
        self.actor(workspace).filter(|_| may)
    }

    pub(super) fn commit(&self, id: u16, workspace: u8, what: What) -> Option<Commit> {
        let actor = self.actor(workspace)?;
        // The writer fills in its number when it sends.
        let fence = Fence { by: self.node.identity()?, writer: 0, holding: workspace, epoch: actor.epoch };
        Some(Commit { id, fence, expected: actor.memory.head, what })
    }

    pub(super) fn has_asked(&self, ask: &Ask) -> bool {
        self.flights.iter().any(|flight| flight.ask == *ask)
    }
}
