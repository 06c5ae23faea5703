//! Turns of other people's agents, in an engine of their own.

mod choice;
mod page;
mod scenario;
mod watched;
pub(crate) mod world;
