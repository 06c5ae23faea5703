//! Failures of the server and of the ledger.

use std::time::Duration;

use serde_json::json;

use super::world::{Setup, World, place};
use crate::{settings, words};

#[tokio::test]
async fn a_message_is_tried_again_when_the_server_was_away() {
    let mut world = World::new().await;
    world.server.fail("/session", 503, 2);
    world.say("hi").await;
    world.server.called("POST /session").await;
    world.heard(words::AWAY).await;
    for seconds in [1, 2] {
        world.retried().await;
        world.pass(Duration::from_secs(seconds)).await;
    }
    let prompt = world.server.prompt(0).await;
    world.server.answer(&prompt, "back again");
    world.heard("back again").await;
    world.rest().await;
    assert_eq!(world.texts(), [words::AWAY, "back again"]);
}

#[tokio::test]
async fn a_prompt_that_may_have_arrived_keeps_its_id() {
    let mut world = World::new().await;
    world.server.fail("/prompt_async", 503, 1);
    world.say("hi").await;
    let first = world.server.called("POST /session/ses_1/prompt_async").await;
    world.retried().await;
    world.pass(Duration::from_secs(1)).await;
    let prompt = world.server.prompt(0).await;
    assert!(first.contains(&prompt.id), "{first}");
    assert_eq!(world.server.calls("POST /session/ses_1/prompt_async"), 2);
}

#[tokio::test]
async fn after_twelve_failures_a_message_is_set_aside_and_the_next_has_its_turn() {
    let mut world = World::new().await;
    world.server.fail("/session", 503, 12);
    world.say("unlucky").await;
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60] {
        world.retried().await;
        world.pass(Duration::from_secs(seconds)).await;
    }
    world.heard("The server could not be reached in 12 attempts.").await;
    assert_eq!(world.chat.count(&place(), "The server cannot be reached right now."), 1);
    let aside = world.ledger.aside().await.unwrap();
    assert_eq!(aside.len(), 1);
    assert!(world.server.prompts().is_empty());
    let prompt = world.prompt("lucky").await;
    assert_eq!(prompt.text(), "lucky");
}

#[tokio::test]
async fn a_refused_prompt_is_reported_at_once() {
    let mut world = World::new().await;
    world.server.fail("/prompt_async", 400, 1);
    world.say("hi").await;
    world.heard("The server refused your message: not to be had").await;
    world.rest().await;
    assert!(world.ledger.aside().await.unwrap().len() == 1);
}

#[tokio::test]
async fn a_turn_that_is_silent_for_too_long_is_stopped_and_reported() {
    let settings = settings::Router { timeout_ms: 30_000, ..settings::Router::default() };
    let mut world = World::with(Setup { settings, ..Setup::default() }).await;
    let prompt = world.prompt("count to infinity").await;
    world.server.busy(&prompt.session);
    world.settled().await;
    world.pass(Duration::from_secs(30)).await;
    world.server.called("POST /session/ses_1/abort").await;
    world.heard("Stopped, because nothing happened for 30 s.").await;
}

#[tokio::test]
async fn a_broken_stream_is_resumed_and_half_an_answer_is_not_the_answer() {
    let mut world = World::new().await;
    let prompt = world.prompt("tell me").await;
    world.server.busy(&prompt.session);
    world.server.step(&prompt, &[json!({ "type": "text", "text": "Half" })]);
    world.settled().await;
    world.server.break_streams();
    world.server.connected(2).await;
    assert_eq!(world.chat.count(&place(), "Half"), 0);
    world.server.step(&prompt, &[json!({ "type": "text", "text": "and half." })]);
    world.server.idle(&prompt.session);
    world.heard("Half\n\nand half.").await;
}

#[tokio::test]
async fn a_message_is_answered_when_there_is_space_again() {
    let mut world = World::new().await;
    // First storing the prompt fails, then storing the user's last message.
    for (change, table) in [("UPDATE", "updates"), ("INSERT", "places")] {
        let number = world.server.prompts().len();
        world.ledger.refuse(change, table, "true").await;
        world.say("hi").await;
        world.tried().await;
        assert_eq!(world.server.prompts().len(), number, "nothing is run that is not noted");
        world.ledger.relent().await;
        world.pass(Duration::from_secs(1)).await;
        let prompt = world.server.prompt(number).await;
        world.server.answer(&prompt, table);
        world.heard(table).await;
        world.rest().await;
    }
    assert_eq!(world.texts(), ["updates", "places"]);
}

#[tokio::test]
async fn an_answer_that_could_not_be_stored_is_sent_once() {
    let mut world = World::new().await;
    let prompt = world.prompt("hi").await;
    world.settled().await;
    world.ledger.refuse("INSERT", "posts", "true").await;
    world.server.answer(&prompt, "hello");
    world.tried().await;
    assert_eq!(world.chat.count(&place(), "hello"), 0);
    world.ledger.relent().await;
    world.pass(Duration::from_secs(1)).await;
    world.heard("hello").await;
    world.rest().await;
    assert_eq!(world.texts(), ["hello"]);
    assert_eq!(world.server.prompts().len(), 1);
}

#[tokio::test]
async fn a_turn_that_a_killed_server_left_behind_is_reported_as_interrupted() {
    let mut world = World::new().await;
    let prompt = world.prompt("tell me").await;
    let error = serde_json::to_value(protocol::MessageError::interrupted()).unwrap();
    world.server.fail_turn(&prompt, &error);
    world.heard("The server stopped before the answer was complete.").await;
    assert_eq!(world.chat.count(&place(), "Stopped."), 0);
}
