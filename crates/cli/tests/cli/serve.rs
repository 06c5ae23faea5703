//! Tests of `baton serve`.

use std::{fs, time::Duration};

use client::check::{Checker, End};
use protocol::{EndReason, EventBody, SessionStatus};
use rustix::process::Signal;
use serde_json::json;
use testkit::watch::Watch;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{Harness, Server};

#[tokio::test]
async fn it_prints_its_address_once_it_listens_and_answers_prompts() {
    let harness = Harness::new();
    let server = harness.serve().await;
    assert_eq!(server.line, format!("baton listening on {}", server.url));
    assert_eq!(server.calls.get("/global/health").await.unwrap()["healthy"], true);
    let session = server.calls.session().await.unwrap();
    let prompt = json!({ "parts": [{ "type": "text", "text": "hello" }] });
    let answer = server.calls.post(&format!("/session/{session}/message"), &prompt).await.unwrap();
    assert_eq!(answer["info"]["role"], "assistant");
    assert_eq!(answer["info"]["modelID"], "baton");
    let found = server.calls.get(&format!("/session/{session}")).await.unwrap();
    assert_eq!(found["directory"], harness.project().to_str().unwrap());
    server.stop().await;
    let log = fs::read_to_string(harness.data().join("log/baton.log")).unwrap();
    let said: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(said.first().unwrap()["fields"]["message"], "listening");
    assert_eq!(said.last().unwrap()["fields"]["message"], "stopped");
    assert!(!harness.data().join("server.url").exists());
}

#[tokio::test]
async fn under_the_name_opencode_it_prints_the_line_opencodes_sdk_waits_for() {
    let harness = Harness::new();
    let name = harness.path("opencode");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_baton"), &name).unwrap();
    let args = ["serve", "--hostname=127.0.0.1", "--port=0", "--log-level=DEBUG", "--print-logs"];
    let mut command = harness.command_of(&name, &args);
    command.env("OPENCODE_CONFIG_CONTENT", r#"{"model":"demo/simple","theme":"system"}"#);
    let server = Server::start(command).await;
    assert_eq!(server.line, format!("opencode server listening on {}", server.url));
    assert_eq!(server.calls.get("/config").await.unwrap()["model"], "demo/simple");
    let session = server.calls.session().await.unwrap();
    let prompt = json!({ "parts": [{ "type": "text", "text": "hello" }] });
    let answer = server.calls.post(&format!("/session/{session}/message"), &prompt).await.unwrap();
    assert_eq!(answer["info"]["modelID"], "simple");
    server.signal(Signal::TERM);
    let (status, said, _) = server.ended().await;
    assert!(status.success());
    assert!(said.contains("listening") && said.contains("DEBUG"), "{said}");
}

#[tokio::test]
async fn a_turn_that_is_running_when_the_server_is_stopped_has_its_one_idle() {
    let harness = Harness::new();
    let server = harness.serve().await;
    let session = server.calls.session().await.unwrap();
    let mut watch = Watch::connect(&server.url, "/event", Some(0)).await.unwrap();
    server.calls.prompt(&session, "slow:10000@20", None).await.unwrap();
    let mut checker = Checker::new();
    let (mut idles, mut pairs, mut stopped) = (Vec::new(), 0, false);
    while let Some(seen) = watch.next().await.unwrap() {
        let found = checker.observe(None, &seen.event);
        assert!(found.is_empty(), "{found:?}");
        match &seen.event.body {
            EventBody::PartDelta(_) if !stopped => {
                stopped = true;
                server.signal(Signal::TERM);
            }
            EventBody::SessionStatus(it) if it.status.is_idle() => idles.push(it.status.clone()),
            EventBody::SessionIdle(_) => pairs += 1,
            _ => {}
        }
    }
    assert_eq!((idles, pairs), (vec![SessionStatus::idle(EndReason::Interrupted)], 1));
    assert!(checker.finish(End::Complete).passed());
    let (status, said, took) = server.ended().await;
    assert!(status.success(), "{status}: {said}");
    assert!(took < Duration::from_secs(5), "{took:?}");

    let again = harness.serve().await;
    assert_eq!(again.calls.get("/session/status").await.unwrap(), json!({}));
    again.stop().await;
}

#[tokio::test]
async fn a_second_signal_ends_the_server_at_once() {
    let harness = Harness::new();
    let server = harness.serve().await;
    // A call whose body does not arrive delays the shutdown until its timeout.
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let mut call = TcpStream::connect(&address).await.unwrap();
    let head = "POST /session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n";
    call.write_all(head.as_bytes()).await.unwrap();
    // The server sends 100 when it waits for the body, and closes its listener on the first signal.
    let mut goes_on = [0; "HTTP/1.1 100".len()];
    call.read_exact(&mut goes_on).await.unwrap();
    assert_eq!(&goes_on, b"HTTP/1.1 100");
    server.signal(Signal::INT);
    while TcpStream::connect(&address).await.is_ok() {}
    server.signal(Signal::INT);
    let (status, ..) = server.ended().await;
    assert_eq!(status.code(), Some(5), "an orderly shutdown has another code");
}

#[tokio::test]
async fn two_servers_do_not_share_a_data_directory() {
    let harness = Harness::new();
    let first = harness.serve().await;
    let second = harness.run_with_data(&["serve", "--port", "0"]).await;
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains("is in use by another server (process "), "{}", second.stderr);
    assert!(second.stderr.contains("hint: --data-dir"), "{}", second.stderr);
    assert_eq!(second.stdout, "");
    assert_eq!(first.calls.get("/global/health").await.unwrap()["healthy"], true);
    first.stop().await;
}

#[tokio::test]
async fn a_port_in_use_is_an_error() {
    let harness = Harness::new();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = harness.run_with_data(&["serve", "--port", &port]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("is in use by another program"), "{}", ended.stderr);
    assert!(ended.stderr.contains("--port 0"), "{}", ended.stderr);
}

#[tokio::test]
async fn an_address_that_other_machines_reach_requires_a_password() {
    let harness = Harness::new();
    let open = harness.run_with_data(&["serve", "--hostname", "0.0.0.0", "--port", "0"]).await;
    assert_eq!(open.code, Some(2), "{open:?}");
    assert!(
        open.stderr.contains("needs a password") && open.stderr.contains("BATON_PASSWORD"),
        "{}",
        open.stderr
    );
    let mut command = harness.with_data(&["serve", "--hostname", "0.0.0.0", "--port", "0"]);
    command.env("BATON_PASSWORD", "secret");
    let closed = Server::start(command).await;
    let refused = closed.calls.get("/session").await.unwrap_err();
    assert!(refused.to_string().contains("401"), "{refused}");
    closed.stop().await;
}

#[tokio::test]
async fn an_unusable_data_directory_is_reported_and_left_unchanged() {
    let harness = Harness::new();
    let blocked = harness.project().join("README.md/data");
    let ended = harness.run(&["serve", "--port", "0", "--data-dir", blocked.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("error: ") && ended.stderr.contains("could not be"), "{}", ended.stderr);

    harness.serve().await.stop().await;
    let database = harness.data().join("baton.db");
    let mut bytes = fs::read(&database).unwrap();
    bytes[60..64].copy_from_slice(&999_u32.to_be_bytes());
    fs::write(&database, &bytes).unwrap();
    let ended = harness.run_with_data(&["serve", "--port", "0"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("newer Baton"), "{}", ended.stderr);
    assert_eq!(fs::read(&database).unwrap(), bytes);
}

#[tokio::test]
async fn a_scenario_file_adds_scenarios() {
    let harness = Harness::new();
    let file = harness.path("more.json");
    let scenario = json!({ "parrot": { "about": "repeats itself", "steps": [[
        { "do": "text", "text": "Hello, hello!" }, { "do": "finish", "reason": "stop" },
    ]] } });
    fs::write(&file, scenario.to_string()).unwrap();
    let options = ["--model", "demo/parrot", "--scenario-file", file.to_str().unwrap()];
    let ended = harness.run_with_data(&[&["run", "hi"], options.as_slice()].concat()).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Hello, hello!\n"), "{ended:?}");
    fs::write(&file, "{\"parrot\": 1}").unwrap();
    let ended = harness.run_with_data(&[&["run", "hi"], options.as_slice()].concat()).await;
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("more.json is not a scenario file"), "{}", ended.stderr);
}

#[tokio::test]
async fn the_history_records_that_a_summary_was_requested() {
    let harness = Harness::new();
    let server = harness.serve().await;
    let session = server.calls.session().await.unwrap();
    let api = format!("/api/session/{session}");
    let prompt = json!({ "prompt": { "text": "hello" } });
    server.calls.post(&format!("{api}/prompt"), &prompt).await.unwrap();
    server.calls.post(&format!("{api}/compact"), &json!({})).await.unwrap();
    server.calls.post(&format!("{api}/wait"), &json!({})).await.unwrap();
    let history = server.calls.get(&format!("{api}/history?limit=100")).await.unwrap();
    let told = |kind: &str| {
        let of_kind = history["data"].as_array().unwrap().iter().find(|event| event["type"] == kind);
        of_kind.unwrap_or_else(|| panic!("no {kind} in {history}"))["data"]["reason"].clone()
    };
    assert_eq!(told("session.next.compaction.started"), "manual");
    assert_eq!(told("session.next.compaction.ended"), "manual");
    server.stop().await;
}
