//! Failures that a simulation can inject into a log.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::ports::StoreFailure;

/// The fault of one append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The append fails and writes nothing.
    Refuse(StoreFailure),
    /// The append is written and published, but reports that the log is unavailable. The writer cannot tell this
    /// from [`Fault::Refuse`].
    LoseAcknowledgement,
    /// The append is written later. Commits that are not delayed overtake it.
    Delay(Duration),
    /// The append is written and published at once, but its future resolves later.
    DelayAcknowledgement(Duration),
}

/// The planned faults. An outage refuses every write while it lasts; otherwise each append takes the next entry of
/// a script. Appends succeed when the script is empty.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Plan>);

#[derive(Debug, Default)]
struct Plan {
    outage: Option<StoreFailure>,
    script: VecDeque<Option<Fault>>,
    read_delay: Duration,
}

impl Faults {
    /// Refuses every write until [`Faults::end_outage`], as a full disk does.
    pub fn begin_outage(&self, failure: StoreFailure) {
        self.plan().outage = Some(failure);
    }

    /// Lets writes pass again.
    pub fn end_outage(&self) {
        self.plan().outage = None;
    }

    /// Adds the same fault for the next `appends` appends to the script.
    pub fn next(&self, appends: usize, fault: Fault) {
        self.plan().script.extend(std::iter::repeat_n(Some(fault), appends));
    }

    /// Lets the next `appends` appends of the script succeed.
    pub fn pass(&self, appends: usize) {
        self.plan().script.extend(std::iter::repeat_n(None, appends));
    }

    /// Ends an outage and drops the rest of the script.
    pub fn clear(&self) {
        *self.plan() = Plan::default();
    }

    pub(super) fn outage(&self) -> Option<StoreFailure> {
        self.plan().outage
    }

    /// Delays the answer to every read from now on. A read still sees the tables as they are when it begins, so
    /// commits can happen between a read and its answer, as they do with a database.
    pub fn slow_reads(&self, delay: Duration) {
        self.plan().read_delay = delay;
    }

    pub(super) fn read_delay(&self) -> Duration {
        self.plan().read_delay
    }

    pub(super) fn take(&self) -> Option<Fault> {
        let mut plan = self.plan();
        plan.outage.map(Fault::Refuse).or_else(|| plan.script.pop_front().flatten())
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
