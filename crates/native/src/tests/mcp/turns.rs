//! Whole turns with tools of MCP servers.

use std::sync::Arc;

use llm::Purpose;
use protocol::request::{Action, Rule};
use protocol::{EndReason, EventBody, MessageError, ToolState};
use serde_json::{Value, json};
use supervision::mcp::Servers;

use super::peer::{NO_PROCESSES, Peer};
use crate::tests::harness::{Harness, Responder};
use crate::tests::scripted_model::{Reply, ScriptedModel};
use crate::tests::snapshots::Repository;
use crate::{Options, built_in};

async fn harness(peer: &Peer, how: &str, model: &ScriptedModel) -> (Harness, Options) {
    let rules = [Rule::new("peer_*", "*", Action::Ask)];
    let options = Options { agents: built_in(&rules), mcp: peer.servers(how), ..Options::default() };
    (Harness::with_model(Arc::new(model.clone()), options.clone()).await, options)
}

fn calls(tool: &str, input: Value) -> ScriptedModel {
    ScriptedModel::new([Reply::call("c1", tool, input), Reply::text("done")])
}

fn offered(model: &ScriptedModel) -> Vec<String> {
    let first = &model.requests(Purpose::Turn)[0];
    first.tools.iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn a_tool_is_offered_needs_permission_and_returns_its_result() {
    let peer = Peer::new();
    let model = calls("peer_echo", json!({ "text": "hello" }));
    let (mut harness, options) = harness(&peer, "plain", &model).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let tools = harness.tools(&session).await;
    let [ToolState::Completed(state)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!((state.title.as_str(), state.output.as_str()), ("echo", "You said: hello"));
    let asked = |body: &EventBody| match body {
        EventBody::PermissionAsked(asked) => Some((asked.permission.clone(), asked.always.clone())),
        _ => None,
    };
    let asked: Vec<_> = harness.seen.iter().filter_map(|event| asked(&event.body)).collect();
    assert_eq!(asked, [("peer_echo".to_owned(), vec!["*".to_owned()])]);
    let names = offered(&model);
    assert!(names.is_sorted() && names.contains(&"peer_echo".to_owned()), "{names:?}");
    let system = &model.requests(Purpose::Turn)[0].system;
    assert!(system.contains("Instructions from the MCP server peer:\nEcho before you act."), "{system}");
    options.mcp.close().await;
}

#[tokio::test]
async fn file_changes_of_a_tool_belong_to_the_turn() {
    let peer = Peer::new();
    let servers = Servers::default();
    let steps = [Reply::call("c1", "peer_grow", json!({})), Reply::text("done")];
    let mut repository = Repository::with_servers(steps, servers.clone()).await;
    let mut target = serde_json::to_value(peer.target("plain")).unwrap();
    target["cwd"] = json!(repository.harness.project.path());
    servers.add("peer", serde_json::from_value(target).unwrap()).await;
    let session = repository.harness.session().await;
    repository.turn(&session, "please").await;
    assert_eq!(repository.patches(&session).await, [["grown"]]);
    servers.close().await;
}

#[tokio::test]
async fn a_tool_that_is_refused_is_not_called() {
    let peer = Peer::new();
    let (mut harness, options) = harness(&peer, "plain", &calls("peer_grow", json!({}))).await;
    let session = harness.turn("simple", Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Blocked);
    assert!(!peer.place.path().join("grown").exists());
    options.mcp.close().await;
}

#[tokio::test]
async fn an_error_of_a_tool_is_reported_to_the_model() {
    let peer = Peer::new();
    let (mut harness, options) = harness(&peer, "plain", &calls("peer_fail", json!({}))).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    assert!(matches!(&tools[..], [ToolState::Error(state)] if state.error == "no such table"), "{tools:?}");
    assert_eq!(harness.end(&session), EndReason::Completed);
    options.mcp.close().await;
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_fails_the_tool_and_not_the_turn() {
    let peer = Peer::new();
    let (mut harness, options) = harness(&peer, "plain", &calls("peer_die", json!({}))).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    let [ToolState::Error(state)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!(state.error, "the MCP server \"peer\" failed: it has ended");
    assert_eq!(harness.end(&session), EndReason::Completed);
    options.mcp.close().await;
    assert_eq!(peer.processes(), NO_PROCESSES);
}

#[tokio::test]
async fn a_turn_continues_without_a_silent_server_and_warns_once() {
    let peer = Peer::new();
    let model = ScriptedModel::new([Reply::call("c1", "list", json!({})), Reply::text("done")]);
    let (mut harness, options) = harness(&peer, "silent", &model).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let told = |body: &EventBody| match body {
        EventBody::SessionError(it) => match it.error.as_ref()? {
            MessageError::Unknown { message, .. } => Some(message.clone()),
            _ => None,
        },
        _ => None,
    };
    let told: Vec<String> = harness.seen.iter().filter_map(|event| told(&event.body)).collect();
    let expected = "MCP servers are still connecting, so the turn begins without their tools: peer.";
    assert_eq!(told, [expected]);
    assert!(!offered(&model).iter().any(|name| name.starts_with("peer_")));
    options.mcp.close().await;
    assert_eq!(peer.processes(), NO_PROCESSES);
}

#[tokio::test]
async fn an_abort_in_a_call_notifies_the_server_and_leaves_nothing_behind() {
    let peer = Peer::new();
    let (mut harness, options) = harness(&peer, "plain", &calls("peer_wait", json!({}))).await;
    let session = harness.session().await;
    harness.submit(&session, "simple", "please").await;
    let EventBody::PermissionAsked(asked) =
        harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await
    else {
        panic!("no permission was requested")
    };
    let once = protocol::request::PermissionReply::Once;
    harness.sessions.reply_permission(&asked.id, once, None).await.unwrap();
    peer.until_there("waiting").await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Aborted);
    peer.until_there("cancelled").await;
    options.mcp.close().await;
    assert_eq!(peer.processes(), NO_PROCESSES, "what the call started is gone with the server");
}

#[tokio::test]
async fn keys_of_providers_are_not_inherited_but_configured_variables_are_set() {
    let peer = Peer::new();
    let model = calls("peer_variables", json!({}));
    let mut settings = peer.settings();
    // A variable that every environment has.
    settings.hidden = vec!["PATH".to_owned()];
    std::fs::write(
        peer.place.path().join("peer.sh"),
        include_str!("peer.sh")
            .replace("$PROVIDER_KEY", "$(sed -z -n s/^PATH=//p /proc/$$/environ | tr -d '\\0')"),
    )
    .unwrap();
    let mut config = serde_json::to_value(peer.config("plain")).unwrap();
    config["command"][0] = json!("/bin/bash");
    config["environment"] = json!({ "TOKEN": "its own" });
    let servers = super::peer::servers(serde_json::from_value(config).unwrap(), settings);
    let options = Options { mcp: servers, ..Options::default() };
    let mut harness = Harness::with_model(Arc::new(model), options.clone()).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    let [ToolState::Completed(state)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!(state.output, "key: , token: its own");
    options.mcp.close().await;
}

#[tokio::test]
async fn resources_are_read_through_tools() {
    let peer = Peer::new();
    let read = json!({ "server": "peer", "uri": "note://one" });
    let model = ScriptedModel::new([
        Reply::call("c1", "list_mcp_resources", json!({}))
            .and_call("c2", "list_mcp_resource_templates", json!({ "server": "peer" }))
            .and_call("c3", "read_mcp_resource", read)
            .and_call("c4", "read_mcp_resource", json!({ "server": "nobody", "uri": "x" })),
        Reply::text("done"),
    ]);
    let (mut harness, options) = harness(&peer, "plain", &model).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    let [
        ToolState::Completed(list),
        ToolState::Completed(templates),
        ToolState::Completed(note),
        ToolState::Error(no),
    ] = &tools[..]
    else {
        panic!("{tools:?}")
    };
    assert!(list.output.contains("note://one") && list.title == "1 resources", "{list:?}");
    assert!(templates.output.contains("note://{name}"), "{templates:?}");
    assert_eq!(note.output, "the first note");
    assert!(no.error.contains("there is no MCP server \"nobody\""), "{no:?}");
    options.mcp.close().await;
}

#[tokio::test]
async fn a_resource_that_comes_with_a_prompt_is_read_for_the_model() {
    let peer = Peer::new();
    let model = ScriptedModel::new([Reply::text("done")]);
    let (mut harness, options) = harness(&peer, "plain", &model).await;
    let session = harness.session().await;
    let resource = |server: &str| {
        let source = json!({ "type": "resource", "clientName": server, "uri": "note://one" });
        json!({ "type": "file", "mime": "text/plain", "filename": "one", "url": "note://one", "source": source })
    };
    let reference = json!({ "providerID": "demo", "modelID": "m" });
    let input = json!({ "model": reference, "parts": [resource("peer"), resource("nobody")] });
    harness.sessions.submit(&session.id, serde_json::from_value(input).unwrap()).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    let conversations = model.conversations();
    let missing = "cannot attach one: there is no MCP server \"nobody\"";
    assert!(conversations[0].contains("The user attached one: | the first note"), "{conversations:?}");
    assert!(conversations[0].contains(missing), "{conversations:?}");
    options.mcp.close().await;
}

#[tokio::test]
async fn a_prompt_of_a_server_is_a_command_whose_text_is_not_expanded() {
    let peer = Peer::new();
    let model = ScriptedModel::new([Reply::text("done")]);
    let (mut harness, options) = harness(&peer, "plain", &model).await;
    let session = harness.session().await;
    let call = |command: &str, arguments: &str| {
        let input = json!({ "command": command, "arguments": arguments, "model": "demo/m" });
        serde_json::from_value(input).unwrap()
    };
    let unknown = harness.sessions.command(&session.id, call("peer:none", "")).await.unwrap_err().to_string();
    assert!(unknown.ends_with("known commands: peer:review_it"), "{unknown}");
    let empty =
        harness.sessions.command(&session.id, call("peer:review_it", "")).await.unwrap_err().to_string();
    assert!(empty.contains("the argument \"what\" is missing: /peer:review_it <what>"), "{empty}");
    let sessions = harness.sessions.clone();
    let (id, input) = (session.id.clone(), call("peer:review_it", "!`touch run` @README.md"));
    let running = tokio::spawn(async move { sessions.command(&id, input).await });
    harness.until_idle(&session, Responder::AllowOnce).await;
    running.await.unwrap().unwrap();
    let conversations = model.conversations();
    assert_eq!(conversations[0], "user: Review !`touch run` @README.md.");
    assert!(!harness.project.path().join("run").exists());
    options.mcp.close().await;
}
