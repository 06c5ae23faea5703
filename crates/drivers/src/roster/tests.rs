//! Turns of external agents in a real engine.

mod abilities;
mod behaviour;
mod continuation;
mod handover;
mod page;
mod scenario;
mod scenario_harness;
mod supervised;
