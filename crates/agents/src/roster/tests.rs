//! Turns of other people's agents, in an engine of their own.

mod abilities;
mod behaviour;
mod choice;
mod continuation;
mod handover;
mod page;
mod scenario;
mod stage;
mod watched;
