//! Faults of the model: a process that ends, starts or pauses, and a database that loses its newest commits.

use std::collections::BTreeSet;

use super::{
    database::{NODES, OWN, Prompt, SHARED},
    mistakes::Mistake,
    model::FleetModel,
    monitor::Verdict,
    process::{Flight, Life, Process},
};
use crate::fleet::{Input, Writer, writer::Happened};

/// Transactions of lost connections that may still be running.
const MAX_LATE: usize = 2;

impl FleetModel {
    pub(super) fn start_over(&mut self, node: u8) {
        self.stop(node, OWN);
        self.stop(node, SHARED);
        let process = self.process_mut(node);
        process.writer = Writer::default();
        process.late = None;
        process.origin.process += 1;
        for flight in std::mem::take(&mut process.flights) {
            self.keep_late(flight);
        }
    }

    pub(super) fn keep_late(&mut self, flight: Flight) {
        if self.late.len() == MAX_LATE {
            self.late.remove(0);
        }
        self.late.push(flight);
    }

    pub(super) fn start(&mut self, node: u8) -> Verdict {
        let Process { mut origin, clock, .. } = *self.process(node);
        origin.process += 1;
        *self.process_mut(node) = Process { clock, ..Process::new(origin) };
        self.monitor.restarted(node);
        self.feed(node, Input::Tick)
    }

    pub(super) fn crash(&mut self, node: u8) {
        let Process { origin, clock, .. } = *self.process(node);
        let flights = std::mem::take(&mut self.process_mut(node).flights);
        for flight in flights {
            self.keep_late(flight);
        }
        *self.process_mut(node) = Process { life: Life::Down, clock, ..Process::new(origin) };
    }

    pub(super) fn resume(&mut self, node: u8) -> Verdict {
        let has_stopped = self.has(Mistake::ClockStopsInSuspend);
        let process = self.process_mut(node);
        process.life = Life::Running;
        if has_stopped {
            process.owed = 0;
        }
        self.deliver_late(node)
    }

    /// The server is replaced by a replica that has not got the newest commits. All connections break.
    pub(super) fn failover(&mut self) -> Verdict {
        let Some(replica) = self.replica.take() else { return Ok(()) };
        let timeline = self.db.timeline + 1;
        self.db = *replica;
        self.db.timeline = timeline;
        self.late.clear();
        self.monitor.failed_over(self.db.log.len());
        for (client, session) in self.clients.iter_mut().zip(&self.db.sessions) {
            let known: BTreeSet<u8> = session.known.iter().map(|prompt| prompt.number).collect();
            *client = Prompt { number: u8::try_from(known.len()).unwrap_or(u8::MAX), attempt: 0 };
        }
        for node in 0..NODES {
            self.process_mut(node).writer.step(Happened::Lost);
            if let Some((beat, _)) = self.process_mut(node).late.take() {
                self.feed(node, Input::Lost(beat))?;
            }
            for flight in std::mem::take(&mut self.process_mut(node).flights) {
                self.lose(node, flight)?;
            }
        }
        Ok(())
    }
}
