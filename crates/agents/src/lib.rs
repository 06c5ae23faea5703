//! Who takes a turn: implementations of [`engine::ports::Runner`].
//!
//! A runner talks to the engine through the turn it is given and to nobody else. It knows models and the
//! workspace; it does not know how anything is stored, who watches, or that there is such a thing as idle.

pub mod acp;
mod budget;
pub mod claude;
pub mod codex;
pub mod external;
pub mod jsonrpc;
pub mod native;
pub mod opencode;
#[cfg(test)]
mod published;
pub mod roster;
mod snapshots;

pub use roster::{Missing, Roster};
pub use snapshots::Snapshots;
