//! Plugins that observe turns or change them through the engine's hooks.

pub mod builtin;
mod chain;
pub mod host;
pub mod webhooks;

pub use chain::{Chain, NamedHooks};
