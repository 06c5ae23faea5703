//! The invariants I1 to I8, checked from what the database has done and what clients of each node have seen.
//!
//! The monitor keeps its own books: it counts processes, connections and grants itself and does not trust the numbers
//! that it judges. I9 is checked by [`settle`](super::model), which lets a state come to rest.

use super::database::{Commit, Database, Event, OWN, TestTransaction, What, Written};
use crate::fleet::{Ruling, Transaction, order::Position};

pub(super) type Verdict = Result<(), String>;

/// The process and the connection of a transaction, as the monitor counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Origin {
    pub(super) node: u8,
    pub(super) process: u8,
    pub(super) connection: u8,
}

/// The events that one node has shown of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Shown {
    is_busy: bool,
    /// The epoch of the newest idle.
    idle: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Monitor {
    /// The process of each node that may commit; none once it was declared dead.
    processes: [Option<u8>; 3],
    connections: [u8; 3],
    /// The process that was granted each workspace, and the epoch.
    grants: [Option<(u8, u8, u64)>; 2],
    /// The highest epoch ever granted.
    highest: [u64; 2],
    /// Commits of which a process was told that they never happen.
    denied: Vec<u16>,
    /// Positions that a client may have as its cursor.
    published: Vec<(Position, u16)>,
    /// Number of log rows that each node has published.
    tails: [usize; 3],
    shown: [[Shown; 2]; 3],
}

fn at(number: u8) -> usize {
    usize::from(number)
}

impl Monitor {
    /// A transaction on the record was executed.
    pub(super) fn applied(
        &mut self,
        origin: Origin,
        transaction: &TestTransaction,
        answer: Ruling,
    ) -> Verdict {
        match (transaction, answer) {
            (_, Ruling::Refused(_)) => {}
            (Transaction::Register { .. }, _) => self.processes[at(origin.node)] = Some(origin.process),
            (Transaction::Declare { node, .. }, _) => self.processes[at(*node)] = None,
            (Transaction::Connect { .. }, _) => self.connections[at(origin.node)] = origin.connection,
            (Transaction::Release { holding, epoch, .. }, _) => {
                // After a failover the books are empty; the record still knows the owner of an earlier process.
                let owned = self.grants[at(*holding)].map(|(node, _, epoch)| (node, epoch));
                let is_current = self.processes[at(origin.node)] == Some(origin.process);
                if owned.is_some_and(|owned| owned != (origin.node, *epoch)) || !is_current {
                    return Err(format!("I1: node {} released what it does not own", origin.node));
                }
                self.grants[at(*holding)] = None;
            }
            (Transaction::Claim { holding, .. }, Ruling::Claimed { epoch }) => {
                self.is_free(origin, *holding)?;
                if epoch <= self.highest[at(*holding)] {
                    return Err(format!("I2: epoch {epoch} of workspace {holding} was given before"));
                }
                self.highest[at(*holding)] = epoch;
                self.grants[at(*holding)] = Some((origin.node, origin.process, epoch));
            }
            _ => {}
        }
        Ok(())
    }

    /// A workspace changes hands only if its owner gave it back or was declared dead, or its files are here.
    fn is_free(&self, origin: Origin, holding: u8) -> Verdict {
        match self.grants[at(holding)] {
            Some((owner, process, _))
                if owner != origin.node
                    && self.processes[at(owner)] == Some(process)
                    && (holding, origin.node) != (OWN, 0) =>
            {
                Err(format!(
                    "I1: node {} took workspace {holding} from node {owner}, which lives",
                    origin.node
                ))
            }
            _ => Ok(()),
        }
    }

    /// A commit was executed.
    pub(super) fn written(
        &mut self,
        origin: Origin,
        commit: &Commit,
        written: Written,
        db: &Database,
    ) -> Verdict {
        match written {
            Written::Fenced(_) => return Ok(()),
            Written::Conflict => return Err("I1: the owner does not know the session's newest event".into()),
            Written::Nothing | Written::Stored(_) => self.has_right(origin, commit)?,
        }
        if self.denied.contains(&commit.id) {
            return Err("a commit happened after its process was told that it never will".into());
        }
        if let (Written::Stored(_), Some(event)) = (written, db.log.last()) {
            dense(db)?;
            judge_event(event, db)?;
        }
        Ok(())
    }

    fn has_right(&self, origin: Origin, commit: &Commit) -> Verdict {
        let node = at(origin.node);
        let is_current =
            self.processes[node] == Some(origin.process) && self.connections[node] == origin.connection;
        let grant = Some((origin.node, origin.process, commit.fence.epoch));
        if is_current && self.grants[at(commit.session())] == grant {
            return Ok(());
        }
        Err(format!("I1: {commit:?} of {origin:?} was stored, but {grant:?} is not the present right"))
    }

    /// The database has lost its newest commits. No process may commit before it has registered again.
    pub(super) fn failed_over(&mut self, kept: usize) {
        (self.processes, self.grants) = ([None; 3], [None; 2]);
        for tail in &mut self.tails {
            // A tail beyond the end stays there until its node says resync.
            if *tail > kept {
                *tail = usize::MAX;
            }
        }
    }

    pub(super) fn denied(&mut self, commit: u16) {
        self.denied.push(commit);
    }

    /// A process begins to read the log from the start, with clients that have seen nothing.
    pub(super) fn restarted(&mut self, node: u8) {
        self.tails[at(node)] = 0;
        self.shown[at(node)] = <[Shown; 2]>::default();
    }

    /// The clients of a node were told to read the state again.
    pub(super) fn resynced(&mut self, node: u8, kept: usize, db: &Database) {
        self.tails[at(node)] = kept;
        self.shown[at(node)] = <[Shown; 2]>::default();
        for event in db.log.iter().take(kept) {
            let shown = &mut self.shown[at(node)][at(event.session)];
            follow(shown, event);
        }
    }

    /// A node published a durable event.
    pub(super) fn published(&mut self, node: u8, event: &Event, db: &Database) -> Verdict {
        let due = db.log.get(self.tails[at(node)]).map(|event| event.id);
        if due != Some(event.id) {
            return Err(format!("I5: node {node} published {event:?}, and {due:?} was due"));
        }
        self.tails[at(node)] += 1;
        if self.published.iter().any(|(at, id)| *at == event.position && *id != event.id) {
            return Err(format!("I5: two events had position {:?}", event.position));
        }
        if !self.published.contains(&(event.position, event.id)) {
            self.published.push((event.position, event.id));
        }
        let shown = &mut self.shown[at(node)][at(event.session)];
        if event.what.is_idle() && !shown.is_busy {
            return Err(format!("I3: node {node} showed a second idle: {event:?}"));
        }
        follow(shown, event);
        Ok(())
    }

    /// A node published a live event of a session.
    pub(super) fn live(&self, node: u8, session: u8, epoch: u64) -> Verdict {
        let shown = self.shown[at(node)][at(session)];
        if epoch < shown.idle || !shown.is_busy {
            return Err(format!("I8: node {node} showed a live event of epoch {epoch} after {shown:?}"));
        }
        Ok(())
    }

    /// A node published an idle that is in no commit; only a planted mistake does.
    pub(super) fn live_idle(&mut self, node: u8, session: u8) {
        self.shown[at(node)][at(session)].is_busy = false;
    }
}

/// I5: what is visible is a dense prefix of each generation.
fn dense(db: &Database) -> Verdict {
    let mut before = Position::default();
    for event in &db.log {
        let begins = event.position.number() == 1 && event.position.generation() > before.generation();
        if event.position != before.next() && !begins {
            return Err(format!("I5: {:?} is visible after {before:?}", event.position));
        }
        before = event.position;
    }
    Ok(())
}

fn follow(shown: &mut Shown, event: &Event) {
    match event.what {
        What::Busy(_) => shown.is_busy = true,
        What::Idle | What::Interrupt => (shown.is_busy, shown.idle) = (false, event.epoch),
        _ => {}
    }
}

/// I3, I4 and I6 of an event that was just stored, and the rule that a custodian runs nothing.
fn judge_event(event: &Event, db: &Database) -> Verdict {
    let of_session = || db.log.iter().filter(|other| other.session == event.session);
    let before = || of_session().filter(|other| other.id != event.id);
    let newest = before().map(|other| (other.seq, other.epoch)).next_back().unwrap_or_default();
    if event.seq != newest.0 + 1 || event.epoch < newest.1 {
        return Err(format!("I6: {event:?} follows {newest:?}"));
    }
    let turns = before().filter(|other| matches!(other.what, What::Busy(_))).count();
    let idles = before().filter(|other| other.what.is_idle()).count();
    match event.what {
        What::Busy(_) if turns != idles => Err(format!("I3: {event:?} within a turn")),
        What::Busy(_) if event.session == OWN && event.by.node != 0 => {
            Err(format!("node {} ran a turn in a directory of another machine", event.by.node))
        }
        What::Idle | What::Interrupt if turns == idles => Err(format!("I3: {event:?} without a turn")),
        What::Accept(prompt) => {
            let same = |what| matches!(what, What::Accept(other) if other.number == prompt.number);
            let messages = of_session().filter(|other| same(other.what)).count();
            if messages > 1 {
                Err(format!("I4: prompt {} has {messages} messages", prompt.number))
            } else {
                Ok(())
            }
        }
        What::Busy(prompt) => {
            let same = |what| matches!(what, What::Busy(other) if other.number == prompt.number);
            let runs = of_session().filter(|other| same(other.what)).count();
            if runs > 1 { Err(format!("I4: prompt {} was run {runs} times", prompt.number)) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}
