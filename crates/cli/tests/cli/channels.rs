//! `baton channels`: its errors at start, and its management commands.

use serde_json::{Value, json};

use crate::world::World;

fn configure(world: &World, channels: &Value) {
    let directory = world.path("home/.config/opencode");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("baton.json"), json!({ "channels": channels }).to_string()).unwrap();
}

/// A bot whose service does not answer.
fn bot() -> Value {
    json!({ "telegram": { "token": "123:hush", "api": "http://127.0.0.1:1" } })
}

#[tokio::test]
async fn a_missing_or_invalid_channel_is_an_error_with_a_hint() {
    let world = World::new();
    for args in [&["channels"][..], &["serve", "--port", "0", "--channels"]] {
        let ended = world.run_with_data(args).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(
            ended.stderr.contains("no channel is configured") && ended.stderr.contains("baton.json"),
            "{ended:?}"
        );
    }
    configure(&world, &json!({ "telegramm": {} }));
    let ended = world.run_with_data(&["channels", "--attach", "http://127.0.0.1:1"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("telegramm"), "{ended:?}");
    configure(&world, &bot());
    let ended = world.run_with_data(&["channels"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(
        ended.stderr.contains("no server to talk to") && ended.stderr.contains("baton serve"),
        "{ended:?}"
    );
    assert!(!ended.stderr.contains("hush"), "{ended:?}");
}

#[tokio::test]
async fn channels_of_a_project_are_ignored_and_never_shown_to_clients() {
    let world = World::new();
    std::fs::write(world.project().join("baton.json"), json!({ "channels": bot() }).to_string()).unwrap();
    let ended = world.run_with_data(&["channels", "--attach", "http://127.0.0.1:1"]).await;
    assert!(ended.stderr.contains("no channel is configured"), "{ended:?}");
    let server = world.serve().await;
    let config = server.calls.get("/config").await.unwrap();
    assert_eq!(config.get("channels"), None);
    server.stop().await;
}

#[tokio::test]
async fn pairing_codes_are_created_and_users_removed_by_commands() {
    let world = World::new();
    let pair = world.run_with_data(&["channels", "pair"]).await;
    assert_eq!((pair.code, pair.stdout.trim().len()), (Some(0), 8), "{pair:?}");
    let people = world.run_with_data(&["channels", "people"]).await;
    assert_eq!((people.code, people.stdout.as_str()), (Some(0), ""), "{people:?}");
    let unpair = world.run_with_data(&["channels", "unpair", "telegram", "1"]).await;
    assert_eq!(unpair.code, Some(2), "{unpair:?}");
    assert!(unpair.stderr.contains("was not paired"), "{unpair:?}");
}

#[tokio::test]
async fn a_second_gateway_refuses_to_start() {
    let world = World::new();
    configure(&world, &bot());
    let mut first = world.with_data(&["serve", "--port", "0", "--channels"]);
    first.env("NO_COLOR", "1");
    let first = crate::world::Server::start(first).await;
    let second = world.run_with_data(&["channels"]).await;
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains("another gateway is running"), "{second:?}");
    first.stop().await;
}
