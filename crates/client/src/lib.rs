//! The Rust SDK for any OpenCode-compatible server.
//!
//! [`Client`] makes the calls and follows the event stream across reconnects. [`streaming`] sends a prompt and
//! reports its progress until it is answered. [`view`] reduces events to the state that a user interface shows.
//! [`check`] verifies a stream of events, and [`recording`] reads one from a file. Nothing here depends on the
//! internals of a server.

pub mod answer;
mod calls;
pub mod check;
mod choices;
mod connection;
mod envelope;
mod error;
mod events;
mod feed;
pub mod id;
mod password;
pub mod recording;
pub mod streaming;
pub mod title;
pub mod tls;
pub mod view;

pub use connection::{CALL_TIMEOUT, Client, MAX_BODY};
pub use error::Error;
pub use events::{EventStream, Received, Scope};
pub use feed::Feed;
pub use password::Password;
