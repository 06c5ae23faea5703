//! Durability of a real process: SIGKILL at any moment, reconnects at any moment.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot go on should say so and stop"
)]

mod kills;
mod reconnects;
