//! Messages that arrive while the agent works.

use std::time::Duration;

use serde_json::json;

use super::harness::{Harness, Setup, place, thread};
use super::server::Prompt;
use crate::settings::{self, Busy};

fn busy(busy: Busy) -> Setup {
    Setup { settings: settings::Router { busy, ..settings::Router::default() }, ..Setup::default() }
}

/// A harness whose agent works on the prompt `one`.
async fn working(setup: Setup) -> (Harness, Prompt) {
    let mut harness = Harness::with(setup).await;
    let first = harness.prompt("one").await;
    harness.server.busy(&first.session);
    (harness, first)
}

#[tokio::test]
async fn a_second_message_waits_for_the_first() {
    let (mut harness, first) = working(Setup::default()).await;
    harness.say("two").await;
    harness.heard("Queued.").await;
    harness.say("three").await;
    harness.heard("Queued: 2 messages.").await;
    assert_eq!(harness.chat.count(&place(), "Queued"), 1, "one notice, which is edited");
    assert_eq!(harness.server.prompts().len(), 1, "they do not overlap");
    harness.server.answer(&first, "first answer");
    let second = harness.server.prompt(1).await;
    assert_eq!(second.text(), "two");
    harness.server.answer(&second, "second answer");
    let third = harness.server.prompt(2).await;
    harness.server.answer(&third, "third answer");
    harness.heard("third answer").await;
    let answers: Vec<_> = harness.texts().into_iter().filter(|text| text.ends_with("answer")).collect();
    assert_eq!(answers, ["first answer", "second answer", "third answer"]);
}

#[tokio::test]
async fn a_message_can_join_the_running_turn_and_is_answered_with_it() {
    let (mut harness, first) = working(busy(Busy::Steer)).await;
    harness.settled().await;
    harness.say("rather two").await;
    let second = harness.server.prompt(1).await;
    assert_eq!((&second.session, &second.body["delivery"]), (&first.session, &json!(null)));
    harness.server.step(&second, &[json!({ "type": "text", "text": "Two it is." })]);
    harness.server.idle(&first.session);
    harness.heard("Two it is.").await;
    harness.rest().await;
    assert_eq!(harness.texts(), ["Two it is."]);
}

#[tokio::test]
async fn a_message_that_joined_a_turn_survives_a_crash() {
    let (mut harness, first) = working(busy(Busy::Steer)).await;
    harness.settled().await;
    harness.say("rather two").await;
    let second = harness.server.prompt(1).await;
    harness.server.step(&first, &[json!({ "type": "text", "text": "One." })]);
    harness.server.step(&second, &[json!({ "type": "text", "text": "Two." })]);
    let harness = harness.crash().await;
    harness.server.idle(&first.session);
    harness.heard("Two.").await;
    harness.rest().await;
    assert_eq!(harness.texts(), ["One.\n\nTwo."]);
    assert_eq!(harness.server.prompts().len(), 2);
}

#[tokio::test]
async fn a_message_can_replace_the_running_turn() {
    let (mut harness, _) = working(busy(Busy::Interrupt)).await;
    harness.settled().await;
    harness.say("no, two").await;
    harness.server.called("POST /session/ses_1/abort").await;
    let second = harness.server.prompt(1).await;
    assert_eq!(second.text(), "no, two");
    harness.server.answer(&second, "two answered");
    harness.heard("two answered").await;
    assert_eq!(harness.texts(), ["Stopped.", "two answered"]);
}

#[tokio::test]
async fn places_do_not_wait_for_each_other() {
    let mut harness = Harness::new().await;
    let first = harness.prompt("slow").await;
    harness.server.busy(&first.session);
    harness.say_in(&thread("b"), "quick").await;
    let second = harness.server.prompt(1).await;
    harness.server.answer(&second, "quickly done");
    harness.chat.until(&thread("b"), "quickly done").await;
    assert_eq!(harness.chat.lines(&place()).len(), 0);
    assert_eq!(harness.router.workers(), 1, "a worker ends when there is nothing to do");
}

#[tokio::test]
async fn the_queue_is_limited() {
    let (mut harness, _) = working(Setup::default()).await;
    for number in 0..21 {
        harness.say(&format!("more {number}")).await;
    }
    let refusal = harness.heard("20 messages are already waiting").await;
    assert_eq!(refusal.reply_to.as_deref(), Some("m22"), "a reply shows which message was refused");
    harness.heard("Queued: 20 messages.").await;
    assert_eq!(harness.chat.count(&place(), "Queued"), 1);
}

#[tokio::test]
async fn a_session_busy_with_another_clients_turn_is_not_disturbed() {
    let mut harness = Harness::new().await;
    let first = harness.prompt("one").await;
    assert_eq!(first.body["delivery"], json!(null), "OpenCode does not know the word");
    harness.server.answer(&first, "first answer");
    harness.rest().await;
    harness.server.busy(&first.session);
    let second = harness.prompt("two").await;
    assert_eq!(second.body["delivery"], "queue");
}

#[tokio::test]
async fn words_after_new_are_the_first_prompt_of_the_new_session() {
    let mut harness = Harness::new().await;
    let first = harness.prompt("one").await;
    harness.server.answer(&first, "first answer");
    harness.heard("first answer").await;
    let second = harness.prompt("/new do this").await;
    assert_eq!(second.text(), "do this");
    assert_ne!(second.session, first.session);
    harness.heard("🆕 A new session.").await;
    harness.server.answer(&second, "did that");
    harness.heard("did that").await;
}

#[tokio::test]
async fn a_new_session_is_created_once_although_its_first_prompt_is_tried_again() {
    let mut harness = Harness::new().await;
    harness.server.fail("/prompt_async", 503, 1);
    harness.say("/new do this").await;
    harness.retried().await;
    harness.pass(Duration::from_secs(1)).await;
    let prompt = harness.server.prompt(0).await;
    assert_eq!((prompt.text(), prompt.session.as_str()), ("do this", "ses_1"));
}

#[tokio::test]
async fn a_waiting_message_is_listed_and_withdrawn() {
    let (mut harness, first) = working(Setup::default()).await;
    harness.say("/queue").await;
    harness.heard("Nothing waits.").await;
    harness.say("two").await;
    harness.heard("Queued.").await;
    harness.say("three").await;
    harness.heard("Queued: 2 messages.").await;
    harness.say("/queue").await;
    harness.heard("1. two\n2. three").await;
    harness.say("/withdraw 1").await;
    harness.heard("Withdrawn: “two”").await;
    harness.say("/withdraw 7").await;
    harness.heard("There is no such message.").await;
    harness.server.answer(&first, "first answer");
    let second = harness.server.prompt(1).await;
    assert_eq!(second.text(), "three", "the withdrawn one is never sent");
}
