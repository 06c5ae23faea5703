//! Converts the configured MCP servers into the protocol's form.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    EnvVariable, HttpHeader, McpCapabilities, McpServer, McpServerHttp, McpServerStdio,
};
use protocol::config::Mcp;

/// The enabled servers whose transport the agent supports.
pub(super) fn servers(servers: &BTreeMap<String, Mcp>, able: &McpCapabilities) -> Vec<McpServer> {
    let told = servers.iter().filter(|(_, server)| server.enabled());
    told.filter_map(|(name, server)| match server {
        Mcp::Local(local) => {
            let (program, args) = local.command.split_first()?;
            let env = local.environment.0.iter().map(|(name, value)| EnvVariable::new(name, value)).collect();
            let server = McpServerStdio::new(name, program).args(args.to_vec()).env(env);
            Some(McpServer::Stdio(server))
        }
        Mcp::Remote(remote) if able.http => {
            let headers = remote.headers.0.iter().map(|(name, value)| HttpHeader::new(name, value)).collect();
            Some(McpServer::Http(McpServerHttp::new(name, &remote.url).headers(headers)))
        }
        Mcp::Remote(_) | Mcp::Switch(_) => None,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_with_an_unsupported_transport_are_left_out() {
        let config: BTreeMap<String, Mcp> = serde_json::from_value(json!({
            "files": { "type": "local", "command": ["serve", "-v"], "environment": { "A": "b" } },
            "off": { "type": "local", "command": ["serve"], "enabled": false },
            "web": { "type": "remote", "url": "https://example.com/mcp", "headers": { "X": "y" } },
        }))
        .unwrap();
        let told = |http: bool| json!(servers(&config, &McpCapabilities::new().http(http)));
        let local = json!({ "name": "files", "command": "serve", "args": ["-v"], "env": [{ "name": "A", "value": "b" }] });
        assert_eq!(told(false), json!([local]));
        let remote = json!({
            "type": "http", "name": "web", "url": "https://example.com/mcp", "headers": [{ "name": "X", "value": "y" }],
        });
        assert_eq!(told(true), json!([local, remote]));
    }
}
