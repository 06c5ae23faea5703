//! Tools for tests and benchmarks only: a real server process, plain calls to it, and readers of its event streams.
//!
//! Everything here talks to Baton from outside, as any client does; nothing in the product depends on it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::missing_errors_doc,
    reason = "development only: a developer reads the output"
)]

pub mod breaker;
pub mod calls;
pub mod dice;
pub mod platforms;
pub mod postgres;
pub mod process;
pub mod published;
pub mod watch;
