//! Letting a fleet come to rest: I9, and the end of I4.

use std::time::Duration;

use super::{
    database::{NODES, OWN, SHARED},
    explore::BOTH,
    model::{Action, FleetModel},
    monitor::Verdict,
    process::{Life, Link, TICK},
};

/// Time in which every unfinished session has to be adopted: L + 3 s.
const REST: Duration = Duration::from_secs(9);
/// Bound for the steps that bring the model to rest between two ticks.
const ROUNDS: usize = 200;

impl FleetModel {
    /// Lets every transaction be answered and every tail be read, and every repair be made.
    pub(super) fn drain(&mut self) -> Verdict {
        for _ in 0..ROUNDS {
            let Some(action) = self.due() else { return Ok(()) };
            self.act(action)?;
        }
        Err("the fleet does not come to rest".into())
    }

    fn due(&self) -> Option<Action> {
        if !self.late.is_empty() {
            return Some(Action::Late(0));
        }
        (0..NODES).filter(|node| self.process(*node).is_running()).find_map(|node| {
            let process = self.process(node);
            if !process.flights.is_empty() {
                return Some(Action::Execute(node, 0));
            }
            let needs_repair = |workspace: &u8| {
                let actor = process.actor(*workspace);
                actor.is_some_and(|actor| !actor.is_repaired && !actor.has_given_up)
                    && process.writer.is_free()
            };
            if let Some(workspace) = BOTH.into_iter().find(needs_repair) {
                return Some(Action::Repair(node, workspace));
            }
            let is_behind = self.db.log.iter().any(|event| event.position > process.tail.last());
            is_behind.then_some(Action::Tail(node))
        })
    }

    /// I9: after the last fault, every unfinished session of a reachable workspace is adopted within L + 3 s. I4: then
    /// every prompt that can be run ends.
    pub(super) fn settle(mut self) -> Verdict {
        for node in 0..NODES {
            if self.process(node).life == Life::Paused {
                self.act(Action::Resume(node))?;
            }
            self.act(Action::Link(node, Link::Up))?;
        }
        if self.processes.iter().all(|process| process.life == Life::Down) {
            return Ok(());
        }
        for _ in 0..self.rest() {
            self.drain()?;
            self.act(Action::Tick)?;
        }
        self.drain()?;
        BOTH.into_iter().try_for_each(|workspace| self.is_adopted(workspace))?;
        self.finish()
    }

    /// Ticks until [`REST`] has passed on the slowest clock of the fleet.
    fn rest(&self) -> u128 {
        let slowest = self.processes.iter().map(|process| process.clock).min().unwrap_or(TICK);
        REST.as_millis().div_ceil(slowest.as_millis())
    }

    /// Tells if a node is there that may run the workspace: its own, or one that takes new work.
    fn can_run(&self, workspace: u8) -> bool {
        let takes = |node: u8| self.process(node).is_running() && self.db.rank(node).is_some();
        if workspace == OWN { self.process(0).is_running() } else { (0..NODES).any(takes) }
    }

    /// Tells if a node is there that may at least end the turns of a workspace.
    fn can_end(&self, workspace: u8) -> bool {
        self.can_run(workspace) || self.can_run(SHARED)
    }

    fn is_adopted(&self, workspace: u8) -> Verdict {
        let session = self.db.session(workspace);
        let waits = self.can_run(workspace) && !session.waiting.is_empty();
        let runs = self.can_end(workspace) && session.running.is_some();
        if !runs && !waits {
            return Ok(());
        }
        let attends = |node: u8| {
            let process = self.process(node);
            let actor = process.actor(workspace).filter(|_| process.node.may_act(&workspace));
            actor.is_some_and(|actor| actor.is_running || session.running.is_none())
        };
        if (0..NODES).any(attends) {
            return Ok(());
        }
        let row = self.db.record.holdings[&workspace];
        Err(format!("I9: the session of workspace {workspace} is left: {session:?}, {row:?}"))
    }

    fn finish(mut self) -> Verdict {
        for _ in 0..ROUNDS {
            let next = (0..NODES).find_map(|node| {
                BOTH.into_iter().find_map(|workspace| {
                    let actor = self.process(node).ready(workspace)?;
                    if actor.is_running {
                        return Some(Action::Finish(node, workspace));
                    }
                    let waits = !actor.custody && !actor.memory.waiting.is_empty();
                    waits.then_some(Action::Run(node, workspace))
                })
            });
            let Some(action) = next else { break };
            self.act(action)?;
            self.drain()?;
        }
        for workspace in BOTH {
            let session = self.db.session(workspace);
            if self.can_run(workspace) && session.known.len() != session.ended.len() {
                return Err(format!("I4: a prompt of workspace {workspace} has no end: {session:?}"));
            }
        }
        Ok(())
    }
}
