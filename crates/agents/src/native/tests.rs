//! Whole turns: the demo model, the native loop and the engine on a log in memory, in a real directory.

mod abort;
mod harness;
mod requests;
mod retries;
mod scenarios;
mod tools;
