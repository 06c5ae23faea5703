//! Letting a fleet come to rest: I9, and the end of I4.

use super::{
    database::{NODES, SHARED},
    explore::BOTH,
    monitor::Verdict,
    process::{Life, Link},
    world::{Action, World},
};

/// Ticks in which every unfinished session has to be adopted: L + 3 s.
const REST: usize = 6;
/// Bound for the steps that bring the model to rest between two ticks.
const ROUNDS: usize = 200;

impl World {
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
        for _ in 0..REST {
            self.drain()?;
            self.act(Action::Tick)?;
        }
        self.drain()?;
        BOTH.into_iter().try_for_each(|workspace| self.is_adopted(workspace))?;
        self.finish()
    }

    fn is_adopted(&self, workspace: u8) -> Verdict {
        let session = self.db.session(workspace);
        let can_run = workspace == SHARED || self.process(0).is_running();
        let waits = can_run && !session.waiting.is_empty();
        if session.running.is_none() && !waits {
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
            let can_run = workspace == SHARED || self.process(0).is_running();
            if can_run && session.known.len() != session.ended.len() {
                return Err(format!("I4: a prompt of workspace {workspace} has no end: {session:?}"));
            }
        }
        Ok(())
    }
}
