//! Durability of a real process: SIGKILL at any moment, reconnects at any moment.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that cannot continue should fail at once"
)]

mod fleet;
mod kills;
mod reconnects;
