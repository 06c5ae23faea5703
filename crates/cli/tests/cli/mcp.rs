//! MCP servers of a project, as a client of the program sees them.

use std::fs;

use serde_json::{Value, json};

use crate::harness::Harness;

/// The server that the tests of `agents` talk to.
const SCRIPT: &str = include_str!("../../../native/src/tests/mcp/peer.sh");

/// Processes that mention a path in their command line.
fn mentioning(path: &str) -> usize {
    let mentions = |entry: &fs::DirEntry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.windows(path.len()).any(|window| window == path.as_bytes())
    };
    fs::read_dir("/proc").unwrap().flatten().filter(mentions).count()
}

fn configure(harness: &Harness) -> String {
    let script = harness.path("peer.sh").to_str().unwrap().to_owned();
    fs::write(&script, SCRIPT).unwrap();
    let server = json!({ "type": "local", "command": ["bash", script, "plain"], "timeout": 30_000 });
    let config = json!({ "mcp": { "peer": server, "off": { "type": "remote", "url": "http://x.test", "enabled": false } } });
    fs::write(harness.project().join("opencode.json"), config.to_string()).unwrap();
    harness.trust();
    script
}

#[tokio::test]
async fn a_configured_server_is_connected_listed_and_ended_with_the_program() {
    let harness = Harness::new();
    let script = configure(&harness);
    let server = harness.serve().await;
    let status = until_connected(&server.calls).await;
    assert_eq!(status["off"], json!({ "status": "disabled" }));
    assert_eq!(mentioning(&script), 1);
    let ids = server.calls.get("/experimental/tool/ids").await.unwrap();
    let named = |id: &str| ids.as_array().unwrap().contains(&json!(id));
    assert!(named("edit") && named("apply_patch"), "{ids}");
    let tools = server.calls.get("/experimental/tool?provider=demo&model=gpt-5").await.unwrap();
    let patch = tools.as_array().unwrap().iter().find(|tool| tool["id"] == "apply_patch").unwrap();
    assert_eq!(patch["parameters"]["type"], "object");
    let resources = server.calls.get("/experimental/resource").await.unwrap();
    assert_eq!(resources["peer:note://one"]["client"], "peer");
    assert_eq!(server.calls.post("/mcp/peer/disconnect", &json!({})).await.unwrap(), json!(true));
    assert_eq!(mentioning(&script), 0);
    assert_eq!(server.calls.post("/mcp/peer/connect", &json!({})).await.unwrap(), json!(true));
    server.stop().await;
    assert_eq!(mentioning(&script), 0, "it went with the program");
}

/// Waits until the server is connected. On a busy machine that may take longer than `/mcp` waits.
async fn until_connected(calls: &testkit::calls::Calls) -> Value {
    loop {
        let status = calls.get("/mcp").await.unwrap();
        if status["peer"]["status"] == "connected" {
            return status;
        }
        assert_eq!(status["peer"]["error"], "it is still connecting");
    }
}
