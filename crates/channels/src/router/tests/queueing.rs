//! Messages that arrive while the agent works.

use std::time::Duration;

use serde_json::json;

use super::world::{Setup, World, place, thread};
use crate::settings::{self, Busy};

fn busy(busy: Busy) -> Setup {
    Setup { settings: settings::Router { busy, ..settings::Router::default() }, ..Setup::default() }
}

#[tokio::test]
async fn a_second_message_waits_for_the_first() {
    let mut world = World::new().await;
    let first = world.prompt("one").await;
    world.server.busy(&first.session);
    world.say("two").await;
    world.heard("Queued.").await;
    world.say("three").await;
    world.heard("Queued: 2 messages.").await;
    assert_eq!(world.chat.count(&place(), "Queued"), 1, "one notice, which is edited");
    assert_eq!(world.server.prompts().len(), 1, "they do not overlap");
    world.server.answer(&first, "first answer");
    let second = world.server.prompt(1).await;
    assert_eq!(second.text(), "two");
    world.server.answer(&second, "second answer");
    let third = world.server.prompt(2).await;
    world.server.answer(&third, "third answer");
    world.heard("third answer").await;
    let answers: Vec<_> = world.texts().into_iter().filter(|text| text.ends_with("answer")).collect();
    assert_eq!(answers, ["first answer", "second answer", "third answer"]);
}

#[tokio::test]
async fn a_message_can_join_the_running_turn_and_is_answered_with_it() {
    let mut world = World::with(busy(Busy::Steer)).await;
    let first = world.prompt("one").await;
    world.server.busy(&first.session);
    world.settled().await;
    world.say("rather two").await;
    let second = world.server.prompt(1).await;
    assert_eq!((&second.session, &second.body["delivery"]), (&first.session, &json!(null)));
    world.server.step(&second, &[json!({ "type": "text", "text": "Two it is." })]);
    world.server.idle(&first.session);
    world.heard("Two it is.").await;
    world.rest().await;
    assert_eq!(world.texts(), ["Two it is."]);
}

#[tokio::test]
async fn a_message_that_joined_a_turn_survives_a_crash() {
    let mut world = World::with(busy(Busy::Steer)).await;
    let first = world.prompt("one").await;
    world.server.busy(&first.session);
    world.settled().await;
    world.say("rather two").await;
    let second = world.server.prompt(1).await;
    world.server.step(&first, &[json!({ "type": "text", "text": "One." })]);
    world.server.step(&second, &[json!({ "type": "text", "text": "Two." })]);
    let world = world.crash().await;
    world.server.idle(&first.session);
    world.heard("Two.").await;
    world.rest().await;
    assert_eq!(world.texts(), ["One.\n\nTwo."]);
    assert_eq!(world.server.prompts().len(), 2);
}

#[tokio::test]
async fn a_message_can_replace_the_running_turn() {
    let mut world = World::with(busy(Busy::Interrupt)).await;
    let first = world.prompt("one").await;
    world.server.busy(&first.session);
    world.settled().await;
    world.say("no, two").await;
    world.server.called("POST /session/ses_1/abort").await;
    let second = world.server.prompt(1).await;
    assert_eq!(second.text(), "no, two");
    world.server.answer(&second, "two answered");
    world.heard("two answered").await;
    assert_eq!(world.texts(), ["Stopped.", "two answered"]);
}

#[tokio::test]
async fn places_do_not_wait_for_each_other() {
    let mut world = World::new().await;
    let first = world.prompt("slow").await;
    world.server.busy(&first.session);
    world.say_in(&thread("b"), "quick").await;
    let second = world.server.prompt(1).await;
    world.server.answer(&second, "quickly done");
    world.chat.until(&thread("b"), "quickly done").await;
    assert_eq!(world.chat.lines(&place()).len(), 0);
    assert_eq!(world.router.workers(), 1, "a worker ends when there is nothing to do");
}

#[tokio::test]
async fn the_queue_is_limited() {
    let mut world = World::new().await;
    let first = world.prompt("one").await;
    world.server.busy(&first.session);
    for number in 0..21 {
        world.say(&format!("more {number}")).await;
    }
    let refusal = world.heard("20 messages are already waiting").await;
    assert_eq!(refusal.reply_to.as_deref(), Some("m22"), "a reply shows which message was refused");
    world.heard("Queued: 20 messages.").await;
    assert_eq!(world.chat.count(&place(), "Queued"), 1);
}

#[tokio::test]
async fn a_session_busy_with_another_clients_turn_is_not_disturbed() {
    let mut world = World::new().await;
    let first = world.prompt("one").await;
    assert_eq!(first.body["delivery"], json!(null), "OpenCode does not know the word");
    world.server.answer(&first, "first answer");
    world.rest().await;
    world.server.busy(&first.session);
    let second = world.prompt("two").await;
    assert_eq!(second.body["delivery"], "queue");
}

#[tokio::test]
async fn words_after_new_are_the_first_prompt_of_the_new_session() {
    let mut world = World::new().await;
    let first = world.prompt("one").await;
    world.server.answer(&first, "first answer");
    world.heard("first answer").await;
    let second = world.prompt("/new do this").await;
    assert_eq!(second.text(), "do this");
    assert_ne!(second.session, first.session);
    world.heard("🆕 A new session.").await;
    world.server.answer(&second, "did that");
    world.heard("did that").await;
}

#[tokio::test]
async fn a_new_session_is_created_once_although_its_first_prompt_is_tried_again() {
    let mut world = World::new().await;
    world.server.fail("/prompt_async", 503, 1);
    world.say("/new do this").await;
    world.retried().await;
    world.pass(Duration::from_secs(1)).await;
    let prompt = world.server.prompt(0).await;
    assert_eq!((prompt.text(), prompt.session.as_str()), ("do this", "ses_1"));
}

#[tokio::test]
async fn a_waiting_message_is_listed_and_withdrawn() {
    let mut world = World::new().await;
    let first = world.prompt("one").await;
    world.server.busy(&first.session);
    world.say("/queue").await;
    world.heard("Nothing waits.").await;
    world.say("two").await;
    world.heard("Queued.").await;
    world.say("three").await;
    world.heard("Queued: 2 messages.").await;
    world.say("/queue").await;
    world.heard("1. two\n2. three").await;
    world.say("/withdraw 1").await;
    world.heard("Withdrawn: “two”").await;
    world.say("/withdraw 7").await;
    world.heard("There is no such message.").await;
    world.server.answer(&first, "first answer");
    let second = world.server.prompt(1).await;
    assert_eq!(second.text(), "three", "the withdrawn one is never sent");
}
