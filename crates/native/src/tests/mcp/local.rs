//! Servers that are local programs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use protocol::mcp::McpStatus;
use serde_json::json;
use supervision::limits::MCP_LISTED;
use supervision::mcp::{Content, Error, Servers, Settings};

use super::peer::{NO_PROCESSES, Peer, servers, until};
use crate::tools::{Tool, mcp};

/// Returns the status after connecting.
async fn status(servers: &Servers) -> McpStatus {
    servers.ready().await;
    servers.status().await["peer"].clone()
}

fn failed(status: McpStatus) -> String {
    match status {
        McpStatus::Failed { error } => error,
        other => panic!("it did not fail: {other:?}"),
    }
}

fn names(tools: &[Box<dyn Tool>]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name()).collect()
}

#[tokio::test]
async fn a_program_is_started_when_it_is_needed_and_ended_when_it_is_not() {
    let peer = Peer::new();
    let servers = peer.servers("plain");
    assert_eq!(servers.status().await["peer"], McpStatus::Disabled);
    assert!(servers.resources().await.is_empty() && servers.prompts().await.is_empty());
    assert_eq!(peer.processes(), NO_PROCESSES, "looking starts nothing");
    assert_eq!(status(&servers).await, McpStatus::Connected);
    assert_eq!(peer.processes().len(), 1);
    servers.disconnect("peer").await.unwrap();
    assert_eq!(peer.processes(), NO_PROCESSES);
    assert_eq!(status(&servers).await, McpStatus::Disabled);
    assert_eq!(names(&mcp::all(&servers)), [""; 0]);
    servers.connect("peer").await.unwrap();
    assert_eq!(status(&servers).await, McpStatus::Connected);
    servers.close().await;
    assert_eq!(peer.processes(), NO_PROCESSES);
}

#[tokio::test]
async fn dropping_the_handle_ends_the_program() {
    let peer = Peer::new();
    let servers = peer.servers("plain");
    assert_eq!(status(&servers).await, McpStatus::Connected);
    drop(servers);
    until(|| peer.processes().is_empty()).await;
}

#[tokio::test]
async fn tools_resources_and_prompts_have_their_names() {
    let peer = Peer::new();
    let servers = peer.servers("plain");
    assert_eq!(servers.connect_within(Duration::from_secs(20)).await, [""; 0]);
    let expected = ["peer_echo", "peer_fail", "peer_die", "peer_wait", "peer_grow", "peer_variables"];
    let resources = ["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"];
    assert_eq!(names(&mcp::all(&servers)), [&expected[..], &resources[..]].concat());
    assert_eq!(servers.instructions(), [("peer".to_owned(), "Echo before you act.".to_owned())]);
    let [note] = &servers.resources().await[..] else { panic!("there is one resource") };
    assert_eq!((note.uri.as_str(), note.client.as_str()), ("note://one", "peer"));
    let read = servers.read("peer", "note://one").await.unwrap();
    assert_eq!(read, [Content::Text("the first note".to_owned())]);
    let [prompt] = &servers.prompts().await[..] else { panic!("there is one prompt") };
    assert_eq!((prompt.name.as_str(), prompt.prompt.as_str()), ("peer:review_it", "review it"));
    assert!(prompt.arguments[0].required);
    let arguments = BTreeMap::from([("what".to_owned(), "the change".to_owned())]);
    let said = servers.prompt(prompt, &arguments).await.unwrap();
    assert_eq!(said, [Content::Text("Review the change.".to_owned())]);
    assert_eq!(servers.connect("nobody").await, Err(Error::Unknown("nobody".to_owned())));
    servers.close().await;
}

#[tokio::test]
async fn a_failed_program_is_reported_with_its_output_and_without_secrets() {
    let peer = Peer::new();
    let servers = peer.servers("broken");
    let error = failed(status(&servers).await);
    assert_eq!(error, "its program ended with code 3; it wrote: cannot open the database with …");
    assert_eq!(peer.processes(), NO_PROCESSES);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let config = serde_json::from_value(json!({ "type": "local", "command": ["/nonexistent/server"] }));
    let servers = servers(config.unwrap(), Settings::default());
    let error = failed(status(&servers).await);
    assert!(error.starts_with("cannot start `/nonexistent/server`: "), "{error}");
}

#[tokio::test]
async fn a_program_that_never_answers_is_given_up_and_ended() {
    let peer = Peer::new();
    let mut config = serde_json::to_value(peer.config("silent")).unwrap();
    config["timeout"] = json!(300);
    let servers = servers(serde_json::from_value(config).unwrap(), peer.settings());
    let error = failed(status(&servers).await);
    assert!(error.contains("did not answer within 300 ms"), "{error}");
    until(|| peer.processes().is_empty()).await;
}

#[tokio::test]
async fn a_flood_of_errors_changes_nothing() {
    let peer = Peer::new();
    let servers = peer.servers("flood");
    assert_eq!(status(&servers).await, McpStatus::Connected);
    servers.close().await;
}

#[tokio::test]
async fn endless_lists_of_tools_are_cut() {
    let peer = Peer::new();
    let servers = peer.servers("many");
    servers.connect_within(Duration::from_secs(20)).await;
    let tools = mcp::all(&servers);
    let brought = tools.iter().filter(|tool| tool.name().starts_with("peer_tool-")).count();
    assert!(brought > 900 && brought <= MCP_LISTED, "{brought}");
    servers.close().await;
}

#[tokio::test]
async fn a_disabled_server_is_not_started_until_a_client_connects_it() {
    let peer = Peer::new();
    let mut config = serde_json::to_value(peer.config("plain")).unwrap();
    config["enabled"] = json!(false);
    let servers = servers(serde_json::from_value(config).unwrap(), peer.settings());
    assert_eq!(status(&servers).await, McpStatus::Disabled);
    assert_eq!(peer.processes(), NO_PROCESSES);
    servers.connect("peer").await.unwrap();
    assert_eq!(status(&servers).await, McpStatus::Connected);
    servers.close().await;
}

#[tokio::test]
async fn a_server_that_died_comes_back() {
    let peer = Peer::new();
    let servers = peer.servers("plain");
    assert_eq!(status(&servers).await, McpStatus::Connected);
    let [first] = peer.processes()[..] else { panic!("there is one process") };
    end(first);
    until(|| peer.processes().iter().any(|process| *process != first)).await;
    assert_eq!(status(&servers).await, McpStatus::Connected);
    servers.close().await;
    assert_eq!(peer.processes(), NO_PROCESSES);
}

fn end(process: u32) {
    let id = process.to_string();
    #[expect(clippy::disallowed_methods, reason = "a test that kills what it started")]
    let killed = std::process::Command::new("kill").args(["-KILL", &id]).status().unwrap();
    assert!(killed.success());
}

#[tokio::test]
async fn servers_are_added_and_replaced_while_others_run() {
    let peer = Peer::new();
    let servers = Servers::new(&BTreeMap::new(), peer.settings());
    assert_eq!(servers.status().await, BTreeMap::new());
    servers.add("peer", peer.target("plain")).await;
    assert_eq!(status(&servers).await, McpStatus::Connected);
    servers.add("peer", peer.target("broken")).await;
    assert!(failed(status(&servers).await).contains("code 3"));
    assert_eq!(peer.processes(), NO_PROCESSES, "the one before is gone");
}

#[tokio::test]
async fn changes_of_tools_are_reported_to_the_callback() {
    let peer = Peer::new();
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    let changed: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(move |server: &str| {
        assert_eq!(server, "peer");
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let settings = Settings { changed: Some(changed), ..peer.settings() };
    let servers = servers(peer.config("plain"), settings);
    assert_eq!(status(&servers).await, McpStatus::Connected);
    until(|| told.load(Ordering::Relaxed) == 1).await;
    std::fs::write(peer.place.path().join("grown"), "").unwrap();
    // The server reports the change when it is called; the result of the call does not matter here.
    let connection = servers.connection("peer").await.unwrap();
    connection.call("grow", &protocol::Extra::new()).await.unwrap();
    until(|| told.load(Ordering::Relaxed) == 2).await;
    assert!(names(&mcp::all(&servers)).contains(&"peer_new_tool"));
    servers.close().await;
}

#[tokio::test]
async fn a_turn_that_asks_while_it_connects_does_not_wait_for_ever() {
    let peer = Peer::new();
    let servers = peer.servers("silent");
    let began = Instant::now();
    assert_eq!(servers.connect_within(Duration::from_millis(50)).await, ["peer"]);
    assert!(began.elapsed() < Duration::from_secs(5));
    servers.close().await;
    assert_eq!(peer.processes(), NO_PROCESSES);
}
