//! Decides when a session is busy, what runs next, and the one moment it becomes idle.
//!
//! The lifecycle is a pure function: inputs go in, effects come out. It never waits, never reads the clock and
//! never fails, so tests can explore it exhaustively ([`explore`](self)) and fold it over a log.
//!
//! Vocabulary: a *turn* is the time from busy to idle. A turn has one or more *runs*, each one call of a runner:
//! when a run ends and prompts are waiting, or a continuation prolongs the turn, the next run starts in the same
//! turn. A run has a number that is never reused, so late reports of a finished run are recognised and dropped.

pub mod continuation;
mod machine;
#[cfg(test)]
mod tests;

pub use machine::{Effect, Input, Lifecycle, Run, Stop};
