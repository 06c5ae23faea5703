//! Resources that the runs of one turn have used together.
//!
//! A turn may have several runs, and each knows only itself. Budgets apply to turns, so the actor keeps one tally
//! per turn and shares it with each run. Runners decide what to count.

use std::sync::{Mutex, PoisonError};

use protocol::{number::Number, session::Tokens};
use tokio::time::Instant;

/// Used resources.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Cost in US dollars.
    pub cost: Number,
    /// Input, output, reasoning and cache tokens.
    pub tokens: u64,
    /// Model calls that count as steps.
    pub steps: u64,
}

impl Used {
    /// The resources of one model call, not counted as a step.
    pub fn of(cost: Number, tokens: &Tokens) -> Self {
        let Tokens { input, output, reasoning, cache, .. } = tokens;
        let parts = [*input, *output, *reasoning, cache.read, cache.write];
        Self { cost, tokens: parts.into_iter().fold(0, u64::saturating_add), steps: 0 }
    }

    /// Adds two amounts.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.cost += other.cost;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.steps = self.steps.saturating_add(other.steps);
        self
    }

    /// The difference; counters stop at zero.
    #[must_use]
    pub fn without(mut self, other: Self) -> Self {
        self.cost += Number(-other.cost.0);
        self.tokens = self.tokens.saturating_sub(other.tokens);
        self.steps = self.steps.saturating_sub(other.steps);
        self
    }
}

/// The counters of one turn.
#[derive(Debug)]
pub struct Tally {
    began: Instant,
    used: Mutex<Used>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { began: Instant::now(), used: Mutex::default() }
    }
}

impl Tally {
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Resources used so far.
    pub fn used(&self) -> Used {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, more: Used) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.and(more);
    }
}
