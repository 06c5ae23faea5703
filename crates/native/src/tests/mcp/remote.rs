//! Remote servers.

use protocol::mcp::McpStatus;
use serde_json::json;
use supervision::mcp::Servers;

use super::peer::HttpServer;

/// Returns the status after connecting.
async fn status(servers: &Servers) -> McpStatus {
    servers.ready().await;
    servers.status().await["peer"].clone()
}

#[tokio::test]
async fn a_site_is_called_with_its_headers() {
    let server = HttpServer::new(Some("x-team: blue")).await;
    let servers = server.servers(&json!({ "headers": { "X-Team": "blue" } }));
    assert_eq!(status(&servers).await, McpStatus::Connected);
    let connection = servers.connection("peer").await.unwrap();
    let input = json!({ "a": 41 }).as_object().unwrap().clone();
    let result = connection.call("add", &input).await.unwrap();
    assert_eq!(result.metadata.get("structuredContent"), Some(&json!({ "sum": 42 })));
    servers.close().await;
    let methods = server.methods();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list", "tools/call"]);
}

#[tokio::test]
async fn a_server_that_requires_a_login_has_the_status_needs_auth() {
    let server = HttpServer::new(Some("authorization: bearer sk-right")).await;
    let servers = server.servers(&json!({ "headers": { "Authorization": "Bearer sk-wrong" } }));
    let status = status(&servers).await;
    let McpStatus::NeedsAuth { error: Some(error) } = status else { panic!("{status:?}") };
    assert!(error.contains("`headers`") && !error.contains("sk-"), "{error}");
}

#[tokio::test]
async fn a_site_that_is_not_there_fails_without_its_secrets() {
    let server = HttpServer::new(None).await;
    let config = json!({ "url": "http://ada:sk-first@127.0.0.1:1/mcp?key=sk-second" });
    let servers = server.servers(&config);
    let status = status(&servers).await;
    let McpStatus::Failed { error } = status else { panic!("{status:?}") };
    assert!(error.contains("127.0.0.1:1") && !error.contains("sk-"), "{error}");
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_named_without_its_value() {
    let server = HttpServer::new(None).await;
    let servers = server.servers(&json!({ "headers": { "X-Key": "sk-1\nInjected: yes" } }));
    let expected = "its header \"X-Key\" has a value that is not valid in HTTP";
    assert_eq!(status(&servers).await, McpStatus::Failed { error: expected.to_owned() });
}
