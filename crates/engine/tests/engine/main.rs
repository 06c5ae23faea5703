//! Tests of the engine through its facade: sessions on an in-memory log, with scripted runners.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should say so and stop"
)]

mod abort;
mod approvals;
mod children;
mod continuations;
mod faults;
mod fencing;
mod file_history;
mod forks;
mod going;
mod harness;
mod histories;
mod hooks;
mod members;
mod orphans;
mod outages;
mod prompts;
mod queue;
mod recovery;
mod requests;
mod retention;
mod revert;
mod simulation;
mod streams;
mod turns;
mod wakes;
