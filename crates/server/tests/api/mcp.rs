//! MCP servers: listing and switching by clients.

use std::{collections::BTreeMap, sync::Mutex};

use futures::future::{BoxFuture, FutureExt};
use protocol::{
    Extra, Rest,
    agent::{Command, CommandSource},
    config::Mcp,
    mcp::{McpResource, McpStatus, McpTarget},
};
use serde_json::json;
use server::mcp::{McpServers, NoServer};

use crate::harness::Harness;

/// A server called `db` and those that clients add. Enabled servers are connected.
#[derive(Debug)]
pub(crate) struct Pretended(Mutex<BTreeMap<String, McpStatus>>);

impl Default for Pretended {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::from([("db".to_owned(), McpStatus::Connected)])))
    }
}

impl Pretended {
    fn set(&self, name: &str, status: McpStatus) -> Result<(), NoServer> {
        self.0.lock().unwrap().get_mut(name).map(|now| *now = status).ok_or(NoServer)
    }
}

impl McpServers for Pretended {
    fn status(&self) -> BoxFuture<'_, BTreeMap<String, McpStatus>> {
        async { self.0.lock().unwrap().clone() }.boxed()
    }

    fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap().contains_key(name)
    }

    fn connect<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), NoServer>> {
        async { self.set(name, McpStatus::Connected) }.boxed()
    }

    fn disconnect<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), NoServer>> {
        async { self.set(name, McpStatus::Disabled) }.boxed()
    }

    fn add<'a>(&'a self, name: &'a str, config: McpTarget) -> BoxFuture<'a, ()> {
        let status = if Mcp::from(config).enabled() {
            McpStatus::NeedsAuth { error: None }
        } else {
            McpStatus::Disabled
        };
        self.0.lock().unwrap().insert(name.to_owned(), status);
        async {}.boxed()
    }

    fn resources(&self) -> BoxFuture<'_, Vec<McpResource>> {
        let table = McpResource {
            name: "people".to_owned(),
            uri: "db://people".to_owned(),
            description: None,
            mime_type: Some("text/csv".to_owned()),
            client: "db".to_owned(),
            extra: Rest::NONE,
        };
        async { vec![table] }.boxed()
    }

    fn commands(&self) -> BoxFuture<'_, Vec<Command>> {
        let explain = Command {
            name: "db:explain".to_owned(),
            description: None,
            agent: None,
            model: None,
            source: Some(CommandSource::Mcp),
            template: String::new(),
            subtask: None,
            hints: vec!["$1".to_owned()],
            extra: Extra::new(),
        };
        async { vec![explain] }.boxed()
    }
}

#[tokio::test]
async fn a_server_is_switched_off_and_on() {
    let harness = Harness::new();
    assert_eq!(harness.get("/mcp").await, json!({ "db": { "status": "connected" } }));
    assert_eq!(harness.post("/mcp/db/disconnect", json!(null)).await, json!(true));
    assert_eq!(harness.get("/mcp").await, json!({ "db": { "status": "disabled" } }));
    assert_eq!(harness.post("/mcp/db/connect", json!(null)).await, json!(true));
    assert_eq!(harness.get("/mcp").await, json!({ "db": { "status": "connected" } }));
}

#[tokio::test]
async fn a_server_can_be_added() {
    let harness = Harness::new();
    let local =
        json!({ "name": "new one", "config": { "type": "local", "command": ["x"], "enabled": false } });
    let status = harness.post("/mcp", local).await;
    assert_eq!(status["new one"], json!({ "status": "disabled" }));
    let remote = json!({ "name": "far", "config": { "type": "remote", "url": "https://mcp.test" } });
    assert_eq!(harness.post("/mcp", remote).await["far"], json!({ "status": "needs_auth" }));
    assert_eq!(harness.post("/mcp/new%20one/connect", json!(null)).await, json!(true));
    let unknown = json!({ "name": "odd", "config": { "type": "elsewhere" } });
    harness.expect(400, "POST", "/mcp", unknown).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let harness = Harness::new();
    for (method, path) in [
        ("POST", "/mcp/nobody/connect"),
        ("POST", "/mcp/nobody/disconnect"),
        ("POST", "/mcp/nobody/auth"),
        ("DELETE", "/mcp/nobody/auth"),
    ] {
        let error = harness.expect(404, method, path, json!(null)).await;
        let message = "There is no MCP server \"nobody\" in this directory.";
        let expected = json!({ "_tag": "McpServerNotFoundError", "name": "nobody", "message": message });
        assert_eq!(error, expected, "{method} {path}");
    }
}

#[tokio::test]
async fn a_login_is_refused_with_an_explanation() {
    let harness = Harness::new();
    for path in ["/mcp/db/auth", "/mcp/db/auth/callback", "/mcp/db/auth/authenticate"] {
        let error = harness.expect(501, "POST", path, json!({ "code": "x" })).await;
        assert!(error["data"]["message"].as_str().unwrap().contains("`headers`"), "{path}: {error}");
    }
    let gone = harness.expect(200, "DELETE", "/mcp/db/auth", json!(null)).await;
    assert_eq!(gone, json!({ "success": true }));
}

#[tokio::test]
async fn resources_are_listed_with_their_server() {
    let expected = json!({ "db:db://people": {
        "name": "people", "uri": "db://people", "mimeType": "text/csv", "client": "db",
    } });
    assert_eq!(Harness::new().get("/experimental/resource").await, expected);
}

#[tokio::test]
async fn prompts_are_listed_among_the_commands() {
    let expected = json!({ "name": "db:explain", "source": "mcp", "template": "", "hints": ["$1"] });
    assert!(Harness::new().get("/command").await.as_array().unwrap().contains(&expected));
}
