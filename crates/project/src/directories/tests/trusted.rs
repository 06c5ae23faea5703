//! Trust: the parts of a project's configuration that are withheld, and the files that no configuration reads.

use std::fs;

use protocol::mcp::McpStatus;
use serde_json::{Value, json};
use server::Instances;

use super::harness::Harness;

fn with_server() -> Value {
    json!({ "username": "ada", "mcp": { "db": { "type": "local", "command": ["no-such-program"] } } })
}

async fn status(harness: &Harness, directory: &str) -> Option<McpStatus> {
    let instance = harness.instance(directory).await;
    instance.mcp.as_ref().unwrap().status().await.remove("db")
}

async fn withheld(harness: &Harness, directory: &str) -> Vec<String> {
    let trust = harness.directories.trust(directory).await.unwrap();
    trust.withheld.into_iter().map(|part| part.key).collect()
}

#[tokio::test]
async fn an_mcp_server_of_a_project_is_withheld_until_the_directory_is_trusted() {
    let harness = Harness::new();
    let directory = harness.project("p", &with_server());
    let Some(McpStatus::Failed { error }) = status(&harness, &directory).await else {
        panic!("not withheld")
    };
    assert!(error.contains(&format!("baton trust {directory}")), "{error}");
    assert_eq!(withheld(&harness, &directory).await, ["mcp.db"]);
    let instance = harness.instance(&directory).await;
    assert!(!instance.mcp.as_ref().unwrap().has("db"));
    assert_eq!(instance.config["username"], "ada", "the rest of the configuration counts");

    harness.directories.set_trust(&directory, true).await.unwrap();
    assert_eq!(status(&harness, &directory).await, Some(McpStatus::Disabled), "listing starts no server");
    assert_eq!(withheld(&harness, &directory).await, [""; 0]);
    assert!(harness.instance(&directory).await.mcp.as_ref().unwrap().has("db"));

    harness.directories.set_trust(&directory, false).await.unwrap();
    assert_eq!(withheld(&harness, &directory).await, ["mcp.db"]);
}

#[tokio::test]
async fn clients_are_warned_about_withheld_parts_once() {
    let harness = Harness::new();
    let directory = harness.project("p", &with_server());
    for _ in 0..2 {
        harness.resolve(&directory, None).await.unwrap();
    }
    assert_eq!(harness.bus.stats().published, 1);
    let warning = harness.directories.begin(&directory).await.unwrap();
    assert!(warning.contains("mcp.db (an MCP server)"), "{warning}");
    harness.directories.close().await;
}

#[tokio::test]
async fn plugins_wait_for_the_address_of_the_server() {
    let harness = Harness::new();
    harness.configure_user(&json!({ "plugin": ["some-plugin"] }));
    let directory = harness.project("p", &json!({}));
    assert!(harness.directories.want_server(&directory).await);
    let project = harness.directories.project(&directory).await.unwrap();
    assert!(project.plugins.host().is_none());
    assert!(!project.is_stale(&harness.directories.services).await);
}

#[tokio::test]
async fn a_configuration_cannot_read_the_files_of_baton() {
    let harness = Harness::new();
    let secret = harness.data().join("auth.json");
    fs::write(&secret, "{}").unwrap();
    let directory = harness.project("p", &json!({ "username": format!("{{file:{}}}", secret.display()) }));
    harness.directories.set_trust(&directory, true).await.unwrap();
    let invalid = harness.find(&directory).await.unwrap_err();
    assert!(invalid.message.contains("private data of Baton"), "{invalid}");
}
