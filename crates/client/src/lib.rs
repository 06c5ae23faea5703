//! The Rust SDK for any OpenCode-compatible server.
//!
//! [`Client`] makes the calls and follows the event stream across reconnects; [`check`] judges such a stream;
//! [`recording`] reads one from a file. Nothing here knows how a server works inside.

#![warn(missing_docs)]
#![allow(clippy::doc_markdown, reason = "OpenCode is a name, not an item")]

pub mod check;
pub mod recording;
