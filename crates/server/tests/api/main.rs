//! The routes as clients see them: a complete server with a log in memory and a scripted runner, called without
//! a network.

#![allow(clippy::doc_markdown, reason = "OpenCode is a name, not an item")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod commands;
mod configs;
mod continuation;
mod contract;
mod document;
mod edges;
mod files;
mod fleet;
mod generated;
mod harness;
mod instance;
mod mcp;
mod messages;
mod newer;
mod places;
mod prompts;
mod queue;
mod requests;
mod schema;
mod script;
mod sessions;
mod terminals;
mod worktrees;
