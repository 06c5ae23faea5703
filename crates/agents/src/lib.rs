//! Implementations of [`engine::ports::Runner`]: the native loop and the drivers of external agents.
//!
//! A runner talks to the engine only through the turn that it is given. It knows models and the workspace. It
//! does not know how data is stored, which clients watch, or that sessions have a status.

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
