//! The rows of the database that decide about ownership, and the transactions that change them.
//!
//! Every transaction except a beat runs under the log lock, so all of them have one order. A store implements these
//! rules in its own language; this is the reference that it is compared with.

use std::collections::BTreeMap;

use super::lease::Seen;

/// Distance between the fences of two generations. A database that fails over may lose the newest numbers; starting
/// above every number of the generation before keeps a number from being given twice.
const GENERATION: u64 = 1 << 32;

/// One process of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity<N> {
    pub node: N,
    pub incarnation: u64,
}

/// A node's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    pub incarnation: u64,
    pub writer: u64,
    pub beat: u64,
    pub state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Up,
    /// Takes no new work.
    Draining,
    Dead,
}

/// The nodes that may run the work of a holding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind<N> {
    /// A directory on one node's disk. Other nodes only take it into custody.
    Own(N),
    /// A volume, a clone or a duty: every eligible node may take over.
    Shared,
}

/// The row of a workspace or a duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ownership<N> {
    pub kind: Kind<N>,
    pub owner: Option<N>,
    pub epoch: u64,
    /// The owner may end turns and must not run any: the files are on another machine.
    pub custody: bool,
}

/// The numbers that a commit carries. All must be current when its transaction has the log lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence<N, H> {
    pub by: Identity<N>,
    pub writer: u64,
    pub holding: H,
    pub epoch: u64,
}

/// A change of ownership. `N` identifies nodes, `H` holdings: workspaces and duties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transaction<N, H> {
    /// Starts a process as this node. The caller holds the lock file of the node's data directory, which proves that
    /// an older process is gone.
    Register {
        node: N,
    },
    Beat {
        by: Identity<N>,
    },
    Drain {
        by: Identity<N>,
    },
    /// Declares a node dead if its counter is still the observed one.
    Declare {
        by: Identity<N>,
        node: N,
        seen: Seen,
    },
    /// Takes a holding if its epoch is still the one that was read.
    Claim {
        by: Identity<N>,
        holding: H,
        epoch: u64,
        custody: bool,
    },
    Release {
        by: Identity<N>,
        holding: H,
        epoch: u64,
    },
    /// Announces a new connection for commits, which shuts out transactions of the connection before.
    Connect {
        by: Identity<N>,
    },
}

/// The result of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ruling {
    Registered { incarnation: u64 },
    Claimed { epoch: u64 },
    Connected { writer: u64 },
    Done,
    Refused(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The node was declared dead, or a newer process of it has started.
    Dead,
    /// A newer connection of the same process commits.
    Writer,
    /// The row is no longer the one that was read, or its owner is alive.
    Changed,
}

/// The rows of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record<N: Ord, H: Ord> {
    pub members: BTreeMap<N, Member>,
    pub holdings: BTreeMap<H, Ownership<N>>,
    pub generation: u64,
    /// The timeline of the database server that the newest generation began with.
    pub timeline: u64,
}

impl<N: Clone + Ord, H: Clone + Ord> Record<N, H> {
    /// A fleet without nodes.
    pub fn new(holdings: BTreeMap<H, Ownership<N>>) -> Self {
        Self { members: BTreeMap::new(), holdings, generation: 0, timeline: 0 }
    }

    /// Compares the database server with the record; every connection does this first, under the log lock. A server
    /// with another timeline may have lost commits, and with them changes of ownership. So a new generation raises
    /// every fence above all numbers that may have been given and lost: all nodes start over.
    pub fn greet(&mut self, timeline: u64) {
        if timeline == self.timeline {
            return;
        }
        self.timeline = timeline;
        self.generation += 1;
        let floor = self.generation * GENERATION;
        for member in self.members.values_mut() {
            (member.incarnation, member.writer) = (floor, floor);
        }
        for row in self.holdings.values_mut() {
            row.epoch = floor;
        }
    }

    /// Runs one transaction.
    pub fn apply(&mut self, transaction: &Transaction<N, H>) -> Ruling {
        let done = match transaction {
            Transaction::Register { node } => return self.register(node),
            Transaction::Beat { by } => self.member(by).map(|member| member.beat += 1),
            Transaction::Drain { by } => self.member(by).map(|member| member.state = State::Draining),
            Transaction::Declare { by, node, seen } => self.declare(by, node, *seen),
            Transaction::Release { by, holding, epoch } => self.release(by, holding, *epoch),
            Transaction::Claim { by, holding, epoch, custody } => {
                return self
                    .claim(by, holding, *epoch, *custody)
                    .map_or_else(Ruling::Refused, |epoch| Ruling::Claimed { epoch });
            }
            Transaction::Connect { by } => {
                return self.connect(by).map_or_else(Ruling::Refused, |writer| Ruling::Connected { writer });
            }
        };
        done.map_or_else(Ruling::Refused, |()| Ruling::Done)
    }

    /// Checks the fence of a commit. The caller holds the log lock: a check before it is no fence.
    pub fn check(&self, fence: &Fence<N, H>) -> Result<(), Refusal> {
        let member = self.members.get(&fence.by.node).ok_or(Refusal::Dead)?;
        let row = self.holdings.get(&fence.holding).ok_or(Refusal::Changed)?;
        if member.incarnation != fence.by.incarnation {
            Err(Refusal::Dead)
        } else if member.writer != fence.writer {
            Err(Refusal::Writer)
        } else if row.epoch != fence.epoch || row.owner.as_ref() != Some(&fence.by.node) {
            Err(Refusal::Changed)
        } else {
            Ok(())
        }
    }

    /// Tells if a node was declared dead or is unknown.
    pub fn is_dead(&self, node: &N) -> bool {
        self.members.get(node).is_none_or(|member| member.state == State::Dead)
    }

    fn member(&mut self, by: &Identity<N>) -> Result<&mut Member, Refusal> {
        self.members
            .get_mut(&by.node)
            .filter(|member| member.incarnation == by.incarnation)
            .ok_or(Refusal::Dead)
    }

    fn register(&mut self, node: &N) -> Ruling {
        let floor = self.generation * GENERATION;
        let new = Member { incarnation: floor, writer: floor, beat: 0, state: State::Up };
        let member = self.members.entry(node.clone()).or_insert(new);
        member.incarnation += 1;
        member.state = State::Up;
        Ruling::Registered { incarnation: member.incarnation }
    }

    fn declare(&mut self, by: &Identity<N>, node: &N, seen: Seen) -> Result<(), Refusal> {
        self.member(by)?;
        let member = self.members.get_mut(node).ok_or(Refusal::Changed)?;
        let now = Seen { incarnation: member.incarnation, beat: member.beat };
        if now != seen || member.state == State::Dead {
            return Err(Refusal::Changed);
        }
        // The beat of the dead node must fail from here on, or it would believe that it still holds its lease.
        (member.state, member.incarnation) = (State::Dead, member.incarnation + 1);
        Ok(())
    }

    fn claim(&mut self, by: &Identity<N>, holding: &H, read: u64, custody: bool) -> Result<u64, Refusal> {
        self.member(by)?;
        let row = self.holdings.get(holding).ok_or(Refusal::Changed)?;
        if row.epoch != read || !self.may_claim(&by.node, row, custody) {
            return Err(Refusal::Changed);
        }
        let row = self.holdings.get_mut(holding).ok_or(Refusal::Changed)?;
        (row.owner, row.epoch, row.custody) = (Some(by.node.clone()), row.epoch + 1, custody);
        Ok(row.epoch)
    }

    fn may_claim(&self, by: &N, row: &Ownership<N>, custody: bool) -> bool {
        let is_free = row.owner.as_ref().is_none_or(|owner| owner == by || self.is_dead(owner));
        match &row.kind {
            Kind::Shared => is_free && !custody,
            Kind::Own(home) if home == by => (is_free || row.custody) && !custody,
            Kind::Own(home) => is_free && custody && self.is_dead(home),
        }
    }

    fn release(&mut self, by: &Identity<N>, holding: &H, epoch: u64) -> Result<(), Refusal> {
        self.member(by)?;
        let row = self.holdings.get_mut(holding).ok_or(Refusal::Changed)?;
        if row.epoch != epoch || row.owner.as_ref() != Some(&by.node) {
            return Err(Refusal::Changed);
        }
        (row.owner, row.custody) = (None, false);
        Ok(())
    }

    fn connect(&mut self, by: &Identity<N>) -> Result<u64, Refusal> {
        let member = self.member(by)?;
        member.writer += 1;
        Ok(member.writer)
    }
}
