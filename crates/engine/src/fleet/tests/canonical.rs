//! One representative for states that differ only in the count of beats.

use std::collections::BTreeSet;

use super::{
    database::NODES,
    model::FleetModel,
    process::{Ask, Flight},
};
use crate::fleet::Transaction;

impl FleetModel {
    /// Numbers the beats anew: only their being equal matters, so states that differ in the count are one state.
    pub(super) fn canonical(mut self) -> Self {
        for node in 0..NODES {
            let Some(beat) = self.db.record.members.get(&node).map(|member| member.beat) else { continue };
            let mut beats = BTreeSet::from([beat]);
            for process in &mut self.processes {
                beats.extend(
                    process
                        .node
                        .peers_mut()
                        .filter(|(peer, _)| **peer == node)
                        .map(|(_, watch)| watch.seen.beat),
                );
            }
            let declared = |flight: &Flight| match &flight.ask {
                Ask::Change(Transaction::Declare { node: of, seen, .. }) if *of == node => Some(seen.beat),
                _ => None,
            };
            beats.extend(self.late.iter().filter_map(declared));
            beats.extend(
                self.processes.iter().flat_map(|process| process.flights.iter().filter_map(declared)),
            );
            beats.extend(self.replica.iter().filter_map(|db| Some(db.record.members.get(&node)?.beat)));
            let rank = |beat: u64| u64::try_from(beats.range(..beat).count()).unwrap_or(u64::MAX);
            self.renumber(node, rank);
        }
        self
    }

    fn renumber(&mut self, node: u8, rank: impl Fn(u64) -> u64) {
        let databases = std::iter::once(&mut self.db).chain(self.replica.as_deref_mut());
        for member in databases.filter_map(|db| db.record.members.get_mut(&node)) {
            member.beat = rank(member.beat);
        }
        for process in &mut self.processes {
            for (_, watch) in process.node.peers_mut().filter(|(peer, _)| **peer == node) {
                watch.renumber(rank(watch.seen.beat));
            }
        }
        let flights = self.processes.iter_mut().flat_map(|process| process.flights.iter_mut());
        for flight in flights.chain(&mut self.late) {
            if let Ask::Change(Transaction::Declare { node: of, seen, .. }) = &mut flight.ask
                && *of == node
            {
                seen.beat = rank(seen.beat);
            }
        }
    }
}
