//! Tests of the client with recordings of OpenCode and with a scripted server.

#![allow(clippy::doc_markdown, reason = "OpenCode is a name, not an item")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod fixtures;
mod server;
mod streaming;
