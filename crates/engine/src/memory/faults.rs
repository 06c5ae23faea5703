//! What a simulation can make go wrong with a log.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::ports::Failure;

/// What happens to one append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails and nothing was written.
    Refuse(Failure),
    /// It is written and published, and its writer is told that the log is unavailable: the writer cannot
    /// know which of the two it was.
    LoseAcknowledgement,
    /// It is written later. Commits that are not delayed overtake it.
    Delay(Duration),
    /// It is written and published at once, and its writer learns of it later.
    DelayAcknowledgement(Duration),
}

/// A script of faults: each append takes the next one. When the script is over, nothing goes wrong.
#[derive(Debug, Default)]
pub struct Faults {
    script: Mutex<VecDeque<Option<Fault>>>,
    reading: Mutex<Duration>,
}

impl Faults {
    /// Adds the same fault for the next `appends` appends to the script.
    pub fn next(&self, appends: usize, fault: Fault) {
        self.script().extend(std::iter::repeat_n(Some(fault), appends));
    }

    /// Lets the next `appends` appends of the script pass unharmed.
    pub fn pass(&self, appends: usize) {
        self.script().extend(std::iter::repeat_n(None, appends));
    }

    /// Drops the rest of the script.
    pub fn clear(&self) {
        self.script().clear();
    }

    /// Delays the answer to every read from now on. A read still sees the tables as they are when it begins, so
    /// commits can happen between a read and its answer, as they do with a database.
    pub fn slow_reads(&self, delay: Duration) {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner) = delay;
    }

    pub(super) fn read_delay(&self) -> Duration {
        *self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self) -> Option<Fault> {
        self.script().pop_front().flatten()
    }

    fn script(&self) -> MutexGuard<'_, VecDeque<Option<Fault>>> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
