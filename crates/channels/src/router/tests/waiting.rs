//! Requests of sessions while no prompt of the place runs.

use serde_json::json;

use super::{
    chat::button,
    world::{World, ada, place},
};

/// A world with a known, idle session.
async fn idle() -> (World, String) {
    let mut world = World::new().await;
    let prompt = world.prompt("begin").await;
    world.server.answer(&prompt, "begun");
    world.heard("begun").await;
    world.rest().await;
    (world, prompt.session)
}

#[tokio::test]
async fn a_childs_request_is_shown_although_its_root_is_idle() {
    let (mut world, session) = idle().await;
    world.server.child(&session, "ses_child");
    world.server.child("ses_child", "ses_grandchild");
    world.server.ask_permission("per_1", "ses_grandchild", "cargo test");
    let post = world.heard("cargo test").await;
    assert!(post.text.contains("Title of ses_grandchild"), "{}", post.text);
    world.tap(&ada(), &button(&post, "Once")).await;
    let call = world.server.called("POST /permission/per_1/reply").await;
    assert!(call.contains("once"), "{call}");
    world.heard("allowed once").await;
    world.rest().await;
}

#[tokio::test]
async fn requests_open_at_the_start_are_shown() {
    let (world, session) = idle().await;
    let question = json!([{ "question": "Which colour?", "header": "", "options": [] }]);
    let mut world = world.crash_while(|server| server.ask_question("que_1", &session, &question)).await;
    world.heard("Which colour?").await;
    world.said().await;
    world.say("green").await;
    let call = world.server.called("POST /question/que_1/reply").await;
    assert!(call.contains("green"), "{call}");
    assert_eq!(world.chat.count(&place(), "Which colour?"), 1);
}

#[tokio::test]
async fn a_request_closed_by_another_client_is_closed_although_nothing_runs() {
    let (world, session) = idle().await;
    let question = json!([{ "question": "Which colour?", "header": "", "options": [] }]);
    world.server.ask_question("que_1", &session, &question);
    world.heard("Which colour?").await;
    world.said().await;
    world.server.settle_question("que_1", &session);
    world.heard("No longer needs an answer").await;
    world.rest().await;
    // The same while the gateway is not running.
    world.server.ask_question("que_2", &session, &question);
    world.chat.until_count(&place(), "Which colour?", 2).await;
    world.said().await;
    let world = world.crash_while(|server| server.lose_request("que_2")).await;
    world.chat.until_count(&place(), "No longer needs an answer", 2).await;
}

#[tokio::test]
async fn requests_of_unrelated_sessions_are_not_shown() {
    let (world, session) = idle().await;
    let question = json!([{ "question": "Which colour?", "header": "", "options": [] }]);
    world.server.child("ses_9", "ses_10");
    for (id, session) in [("que_1", "ses_9"), ("que_2", "ses_10")] {
        world.server.ask_question(id, session, &question);
    }
    world.server.ask_question(
        "que_3",
        &session,
        &json!([{ "question": "Mine?", "header": "", "options": [] }]),
    );
    world.heard("Mine?").await;
    assert_eq!(world.chat.count(&place(), "Which colour?"), 0);
}
