//! What the runs of one turn have used together.
//!
//! A turn may have several runs, and each knows only itself. Budgets are for turns, so the actor keeps one tally for the
//! turn and lends it to each of its runs. It only keeps it: what counts is for runners to say.

use std::sync::{Mutex, PoisonError};

use protocol::{number::Number, session::Tokens};
use tokio::time::Instant;

/// What was used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Money.
    pub cost: Number,
    /// Tokens, read and written.
    pub tokens: u64,
    /// Calls of a model that were steps.
    pub steps: u64,
}

impl Used {
    /// What one call has used; not counted as a step.
    pub fn of(cost: Number, tokens: &Tokens) -> Self {
        let Tokens { input, output, reasoning, cache, .. } = tokens;
        let parts = [*input, *output, *reasoning, cache.read, cache.write];
        Self { cost, tokens: parts.into_iter().fold(0, u64::saturating_add), steps: 0 }
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.cost += other.cost;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.steps = self.steps.saturating_add(other.steps);
        self
    }

    /// What is left of it without the other.
    #[must_use]
    pub fn without(mut self, other: Self) -> Self {
        self.cost += Number(-other.cost.0);
        self.tokens = self.tokens.saturating_sub(other.tokens);
        self.steps = self.steps.saturating_sub(other.steps);
        self
    }
}

/// Counts for one turn.
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
    /// When the turn began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// What the turn has used so far.
    pub fn used(&self) -> Used {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts something more.
    pub fn add(&self, more: Used) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.and(more);
    }
}
