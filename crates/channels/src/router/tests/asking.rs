//! Requests of the agent and their answers.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    chat::button,
    harness::{Harness, Setup, ada, place, thread},
    server::Prompt,
};
use crate::{
    Features, Sender,
    settings::{self, UserAccess},
};

fn colours(multiple: bool, custom: bool) -> Value {
    json!({
        "question": "Which colour?", "header": "Colour", "multiple": multiple, "custom": custom,
        "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue", "description": "cold" }],
    })
}

/// Starts a turn that asks questions.
async fn asked(harness: &mut Harness, questions: &Value) -> Prompt {
    let prompt = harness.prompt("paint it").await;
    harness.server.busy(&prompt.session);
    harness.server.ask_question("que_1", &prompt.session, questions);
    harness.heard("❓").await;
    harness.said().await;
    prompt
}

fn bob() -> Sender {
    Sender { id: "bob".into(), name: "Bob".into() }
}

#[tokio::test]
async fn a_number_answers_a_question_with_the_label() {
    let mut harness = Harness::new().await;
    let prompt = asked(&mut harness, &json!([colours(false, true)])).await;
    harness.say("2").await;
    let call = harness.server.called("POST /question/que_1/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Blue"]]}"#), "{call}");
    let post = harness.heard("✅ Blue (Ada)").await;
    assert!(post.buttons.is_empty(), "a closed request has no buttons");
    harness.server.answer(&prompt, "painted");
    harness.heard("painted").await;
    assert_eq!(harness.server.prompts().len(), 1, "an answer is no prompt");
}

#[tokio::test]
async fn a_button_answers_a_question_once() {
    let mut harness = Harness::new().await;
    asked(&mut harness, &json!([colours(false, true)])).await;
    let post = harness.heard("Which colour?").await;
    assert_eq!(harness.tap(&ada(), &button(&post, "Red")).await, None);
    let call = harness.server.called("POST /question/que_1/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Red"]]}"#), "{call}");
    let late = harness.tap(&ada(), &button(&post, "Blue")).await;
    assert_eq!(late.as_deref(), Some("That request is already closed."));
    assert_eq!(harness.server.calls("POST /question"), 1);
}

#[tokio::test]
async fn two_questions_are_asked_one_after_the_other_and_answered_together() {
    let mut harness = Harness::new().await;
    let size = json!({ "question": "How large?", "header": "Size", "options": [] });
    asked(&mut harness, &json!([colours(false, true), size])).await;
    harness.heard("(1 of 2)").await;
    harness.say("red").await;
    harness.heard("(2 of 2)").await;
    harness.said().await;
    assert_eq!(harness.server.calls("POST /question"), 0);
    let mut harness = harness.crash().await;
    harness.say("as large as a house, or so").await;
    let call = harness.server.called("POST /question/que_1/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Red"],["as large as a house, or so"]]}"#), "{call}");
}

#[tokio::test]
async fn several_can_be_chosen_by_commas_or_by_marking_them() {
    let mut harness = Harness::new().await;
    let prompt = asked(&mut harness, &json!([colours(true, false)])).await;
    harness.say("1, blue").await;
    let call = harness.server.called("POST /question/que_1/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Red","Blue"]]}"#), "{call}");
    harness.heard("✅ Red, Blue (Ada)").await;
    harness.server.ask_question("que_2", &prompt.session, &json!([colours(true, false)]));
    let post = harness.heard("Several are possible").await;
    assert_eq!(harness.tap(&ada(), &button(&post, "Done")).await.as_deref(), Some("Choose something first."));
    harness.tap(&ada(), &button(&post, "Blue")).await;
    let marked = harness.chat.until_button(&place(), "✓ Blue").await;
    harness.tap(&ada(), &button(&marked, "Done")).await;
    let call = harness.server.called("POST /question/que_2/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Blue"]]}"#), "{call}");
}

#[tokio::test]
async fn an_invalid_choice_is_neither_an_answer_nor_a_prompt() {
    let mut harness = Harness::new().await;
    asked(&mut harness, &json!([colours(false, false)])).await;
    harness.say("mauve").await;
    harness.heard("“mauve” is not one of the choices 1 to 2").await;
    harness.say("/skip").await;
    harness.server.called("POST /question/que_1/reject").await;
    harness.heard("Dismissed.").await;
    assert_eq!(harness.server.prompts().len(), 1);
}

#[tokio::test]
async fn a_command_is_never_an_answer() {
    let mut harness = Harness::new().await;
    asked(&mut harness, &json!([colours(false, true)])).await;
    harness.say("/status").await;
    harness.heard("1 request waits for an answer").await;
    harness.say("/dance").await;
    harness.heard("There is no command /dance").await;
    harness.say("/cancel").await;
    harness.server.called("POST /session/ses_1/abort").await;
    harness.heard("Stopped.").await;
    harness.rest().await;
    assert_eq!(harness.server.calls("POST /question"), 0);
    harness.say("next").await;
    assert_eq!(harness.server.prompt(1).await.text(), "next", "nothing waits any more");
}

#[tokio::test]
async fn an_answer_in_one_thread_does_not_answer_another() {
    let mut harness = Harness::new().await;
    asked(&mut harness, &json!([colours(false, true)])).await;
    harness.say_in(&thread("b"), "1").await;
    assert_eq!(harness.server.prompt(1).await.text(), "1");
    harness.say_in(&thread("b"), "/cancel").await;
    harness.server.called("POST /session/ses_2/abort").await;
    assert_eq!(harness.server.calls("POST /question") + harness.server.calls("POST /session/ses_1/abort"), 0);
}

#[tokio::test]
async fn a_permission_of_a_grandchild_reaches_the_user() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("build").await;
    harness.server.busy(&prompt.session);
    harness.server.child(&prompt.session, "ses_c");
    harness.server.child("ses_c", "ses_g");
    harness.server.ask_permission("per_1", "ses_g", "cargo test");
    let post = harness.heard("The agent wants to run a command:").await;
    for words in ["`cargo test`", "`/home/ada/project`", "Title of ses_g", "`cargo *`", "1 (once)"] {
        assert!(post.text.contains(words), "{words}: {}", post.text);
    }
    harness.tap(&ada(), &button(&post, "Always")).await;
    let call = harness.server.called("POST /permission/per_1/reply").await;
    assert!(call.contains(r#""reply":"always""#), "{call}");
    harness.heard("allowed from now on (Ada)").await;
}

#[tokio::test]
async fn other_words_deny_a_permission_and_reach_the_agent() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("build").await;
    harness.server.busy(&prompt.session);
    harness.server.ask_permission("per_1", &prompt.session, "rm -rf build");
    harness.heard("rm -rf build").await;
    harness.say("no, clean it with cargo").await;
    let call = harness.server.called("POST /permission/per_1/reply").await;
    assert!(call.contains(r#""reply":"reject""#) && call.contains("no, clean it with cargo"), "{call}");
    harness.heard("denied: “no, clean it with cargo” (Ada)").await;
    harness.server.answer(&prompt, "cleaned");
    harness.heard("cleaned").await;
    assert_eq!(harness.server.prompts().len(), 1, "the words are no prompt");
    assert_eq!(harness.chat.count(&place(), "Queued"), 0);
}

#[tokio::test]
async fn only_users_who_may_approve_answer_permissions() {
    let allow = vec![
        UserAccess { id: "ada".into(), prompt: true, approve: false },
        UserAccess { id: "bob".into(), prompt: false, approve: true },
    ];
    let mut harness = Harness::with(Setup { allow, ..Setup::default() }).await;
    let prompt = harness.prompt("build").await;
    harness.server.busy(&prompt.session);
    harness.server.ask_permission("per_1", &prompt.session, "make");
    let post = harness.heard("make").await;
    let refused = harness.tap(&ada(), &button(&post, "Once")).await;
    assert_eq!(refused.as_deref(), Some("You cannot decide this: another user has to answer."));
    harness.say("yes").await;
    harness.heard("You do not have the right to answer permission requests.").await;
    harness.say_as(&place(), &bob(), "build it all").await;
    harness.heard("You may answer requests, but not send prompts.").await;
    let stranger = Sender { id: "eve".into(), name: "Eve".into() };
    let refused = harness.tap(&stranger, &button(&post, "Once")).await;
    assert_eq!(refused.as_deref(), Some("You have no access, so you cannot decide this."));
    assert_eq!(harness.server.calls("POST /permission"), 0);
    assert_eq!(harness.tap(&bob(), &button(&post, "Once")).await, None);
    harness.server.called("POST /permission/per_1/reply").await;
}

#[tokio::test]
async fn a_request_answered_elsewhere_is_closed_in_the_chat() {
    let mut harness = Harness::new().await;
    let prompt = asked(&mut harness, &json!([colours(false, true)])).await;
    harness.server.settle_question("que_1", &prompt.session);
    let post = harness.heard("No longer needs an answer.").await;
    assert!(post.buttons.is_empty());
    harness.say("2").await;
    harness.heard("Queued.").await;
    assert_eq!(harness.server.calls("POST /question"), 0);
}

#[tokio::test]
async fn a_late_answer_gets_an_explanation() {
    let mut harness = Harness::new().await;
    asked(&mut harness, &json!([colours(false, true)])).await;
    harness.server.lose_request("que_1");
    harness.say("2").await;
    harness.heard("That request is already closed, so your answer was not used.").await;
    harness.heard("No longer needs an answer.").await;
}

#[tokio::test]
async fn an_answer_that_does_not_reach_the_server_can_be_repeated() {
    let mut harness = Harness::new().await;
    asked(&mut harness, &json!([colours(false, true)])).await;
    harness.server.fail("/question/que_1/reply", 503, 1);
    harness.say("2").await;
    harness.heard("Please answer again in a moment.").await;
    harness.say("1").await;
    harness.heard("✅ Red (Ada)").await;
}

#[tokio::test]
async fn a_question_times_out_without_further_events() {
    let settings = settings::Router { question_timeout_ms: 20_000, ..settings::Router::default() };
    let mut harness = Harness::with(Setup { settings, ..Setup::default() }).await;
    asked(&mut harness, &json!([colours(false, true)])).await;
    harness.pass(Duration::from_secs(20)).await;
    harness.server.called("POST /question/que_1/reject").await;
    harness.heard("No answer came within 20 s, so the request was dismissed.").await;
    let post = harness.heard("Dismissed, because no answer came in time.").await;
    assert!(post.buttons.is_empty());
}

#[tokio::test]
async fn a_request_can_be_answered_after_a_crash_and_is_not_shown_again() {
    let mut harness = Harness::new().await;
    let prompt = asked(&mut harness, &json!([colours(false, true)])).await;
    let post = harness.heard("Which colour?").await;
    let mut harness = harness.crash().await;
    harness.tap(&ada(), &button(&post, "Blue")).await;
    harness.server.called("POST /question/que_1/reply").await;
    harness.server.answer(&prompt, "blue it is");
    harness.heard("blue it is").await;
    assert_eq!(harness.chat.count(&place(), "Which colour?"), 1);
}

#[tokio::test]
async fn a_request_closed_while_the_gateway_was_down_is_closed_after_the_start() {
    let mut harness = Harness::new().await;
    asked(&mut harness, &json!([colours(false, true)])).await;
    harness.router.stop().await;
    harness.server.lose_request("que_1");
    let harness = harness.crash().await;
    harness.heard("No longer needs an answer.").await;
}

#[tokio::test]
async fn without_buttons_a_request_is_answered_with_text() {
    fn none(features: &mut Features) {
        features.buttons = 0;
    }
    let mut harness = Harness::with(Setup { features: none, ..Setup::default() }).await;
    let prompt = asked(&mut harness, &json!([colours(false, false)])).await;
    let post = harness.heard("1. Red – warm").await;
    assert!(post.buttons.is_empty() && post.text.contains("Write a number."));
    harness.say("1").await;
    harness.server.called("POST /question/que_1/reply").await;
    harness.server.ask_permission("per_1", &prompt.session, "make");
    let post = harness.heard("Write 1 (once), 2 (always) or 3 (deny).").await;
    assert!(post.buttons.is_empty());
    harness.say("1").await;
    harness.server.called("POST /permission/per_1/reply").await;
}

#[tokio::test]
async fn questions_are_shown_even_without_progress() {
    let progress = settings::Progress { enabled: false, ..settings::Progress::default() };
    let settings = settings::Router { progress, ..settings::Router::default() };
    let mut harness = Harness::with(Setup { settings, ..Setup::default() }).await;
    asked(&mut harness, &json!([colours(false, true)])).await;
}

#[tokio::test]
async fn marked_options_survive_a_restart() {
    let mut harness = Harness::new().await;
    asked(&mut harness, &json!([colours(true, false)])).await;
    let post = harness.heard("Which colour?").await;
    harness.tap(&ada(), &button(&post, "Blue")).await;
    harness.chat.until_button(&place(), "✓ Blue").await;
    let mut harness = harness.crash().await;
    let post = harness.chat.until_button(&place(), "✓ Blue").await;
    harness.tap(&ada(), &button(&post, "Red")).await;
    let post = harness.chat.until_button(&place(), "✓ Red").await;
    harness.tap(&ada(), &button(&post, "Done")).await;
    let call = harness.server.called("POST /question/que_1/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Red","Blue"]]}"#), "{call}");
}
