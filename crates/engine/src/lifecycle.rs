//! When a session is busy, what runs next, and the one moment it becomes idle.
//!
//! A pure state machine: inputs go in, effects come out. It never waits, never asks the time and never
//! fails, so it can be explored exhaustively ([`explore`](self) in the tests) and folded over a log.
//!
//! Vocabulary: a *turn* is the time from busy to idle. Within a turn there may be several *runs*, each one
//! call of a runner: when a run ends and prompts are waiting, or something lets the turn go on, the next run
//! starts in the same turn. A run is named by a number that is never used again, so what a finished run still says is recognised and dropped.

pub mod continuation;
mod machine;
#[cfg(test)]
mod tests;

pub use machine::{Effect, Input, Lifecycle, Run, Stop};
