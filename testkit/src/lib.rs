//! For tests and benchmarks only: a real server process, plain calls to it, and watchers of its streams.
//!
//! Everything here speaks to Baton from outside, as any client would; nothing in the product depends on it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::missing_errors_doc,
    reason = "development only: a person reads the output"
)]

pub mod calls;
pub mod dice;
pub mod platforms;
pub mod process;
pub mod watch;
