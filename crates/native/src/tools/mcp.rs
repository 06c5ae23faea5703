//! Tools of MCP servers: those that the servers provide, and those that read their resources.

mod resources;
mod tool;

use supervision::mcp::Servers;

use super::Tool;

/// Returns the tools of the connected servers, including those for resources.
pub(crate) fn all(servers: &Servers) -> Vec<Box<dyn Tool>> {
    let connections = servers.connections();
    let mut tools = tool::all(&connections);
    if connections.iter().any(|connection| connection.has_resources()) {
        tools.extend(resources::all(servers));
    }
    tools
}
