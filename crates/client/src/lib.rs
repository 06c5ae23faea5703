//! The Rust SDK for any OpenCode-compatible server.
//!
//! [`Client`] makes the calls and follows the event stream across reconnects; [`check`] judges such a stream;
//! [`recording`] reads one from a file. Nothing here knows how a server works inside.

#![warn(missing_docs)]

mod calls;
pub mod check;
mod connection;
mod envelope;
mod error;
mod events;
mod password;
pub mod recording;
mod tls;

pub use connection::{CALL_TIMEOUT, Client, MAX_BODY};
pub use error::Error;
pub use events::{EventStream, Received, Scope};
pub use password::Password;
