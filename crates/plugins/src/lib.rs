//! Plugins: whoever looks at turns or shapes them from outside of the engine.

mod chain;
pub mod host;

pub use chain::{Chain, Link};
