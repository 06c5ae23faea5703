//! Plugins: whoever looks at turns or shapes them from outside of the engine.

pub mod host;
