//! MCP servers: real processes and real connections.

mod local;
pub(super) mod peer;
mod remote;
mod turns;
