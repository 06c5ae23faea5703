//! MCP servers: real processes and real connections.

mod local;
mod peer;
mod remote;
mod turns;
