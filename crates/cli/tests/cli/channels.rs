//! `baton channels`: its errors at start, and its management commands.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::Harness;

fn configure(harness: &Harness, channels: &Value) {
    let directory = harness.path("home/.config/opencode");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("baton.json"), json!({ "channels": channels }).to_string()).unwrap();
}

/// A bot whose service does not answer.
fn bot() -> Value {
    json!({ "telegram": { "token": "123:hush", "api": "http://127.0.0.1:1" } })
}

#[tokio::test]
async fn a_missing_or_invalid_channel_is_an_error_with_a_hint() {
    let harness = Harness::new();
    for args in [&["channels"][..], &["serve", "--port", "0", "--channels"]] {
        let ended = harness.run_with_data(args).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(
            ended.stderr.contains("no channel is configured") && ended.stderr.contains("baton.json"),
            "{ended:?}"
        );
    }
    configure(&harness, &json!({ "telegramm": {} }));
    let ended = harness.run_with_data(&["channels", "--attach", "http://127.0.0.1:1"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("telegramm"), "{ended:?}");
    configure(&harness, &bot());
    let ended = harness.run_with_data(&["channels"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(
        ended.stderr.contains("no server to talk to") && ended.stderr.contains("baton serve"),
        "{ended:?}"
    );
    assert!(!ended.stderr.contains("hush"), "{ended:?}");
}

#[tokio::test]
async fn a_wrong_setting_is_reported_with_file_line_key_and_advice() {
    let harness = Harness::new();
    let telegram = |key: &str, value: &Value| {
        let mut bot = bot();
        bot["telegram"][key] = value.clone();
        bot
    };
    let mut elsewhere = bot();
    elsewhere["directory"] = json!("/nowhere/at/all");
    for (channels, key, advice) in [
        (telegram("allow", &json!([1])), "channels.telegram.allow[0]", "write the id in quotes"),
        (telegram("allow", &json!(["@ada"])), "channels.telegram.allow", "use the numeric id"),
        (
            telegram("token", &json!("{env:NO_TOKEN}")),
            "channels.telegram.token",
            "the variable NO_TOKEN is not set",
        ),
        (elsewhere, "channels.directory", "there is no directory /nowhere/at/all"),
        (json!({ "router": { "timeoutMs": 0 } }), "channels.router.timeoutMs", "use at least 1000"),
        (
            json!({ "router": { "progress": { "heartbeatMs": 5 } } }),
            "channels.router.progress.heartbeatMs",
            "use at least 10000",
        ),
        (json!({ "listen": "localhost" }), "channels.listen", "127.0.0.1:4097"),
    ] {
        configure(&harness, &channels);
        // Only a server on the same machine needs the directory there.
        let is_server = key == "channels.directory";
        let args = if is_server { &["serve", "--port", "0", "--channels"][..] } else { &["channels"] };
        let ended = harness.run_with_data(args).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        for part in ["/opencode/baton.json:1:", &format!("`{key}`"), advice, "baton channels --help"] {
            assert!(ended.stderr.contains(part), "{part}: {ended:?}");
        }
        assert!(!ended.stderr.contains("hush") && !ended.stderr.contains("docs/"), "{ended:?}");
    }
}

#[tokio::test]
async fn the_states_of_channels_are_shown_and_go_stale_with_their_gateway() {
    let harness = Harness::new();
    let status = async |args: &[&str]| {
        let ended = harness.run_with_data(&[&["channels", "status"], args].concat()).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    };
    assert_eq!(status(&[]).await, "", "no gateway has run yet");
    configure(&harness, &bot());
    let mut command = harness.with_data(&["serve", "--port", "0", "--channels"]);
    command.env("NO_COLOR", "1");
    let server = crate::harness::Server::start(command).await;
    let states = server.calls.get("/channel").await.unwrap();
    assert_eq!(states[0]["name"], "telegram", "{states}");
    let state = states[0]["state"].as_str().unwrap();
    assert!(["connecting", "reconnecting"].contains(&state), "its service does not answer: {states}");
    assert!(status(&[]).await.starts_with("telegram\t"));
    server.signal(Signal::KILL);
    server.ended().await;
    assert_eq!(status(&[]).await, "telegram\tstopped: the gateway ended unexpectedly\n");
    let server = harness.serve().await;
    let states = server.calls.get("/channel").await.unwrap();
    assert_eq!(states[0]["state"], "stopped", "another process reads the same: {states}");
    server.stop().await;
    let lines = status(&["--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&lines).unwrap()["state"], "stopped");
}

#[tokio::test]
async fn channels_of_a_project_are_ignored_and_never_shown_to_clients() {
    let harness = Harness::new();
    std::fs::write(harness.project().join("baton.json"), json!({ "channels": bot() }).to_string()).unwrap();
    let ended = harness.run_with_data(&["channels", "--attach", "http://127.0.0.1:1"]).await;
    assert!(ended.stderr.contains("no channel is configured"), "{ended:?}");
    let server = harness.serve().await;
    let config = server.calls.get("/config").await.unwrap();
    assert_eq!(config.get("channels"), None);
    server.stop().await;
}

#[tokio::test]
async fn pairing_codes_are_created_and_users_removed_by_commands() {
    let harness = Harness::new();
    let pair = harness.run_with_data(&["channels", "pair"]).await;
    assert_eq!((pair.code, pair.stdout.trim().len()), (Some(0), 8), "{pair:?}");
    let people = harness.run_with_data(&["channels", "people"]).await;
    assert_eq!((people.code, people.stdout.as_str()), (Some(0), ""), "{people:?}");
    let unpair = harness.run_with_data(&["channels", "unpair", "telegram", "1"]).await;
    assert_eq!(unpair.code, Some(2), "{unpair:?}");
    assert!(unpair.stderr.contains("was not paired"), "{unpair:?}");
}

#[tokio::test]
async fn a_second_gateway_refuses_to_start() {
    let harness = Harness::new();
    configure(&harness, &bot());
    let mut first = harness.with_data(&["serve", "--port", "0", "--channels"]);
    first.env("NO_COLOR", "1");
    let first = crate::harness::Server::start(first).await;
    let second = harness.run_with_data(&["channels"]).await;
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains("another gateway is running"), "{second:?}");
    first.stop().await;
}
