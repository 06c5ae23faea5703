//! The work of a node in the model: commits of its actors, tools, live events and the tail of the log.

use super::{
    database::{Event, OWN, What},
    mistakes::Mistake,
    model::{FleetModel, at},
    monitor::Verdict,
    process::{Ask, Flight, TERMS},
};
use crate::fleet::{
    Input,
    order::{Gate, Live, Position, Verdict as Judged},
    writer::{Happened, Next},
};

impl FleetModel {
    /// Hands a commit to the writer.
    pub(super) fn commit(&mut self, node: u8, workspace: u8, what: What) {
        self.ids += 1;
        let Some(commit) = self.process(node).commit(self.ids, workspace, what) else { return };
        let process = self.process_mut(node);
        if let Some(Next::Send { number, mut commit }) = process.writer.step(Happened::Submitted(commit)) {
            commit.fence.writer = number;
            process.flights.push(Flight { origin: process.origin, ask: Ask::Write(commit), begun: None });
        }
    }

    pub(super) fn submit(&mut self, node: u8, workspace: u8) {
        let prompt = self.clients[at(workspace)];
        if self.has(Mistake::RetryWithNewId) {
            self.clients[at(workspace)].attempt += 1;
        }
        self.commit(node, workspace, What::Accept(prompt));
    }

    pub(super) fn ask_tool(&mut self, node: u8, workspace: u8) -> Verdict {
        let Some(actor) = &mut self.process_mut(node).actors[at(workspace)] else { return Ok(()) };
        actor.is_admitted = false;
        let epoch = actor.epoch;
        self.feed(node, Input::Begin { holding: workspace, epoch })
    }

    /// I7, and the promise behind it: no two nodes act for a workspace at once.
    pub(super) fn begin_tool(&mut self, node: u8, workspace: u8) -> Verdict {
        let process = self.process(node);
        let (Some(actor), Some(by)) = (process.actor(workspace), process.node.identity()) else {
            return Err("I7: a tool began without an actor".into());
        };
        let of_turn = |event: &&Event| event.session == workspace && !matches!(event.what, What::Busy(_));
        let mut turn =
            self.db.log.iter().rev().filter(|event| event.session == workspace).take_while(of_turn);
        if !turn.any(|event| event.what == What::Admit && (event.epoch, event.by) == (actor.epoch, by)) {
            return Err(format!("I7: node {node} began a tool without an admission"));
        }
        if process.measured() >= TERMS.step_back() {
            return Err(format!("I7: node {node} began a tool {} ticks after its beat", process.age));
        }
        let others = || self.processes.iter().filter(|other| other.origin.node != node);
        if others().any(|other| other.tools[at(workspace)]) {
            return Err(format!("I7: node {node} began a tool while another node's tool was running"));
        }
        if workspace == OWN && node != 0 {
            return Err(format!("node {node} ran a tool in a directory of another machine"));
        }
        self.process_mut(node).tools[at(workspace)] = true;
        Ok(())
    }

    pub(super) fn emit(&mut self, node: u8, workspace: u8) -> Verdict {
        let Some(actor) = self.process(node).actor(workspace) else { return Ok(()) };
        self.frame = Some((workspace, Live { epoch: actor.epoch, after: u64::from(actor.memory.head) }));
        self.show(node)
    }

    pub(super) fn show(&mut self, node: u8) -> Verdict {
        let Some((session, live)) = self.frame else { return Ok(()) };
        let judged = self.process(node).gates[at(session)].judge(live);
        let is_shown =
            judged == Judged::Publish || (judged == Judged::Drop && self.has(Mistake::LiveAfterIdle));
        if is_shown { self.monitor.live(node, session, live.epoch) } else { Ok(()) }
    }

    /// Publishes an own commit from memory if nothing lies between.
    pub(super) fn publish_own(&mut self, node: u8, position: Position) -> Verdict {
        if self.has(Mistake::TailSkips) {
            let tail = &mut self.process_mut(node).tail;
            while tail.last().next() < position {
                tail.publish(tail.last().next());
            }
        }
        if !self.process_mut(node).tail.publish(position) {
            return Ok(());
        }
        let event = self.db.log.iter().find(|event| event.position == position).cloned();
        event.map_or(Ok(()), |event| self.publish(node, &event))
    }

    fn publish(&mut self, node: u8, event: &Event) -> Verdict {
        pass(&mut self.process_mut(node).gates, event);
        self.monitor.published(node, event, &self.db)
    }

    /// Reads the log to its end.
    pub(super) fn tail(&mut self, node: u8) -> Verdict {
        loop {
            let last = self.process(node).tail.last();
            let next = self.db.log.iter().find(|event| event.position == last.next()).cloned();
            if let Some(event) = next {
                self.process_mut(node).tail.publish(event.position);
                self.publish(node, &event)?;
            } else if last.generation() < self.db.record.generation {
                self.enter(node, last.generation());
            } else {
                return Ok(());
            }
        }
    }

    fn enter(&mut self, node: u8, left: u64) {
        let Some(end) = usize::try_from(left).ok().and_then(|left| self.db.ends.get(left).copied()) else {
            return;
        };
        if self.process_mut(node).tail.enter(left + 1, end) {
            let kept: Vec<_> = self.db.log.iter().filter(|event| event.position <= end).cloned().collect();
            self.monitor.resynced(node, kept.len(), &self.db);
            let gates = &mut self.process_mut(node).gates;
            *gates = <[Gate; 2]>::default();
            for event in &kept {
                pass(gates, event);
            }
        }
    }
}

fn pass(gates: &mut [Gate; 2], event: &Event) {
    gates[at(event.session)].pass(u64::from(event.seq), event.epoch, event.what.is_idle());
}
