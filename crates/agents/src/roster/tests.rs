//! Turns of external agents in a real engine.

mod abilities;
mod choice;
mod continuation;
mod handover;
mod page;
mod scenario;
mod stage;
mod watched;
pub(crate) mod world;
