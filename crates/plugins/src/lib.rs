//! Plugins: whoever looks at turns or shapes them from outside of the engine.

pub mod builtin;
mod chain;
pub mod host;
pub mod webhooks;

pub use chain::{Chain, Link};
