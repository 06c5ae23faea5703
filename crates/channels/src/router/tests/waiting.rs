//! Requests of sessions while no prompt of the place runs.

use serde_json::json;

use super::{
    chat::button,
    harness::{Harness, ada, place},
};

/// A world with a known, idle session.
async fn idle() -> (Harness, String) {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("begin").await;
    harness.server.answer(&prompt, "begun");
    harness.heard("begun").await;
    harness.rest().await;
    (harness, prompt.session)
}

#[tokio::test]
async fn a_childs_request_is_shown_although_its_root_is_idle() {
    let (mut harness, session) = idle().await;
    harness.server.child(&session, "ses_child");
    harness.server.child("ses_child", "ses_grandchild");
    harness.server.ask_permission("per_1", "ses_grandchild", "cargo test");
    let post = harness.heard("cargo test").await;
    assert!(post.text.contains("Title of ses_grandchild"), "{}", post.text);
    harness.tap(&ada(), &button(&post, "Once")).await;
    let call = harness.server.called("POST /permission/per_1/reply").await;
    assert!(call.contains("once"), "{call}");
    harness.heard("allowed once").await;
    harness.rest().await;
}

#[tokio::test]
async fn requests_open_at_the_start_are_shown() {
    let (harness, session) = idle().await;
    let question = json!([{ "question": "Which colour?", "header": "", "options": [] }]);
    let mut harness = harness.crash_while(|server| server.ask_question("que_1", &session, &question)).await;
    harness.heard("Which colour?").await;
    harness.said().await;
    harness.say("green").await;
    let call = harness.server.called("POST /question/que_1/reply").await;
    assert!(call.contains("green"), "{call}");
    assert_eq!(harness.chat.count(&place(), "Which colour?"), 1);
}

#[tokio::test]
async fn a_request_closed_by_another_client_is_closed_although_nothing_runs() {
    let (harness, session) = idle().await;
    let question = json!([{ "question": "Which colour?", "header": "", "options": [] }]);
    harness.server.ask_question("que_1", &session, &question);
    harness.heard("Which colour?").await;
    harness.said().await;
    harness.server.settle_question("que_1", &session);
    harness.heard("No longer needs an answer").await;
    harness.rest().await;
    // The same while the gateway is not running.
    harness.server.ask_question("que_2", &session, &question);
    harness.chat.until_count(&place(), "Which colour?", 2).await;
    harness.said().await;
    let harness = harness.crash_while(|server| server.lose_request("que_2")).await;
    harness.chat.until_count(&place(), "No longer needs an answer", 2).await;
}

#[tokio::test]
async fn requests_of_unrelated_sessions_are_not_shown() {
    let (harness, session) = idle().await;
    let question = json!([{ "question": "Which colour?", "header": "", "options": [] }]);
    harness.server.child("ses_9", "ses_10");
    for (id, session) in [("que_1", "ses_9"), ("que_2", "ses_10")] {
        harness.server.ask_question(id, session, &question);
    }
    harness.server.ask_question(
        "que_3",
        &session,
        &json!([{ "question": "Mine?", "header": "", "options": [] }]),
    );
    harness.heard("Mine?").await;
    assert_eq!(harness.chat.count(&place(), "Which colour?"), 0);
}
