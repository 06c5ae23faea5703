//! Whole turns: the demo model, the native loop and the engine on a log in memory, in a real directory.

mod abort;
mod aborts;
mod attachments;
mod background;
mod budgets;
mod commands;
mod compaction;
mod harness;
mod mcp;
mod outputs;
mod patches;
mod processes;
mod puppet;
mod reading;
mod replay;
mod requests;
mod retries;
mod sandbox;
mod scenarios;
mod search;
mod snapshots;
mod structured;
mod titles;
mod tools;
mod turns;
mod web;
pub(super) mod written;
