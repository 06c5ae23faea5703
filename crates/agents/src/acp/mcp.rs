//! The MCP servers of the configuration, as an agent is told about them.

use std::collections::BTreeMap;

use protocol::config::Mcp;
use serde_json::{Value, json};

use super::wire::McpCapabilities;

/// The servers that an agent can reach.
pub(super) fn servers(servers: &BTreeMap<String, Mcp>, able: McpCapabilities) -> Vec<Value> {
    let told = servers.iter().filter(|(_, server)| server.enabled());
    told.filter_map(|(name, server)| match server {
        Mcp::Local(local) => {
            let (program, args) = local.command.split_first()?;
            let env = pairs(&local.environment.0);
            Some(json!({ "name": name, "command": program, "args": args, "env": env }))
        }
        Mcp::Remote(remote) if able.http => {
            let headers = pairs(&remote.headers.0);
            Some(json!({ "type": "http", "name": name, "url": remote.url, "headers": headers }))
        }
        Mcp::Remote(_) | Mcp::Switch(_) => None,
    })
    .collect()
}

fn pairs(values: &BTreeMap<String, String>) -> Vec<Value> {
    values.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_as_far_as_they_can_be_reached() {
        let config: BTreeMap<String, Mcp> = serde_json::from_value(json!({
            "files": { "type": "local", "command": ["serve", "-v"], "environment": { "A": "b" } },
            "off": { "type": "local", "command": ["serve"], "enabled": false },
            "web": { "type": "remote", "url": "https://example.com/mcp", "headers": { "X": "y" } },
        }))
        .unwrap();
        let local = json!({ "name": "files", "command": "serve", "args": ["-v"], "env": [{ "name": "A", "value": "b" }] });
        assert_eq!(servers(&config, McpCapabilities { http: false }), std::slice::from_ref(&local));
        let remote = json!({
            "type": "http", "name": "web", "url": "https://example.com/mcp", "headers": [{ "name": "X", "value": "y" }],
        });
        assert_eq!(servers(&config, McpCapabilities { http: true }), [local, remote]);
    }
}
