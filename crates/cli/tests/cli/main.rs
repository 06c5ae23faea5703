//! The real program from outside: its output, its responses and its exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot continue should fail at once"
)]

mod agents;
mod auto_commit;
mod change;
mod channels;
mod check;
mod config;
mod directories;
mod harness;
mod help;
mod mcp;
mod nodes;
mod provider;
mod run;
mod serve;
mod sessions;
mod store;
mod trust;
mod webhooks;
