//! Compares recorded messages of real agents, and Baton's own messages, with the official schema.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use agent_client_protocol_schema::v1::{
    CancelNotification, ContentBlock, CreateElicitationRequest, CreateElicitationResponse, HttpHeader,
    InitializeRequest, InitializeResponse, McpServer, McpServerHttp, McpServerStdio, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, RequestPermissionRequest, RequestPermissionResponse,
    SessionNotification, SetSessionModeRequest, SetSessionModeResponse,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::harness::{Harness, SimulatedUser, options};
use super::recordings::{self, Line};
use super::scripts::script;
use crate::acp::{lenient, outgoing, wire};
use crate::roster::External as _;

/// Decodes a message with the schema's types, without mending, and encodes it again.
fn again<T: DeserializeOwned + Serialize>(message: &Value) -> Result<Value, String> {
    let read: T = serde_json::from_value(message.clone()).map_err(|error| error.to_string())?;
    Ok(json!(read))
}

/// Decodes and encodes a message by its method. None if the schema has no type for it.
fn read(method: &str, part: &str, message: &Value) -> Option<Result<Value, String>> {
    Some(match (method, part) {
        ("initialize", "params") => again::<InitializeRequest>(message),
        ("initialize", _) => again::<InitializeResponse>(message),
        ("session/new", "params") => again::<NewSessionRequest>(message),
        ("session/new", _) => again::<NewSessionResponse>(message),
        ("session/set_mode", "params") => again::<SetSessionModeRequest>(message),
        ("session/set_mode", _) => again::<SetSessionModeResponse>(message),
        ("session/prompt", "params") => again::<PromptRequest>(message),
        ("session/prompt", _) => again::<PromptResponse>(message),
        ("session/cancel", _) => again::<CancelNotification>(message),
        ("session/update", _) => again::<SessionNotification>(message),
        ("session/request_permission", "params") => again::<RequestPermissionRequest>(message),
        ("session/request_permission", _) => again::<RequestPermissionResponse>(message),
        ("elicitation/create", "params") => again::<CreateElicitationRequest>(message),
        ("elicitation/create", _) => again::<CreateElicitationResponse>(message),
        _ => return None,
    })
}

/// Collects the paths of values that are lost by decoding. Absent, empty and null count as equal.
fn lost(before: &Value, after: &Value, place: &str, places: &mut BTreeSet<String>) {
    match (before, after) {
        (Value::Object(fields), _) => {
            for (key, value) in fields {
                lost(value, after.get(key).unwrap_or(&Value::Null), &format!("{place}.{key}"), places);
            }
        }
        (Value::Array(entries), _) => {
            for (index, entry) in entries.iter().enumerate() {
                lost(entry, after.get(index).unwrap_or(&Value::Null), &format!("{place}[]"), places);
            }
        }
        (Value::Null, _) => {}
        (before, after)
            if before == after || before.as_f64().is_some_and(|it| after.as_f64() == Some(it)) => {}
        // The schema does not write default values.
        (Value::String(word), Value::Null) if place.ends_with("status") && word == "pending" => {}
        (Value::String(word), Value::Null) if place.ends_with("kind") && word == "other" => {}
        _ => {
            places.insert(place.to_owned());
        }
    }
}

/// Lists the recorded messages that the schema's types cannot decode completely. Each entry is the reason for a type in
/// [`wire`] or a repair in [`lenient`].
#[test]
fn recorded_messages_beyond_the_schema_match_the_list() {
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut frames = 0;
    for name in recordings::names() {
        let agent = name.split('_').next().unwrap();
        let mut asked: BTreeMap<(bool, String), String> = BTreeMap::new();
        for line in recordings::read(&name) {
            let (ours, message) = match line {
                Line::In(message) => (true, message),
                Line::Out(message) => (false, message),
            };
            frames += 1;
            let id = message.get("id").map(Value::to_string).unwrap_or_default();
            let (method, part) = match message["method"].as_str() {
                Some(method) => {
                    asked.insert((ours, id), method.to_owned());
                    (method.to_owned(), "params")
                }
                None if message.get("error").is_some() => continue,
                None => (asked[&(!ours, id)].clone(), "result"),
            };
            let kind = message["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default();
            let what = format!("{agent} {method} {part} {kind}").trim_end().to_owned();
            let mut places = BTreeSet::new();
            match read(&method, part, &message[part]) {
                None => drop(places.insert("(no type)".to_owned())),
                Some(Err(error)) => drop(places.insert(format!("(not read: {error})"))),
                Some(Ok(after)) => lost(&message[part], &after, "", &mut places),
            }
            if !places.is_empty() {
                listed.entry(what).or_default().extend(places);
            }
        }
    }
    assert!(frames > 800, "{frames}");
    let mut text = String::new();
    for (what, places) in listed {
        writeln!(text, "{what}").unwrap();
        for place in places {
            writeln!(text, "    {place}").unwrap();
        }
    }
    insta::assert_snapshot!("schema_gaps", text);
}

/// Baton decodes every recorded request and update, and the repair does not change any of them.
#[test]
fn real_agents_need_no_repair() {
    for name in recordings::names() {
        for line in recordings::read(&name) {
            let Line::Out(mut message) = line else { continue };
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            let repair: fn(&mut Value) = match method.as_str() {
                "session/update" => lenient::notice,
                "session/request_permission" => lenient::permission,
                "elicitation/create" => lenient::form,
                _ => continue,
            };
            let before = message["params"].clone();
            repair(&mut message["params"]);
            assert_eq!(message["params"], before, "{name}");
            if method == "session/update" {
                wire::Notice::read(before).unwrap_or_else(|error| panic!("{name}: {error}"));
            } else {
                wire::asked(&method, before).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }
}

#[test]
fn requests_and_notifications_match_the_schema() {
    let servers = || {
        let local = McpServerStdio::new("files", "serve").args(vec!["-v".to_owned()]);
        let remote =
            McpServerHttp::new("web", "https://example.com/mcp").headers(vec![HttpHeader::new("X", "y")]);
        vec![McpServer::Stdio(local), McpServer::Http(remote)]
    };
    let requests = [
        outgoing::greeting(),
        outgoing::begin("/project", Vec::new()),
        outgoing::begin("/project", servers()),
        outgoing::load("s1", "/project", servers()),
        outgoing::resume("s1", "/project", servers()),
        outgoing::set_mode("s1", "plan"),
        outgoing::set_option("s1", "model", "large"),
        outgoing::set_model("s1", "large"),
        outgoing::prompt("s1", vec![ContentBlock::from("Hello")]),
    ];
    let mut text = String::new();
    for request in requests {
        let params = outgoing::value(&request).to_string().replace(env!("CARGO_PKG_VERSION"), "VERSION");
        writeln!(text, "{} {params}", request.method()).unwrap();
    }
    let cancel = outgoing::cancel("s1");
    writeln!(text, "{} {}", cancel.method(), outgoing::value(&cancel)).unwrap();
    insta::assert_snapshot!("outgoing", text);
}

#[tokio::test]
async fn answers_match_the_schema() {
    let text = r#"begin
        of() { ask "$1" "$2" '{"sessionId":"s1","terminalId":"terminal-1"}'; hear; }
        ask permission session/request_permission '{"sessionId":"s1","toolCall":{"toolCallId":"t1","kind":"execute","title":"make"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"}]}'; hear
        ask nothing-to-pick session/request_permission '{"sessionId":"s1","toolCall":{"toolCallId":"t2","kind":"execute","title":"make"},"options":[]}'; hear
        ask form elicitation/create '{"mode":"form","sessionId":"s1","message":"Sure?","requestedSchema":{"properties":{"sure":{"type":"boolean"}}}}'; hear
        ask address elicitation/create '{"mode":"url","sessionId":"s1","message":"Look","elicitationId":"1","url":"https://example.com"}'; hear
        ask read fs/read_text_file '{"sessionId":"s1","path":"README.md","limit":1}'; hear
        ask write fs/write_text_file '{"sessionId":"s1","path":"new.txt","content":"x"}'; hear
        ask create terminal/create '{"sessionId":"s1","command":"echo hi; exit 3"}'; hear
        of wait terminal/wait_for_exit; of output terminal/output; of kill terminal/kill; of release terminal/release
        ask unknown terminal/kill '{"sessionId":"s1","terminalId":"nobody"}'; hear
        finish; stay"#;
    let mut harness = Harness::new(options(&script(text))).await;
    harness.first_turn(SimulatedUser::Agrees).await;
    let mut text = String::new();
    for message in harness.heard().iter().filter(|message| message.get("method").is_none()) {
        let answer = message.get("result").unwrap_or(&message["error"]);
        writeln!(text, "{} {answer}", message["id"].as_str().unwrap()).unwrap();
    }
    insta::assert_snapshot!("answers", text);
    harness.driver.close().await;
    harness.assert_nothing_is_left();
}
