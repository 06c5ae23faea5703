//! Failures of the server and of the ledger.

use std::time::Duration;

use serde_json::json;

use super::harness::{Harness, Setup, place};
use crate::{settings, words};

#[tokio::test]
async fn a_message_is_tried_again_when_the_server_was_away() {
    let mut harness = Harness::new().await;
    harness.server.fail("/session", 503, 2);
    harness.say("hi").await;
    harness.server.called("POST /session").await;
    harness.heard(words::AWAY).await;
    for seconds in [1, 2] {
        harness.retried().await;
        harness.pass(Duration::from_secs(seconds)).await;
    }
    let prompt = harness.server.prompt(0).await;
    harness.server.answer(&prompt, "back again");
    harness.heard("back again").await;
    harness.rest().await;
    assert_eq!(harness.texts(), [words::AWAY, "back again"]);
}

#[tokio::test]
async fn a_prompt_that_may_have_arrived_keeps_its_id() {
    let mut harness = Harness::new().await;
    harness.server.fail("/prompt_async", 503, 1);
    harness.say("hi").await;
    let first = harness.server.called("POST /session/ses_1/prompt_async").await;
    harness.retried().await;
    harness.pass(Duration::from_secs(1)).await;
    let prompt = harness.server.prompt(0).await;
    assert!(first.contains(&prompt.id), "{first}");
    assert_eq!(harness.server.calls("POST /session/ses_1/prompt_async"), 2);
}

#[tokio::test]
async fn after_twelve_failures_a_message_is_set_aside_and_the_next_has_its_turn() {
    let mut harness = Harness::new().await;
    harness.server.fail("/session", 503, 12);
    harness.say("unlucky").await;
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60] {
        harness.retried().await;
        harness.pass(Duration::from_secs(seconds)).await;
    }
    harness.heard("The server could not be reached in 12 attempts.").await;
    assert_eq!(harness.chat.count(&place(), "The server cannot be reached right now."), 1);
    let aside = harness.ledger.aside().await.unwrap();
    assert_eq!(aside.len(), 1);
    assert!(harness.server.prompts().is_empty());
    let prompt = harness.prompt("lucky").await;
    assert_eq!(prompt.text(), "lucky");
}

#[tokio::test]
async fn a_refused_prompt_is_reported_at_once() {
    let mut harness = Harness::new().await;
    harness.server.fail("/prompt_async", 400, 1);
    harness.say("hi").await;
    harness.heard("The server refused your message: not to be had").await;
    harness.rest().await;
    assert!(harness.ledger.aside().await.unwrap().len() == 1);
}

#[tokio::test]
async fn a_turn_that_is_silent_for_too_long_is_stopped_and_reported() {
    let settings = settings::Router { timeout_ms: 30_000, ..settings::Router::default() };
    let mut harness = Harness::with(Setup { settings, ..Setup::default() }).await;
    let prompt = harness.prompt("count to infinity").await;
    harness.server.busy(&prompt.session);
    harness.settled().await;
    harness.pass(Duration::from_secs(30)).await;
    harness.server.called("POST /session/ses_1/abort").await;
    harness.heard("Stopped, because nothing happened for 30 s.").await;
}

#[tokio::test]
async fn a_broken_stream_is_resumed_and_half_an_answer_is_not_the_answer() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("tell me").await;
    harness.server.busy(&prompt.session);
    harness.server.step(&prompt, &[json!({ "type": "text", "text": "Half" })]);
    harness.settled().await;
    harness.server.break_streams();
    harness.server.connected(2).await;
    assert_eq!(harness.chat.count(&place(), "Half"), 0);
    harness.server.step(&prompt, &[json!({ "type": "text", "text": "and half." })]);
    harness.server.idle(&prompt.session);
    harness.heard("Half\n\nand half.").await;
}

#[tokio::test]
async fn a_message_is_answered_when_there_is_space_again() {
    let mut harness = Harness::new().await;
    // First storing the prompt fails, then storing the user's last message.
    for (change, table) in [("UPDATE", "updates"), ("INSERT", "places")] {
        let number = harness.server.prompts().len();
        harness.ledger.refuse(change, table, "true").await;
        harness.say("hi").await;
        harness.tried().await;
        assert_eq!(harness.server.prompts().len(), number, "nothing is run that is not noted");
        harness.ledger.relent().await;
        harness.pass(Duration::from_secs(1)).await;
        let prompt = harness.server.prompt(number).await;
        harness.server.answer(&prompt, table);
        harness.heard(table).await;
        harness.rest().await;
    }
    assert_eq!(harness.texts(), ["updates", "places"]);
}

#[tokio::test]
async fn an_answer_that_could_not_be_stored_is_sent_once() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("hi").await;
    harness.settled().await;
    harness.ledger.refuse("INSERT", "posts", "true").await;
    harness.server.answer(&prompt, "hello");
    harness.tried().await;
    assert_eq!(harness.chat.count(&place(), "hello"), 0);
    harness.ledger.relent().await;
    harness.pass(Duration::from_secs(1)).await;
    harness.heard("hello").await;
    harness.rest().await;
    assert_eq!(harness.texts(), ["hello"]);
    assert_eq!(harness.server.prompts().len(), 1);
}

#[tokio::test]
async fn a_turn_that_a_killed_server_left_behind_is_reported_as_interrupted() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("tell me").await;
    let error = serde_json::to_value(protocol::MessageError::interrupted()).unwrap();
    harness.server.fail_turn(&prompt, &error);
    harness.heard("The server stopped before the answer was complete.").await;
    assert_eq!(harness.chat.count(&place(), "Stopped."), 0);
}
