//! Whole turns: the demo model, the native loop and the engine on a log in memory, in a real directory.

mod abort;
mod harness;
mod patches;
mod requests;
mod retries;
mod scenarios;
mod search;
mod tools;
