//! The Rust SDK for any OpenCode-compatible server.
//!
//! [`Client`] makes the calls and follows the event stream across reconnects; [`streaming`] sends a
//! prompt and reports on it until it is answered; [`view`] turns events into what a user interface shows; [`check`] judges one and [`recording`] reads one from a file. Nothing here knows how a server works inside.

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
pub mod view;

pub use connection::{CALL_TIMEOUT, Client, MAX_BODY};
pub use error::Error;
pub use events::{EventStream, Received, Scope};
pub use feed::Feed;
pub use password::Password;
