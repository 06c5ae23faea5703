//! The lease of a node: its own view of it, and the view of the others.
//!
//! A lease is a counter, not a time. The node adds one to its beat, and the others see that the counter changes. Each
//! side measures with its own clock, so no two clocks are ever compared. The node gives up after two thirds of the
//! lease and the others wait for all of it: clocks may differ in rate by a factor of 1.5.

use std::time::Duration;

/// Number of looks that share the length of a lease. One look counts for at most this share of it, so an observer
/// that was paused cannot declare a node dead with fewer looks.
const LOOKS: u32 = 4;
/// Beats that a node sends in the length of one lease.
const BEATS: u32 = 6;

/// The times that follow from the length of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Time without a new beat after which other nodes declare a node dead.
    pub length: Duration,
}

impl Terms {
    /// Age of the newest beat at which the node stops to act.
    pub fn step_back(self) -> Duration {
        self.length * 2 / 3
    }

    /// Interval between two beats.
    pub fn beat_every(self) -> Duration {
        self.length / BEATS
    }

    /// The most that one look contributes to a peer's silence.
    fn share(self) -> Duration {
        self.length / LOOKS
    }
}

/// The lease as its holder measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lease {
    /// Time since the newest beat that succeeded was *sent*. The answer may have been under way for long, and the
    /// others count from the moment at which the beat was stored.
    age: Duration,
    /// Time since the beat that has no answer yet was sent.
    pending: Option<Duration>,
}

impl Lease {
    /// Lets time pass. Ages stop growing at the length of the lease, because nothing depends on more.
    pub fn pass(&mut self, terms: Terms, elapsed: Duration) {
        for age in std::iter::once(&mut self.age).chain(&mut self.pending) {
            *age = age.saturating_add(elapsed).min(terms.length);
        }
    }

    /// Tells if the next beat is due. A beat whose answer is late does not hold up the next one for ever: the
    /// connection has a timeout, and its loss is [`Lease::lost`].
    pub fn is_due(&self, terms: Terms) -> bool {
        self.pending.is_none() && self.age >= terms.beat_every()
    }

    pub fn sent(&mut self) {
        self.pending = Some(Duration::ZERO);
    }

    pub fn lost(&mut self) {
        self.pending = None;
    }

    /// Records that the pending beat succeeded. Without one (its answer was given up) the lease does not change.
    pub fn renew(&mut self) {
        if let Some(age) = self.pending.take() {
            self.age = self.age.min(age);
        }
    }

    /// Time for which the node may still act; zero once it has to step back.
    pub fn remaining(&self, terms: Terms) -> Duration {
        terms.step_back().saturating_sub(self.age)
    }
}

/// One peer's lease as an observer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Watch {
    /// The beat of the last look.
    pub seen: Seen,
    /// Time for which looks have found the same beat.
    silent: Duration,
}

/// A peer's counter: a change of either number proves that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seen {
    pub incarnation: u64,
    pub beat: u64,
}

impl Watch {
    pub fn new(seen: Seen) -> Self {
        Self { seen, silent: Duration::ZERO }
    }

    /// Takes in a successful look, `gap` after the one before. `gap` is `None` if a look in between failed: time in
    /// which the observer could not look does not count.
    pub fn look(&mut self, terms: Terms, seen: Seen, gap: Option<Duration>) {
        if seen != self.seen {
            *self = Self::new(seen);
        } else if let Some(gap) = gap {
            self.silent = (self.silent + gap.min(terms.share())).min(terms.length);
        }
    }

    /// Tells if the peer was silent for the whole lease.
    pub fn is_over(&self, terms: Terms) -> bool {
        self.silent >= terms.length
    }

    /// Gives the peer a number that the tests choose, so that states which differ only in the count are one state.
    #[cfg(test)]
    pub(super) fn renumber(&mut self, beat: u64) {
        self.seen.beat = beat;
    }
}
