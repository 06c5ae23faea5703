//! Requests of the agent and their answers.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    chat::button,
    server::Prompt,
    world::{Setup, World, ada, place, thread},
};
use crate::{
    Abilities, Sender,
    settings::{self, Person},
};

fn colours(multiple: bool, custom: bool) -> Value {
    json!({
        "question": "Which colour?", "header": "Colour", "multiple": multiple, "custom": custom,
        "options": [{ "label": "Red", "description": "warm" }, { "label": "Blue", "description": "cold" }],
    })
}

/// Starts a turn that asks questions.
async fn asked(world: &mut World, questions: &Value) -> Prompt {
    let prompt = world.prompt("paint it").await;
    world.server.busy(&prompt.session);
    world.server.ask_question("que_1", &prompt.session, questions);
    world.heard("❓").await;
    world.said().await;
    prompt
}

fn bob() -> Sender {
    Sender { id: "bob".into(), name: "Bob".into() }
}

#[tokio::test]
async fn a_number_answers_a_question_with_the_label() {
    let mut world = World::new().await;
    let prompt = asked(&mut world, &json!([colours(false, true)])).await;
    world.say("2").await;
    let call = world.server.called("POST /question/que_1/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Blue"]]}"#), "{call}");
    let post = world.heard("✅ Blue (Ada)").await;
    assert!(post.buttons.is_empty(), "a closed request has no buttons");
    world.server.answer(&prompt, "painted");
    world.heard("painted").await;
    assert_eq!(world.server.prompts().len(), 1, "an answer is no prompt");
}

#[tokio::test]
async fn a_button_answers_a_question_once() {
    let mut world = World::new().await;
    asked(&mut world, &json!([colours(false, true)])).await;
    let post = world.heard("Which colour?").await;
    assert_eq!(world.tap(&ada(), &button(&post, "Red")).await, None);
    let call = world.server.called("POST /question/que_1/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Red"]]}"#), "{call}");
    let late = world.tap(&ada(), &button(&post, "Blue")).await;
    assert_eq!(late.as_deref(), Some("That request is already closed."));
    assert_eq!(world.server.calls("POST /question"), 1);
}

#[tokio::test]
async fn two_questions_are_asked_one_after_the_other_and_answered_together() {
    let mut world = World::new().await;
    let size = json!({ "question": "How large?", "header": "Size", "options": [] });
    asked(&mut world, &json!([colours(false, true), size])).await;
    world.heard("(1 of 2)").await;
    world.say("red").await;
    world.heard("(2 of 2)").await;
    world.said().await;
    assert_eq!(world.server.calls("POST /question"), 0);
    let mut world = world.crash().await;
    world.say("as large as a house, or so").await;
    let call = world.server.called("POST /question/que_1/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Red"],["as large as a house, or so"]]}"#), "{call}");
}

#[tokio::test]
async fn several_can_be_chosen_by_commas_or_by_marking_them() {
    let mut world = World::new().await;
    let prompt = asked(&mut world, &json!([colours(true, false)])).await;
    world.say("1, blue").await;
    let call = world.server.called("POST /question/que_1/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Red","Blue"]]}"#), "{call}");
    world.heard("✅ Red, Blue (Ada)").await;
    world.server.ask_question("que_2", &prompt.session, &json!([colours(true, false)]));
    let post = world.heard("Several are possible").await;
    assert_eq!(world.tap(&ada(), &button(&post, "Done")).await.as_deref(), Some("Choose something first."));
    world.tap(&ada(), &button(&post, "Blue")).await;
    let marked = world.chat.until_button(&place(), "✓ Blue").await;
    world.tap(&ada(), &button(&marked, "Done")).await;
    let call = world.server.called("POST /question/que_2/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Blue"]]}"#), "{call}");
}

#[tokio::test]
async fn an_invalid_choice_is_neither_an_answer_nor_a_prompt() {
    let mut world = World::new().await;
    asked(&mut world, &json!([colours(false, false)])).await;
    world.say("mauve").await;
    world.heard("“mauve” is not one of the choices 1 to 2").await;
    world.say("/skip").await;
    world.server.called("POST /question/que_1/reject").await;
    world.heard("Dismissed.").await;
    assert_eq!(world.server.prompts().len(), 1);
}

#[tokio::test]
async fn a_command_is_never_an_answer() {
    let mut world = World::new().await;
    asked(&mut world, &json!([colours(false, true)])).await;
    world.say("/status").await;
    world.heard("1 request waits for an answer").await;
    world.say("/dance").await;
    world.heard("There is no command /dance").await;
    world.say("/cancel").await;
    world.server.called("POST /session/ses_1/abort").await;
    world.heard("Stopped.").await;
    world.rest().await;
    assert_eq!(world.server.calls("POST /question"), 0);
    world.say("next").await;
    assert_eq!(world.server.prompt(1).await.text(), "next", "nothing waits any more");
}

#[tokio::test]
async fn an_answer_in_one_thread_does_not_answer_another() {
    let mut world = World::new().await;
    asked(&mut world, &json!([colours(false, true)])).await;
    world.say_in(&thread("b"), "1").await;
    assert_eq!(world.server.prompt(1).await.text(), "1");
    world.say_in(&thread("b"), "/cancel").await;
    world.server.called("POST /session/ses_2/abort").await;
    assert_eq!(world.server.calls("POST /question") + world.server.calls("POST /session/ses_1/abort"), 0);
}

#[tokio::test]
async fn a_permission_of_a_grandchild_reaches_the_user() {
    let mut world = World::new().await;
    let prompt = world.prompt("build").await;
    world.server.busy(&prompt.session);
    world.server.child(&prompt.session, "ses_c");
    world.server.child("ses_c", "ses_g");
    world.server.ask_permission("per_1", "ses_g", "cargo test");
    let post = world.heard("The agent wants to run a command:").await;
    for words in ["`cargo test`", "`/home/ada/project`", "Title of ses_g", "`cargo *`", "1 (once)"] {
        assert!(post.text.contains(words), "{words}: {}", post.text);
    }
    world.tap(&ada(), &button(&post, "Always")).await;
    let call = world.server.called("POST /permission/per_1/reply").await;
    assert!(call.contains(r#""reply":"always""#), "{call}");
    world.heard("allowed from now on (Ada)").await;
}

#[tokio::test]
async fn other_words_deny_a_permission_and_reach_the_agent() {
    let mut world = World::new().await;
    let prompt = world.prompt("build").await;
    world.server.busy(&prompt.session);
    world.server.ask_permission("per_1", &prompt.session, "rm -rf build");
    world.heard("rm -rf build").await;
    world.say("no, clean it with cargo").await;
    let call = world.server.called("POST /permission/per_1/reply").await;
    assert!(call.contains(r#""reply":"reject""#) && call.contains("no, clean it with cargo"), "{call}");
    world.heard("denied: “no, clean it with cargo” (Ada)").await;
    world.server.answer(&prompt, "cleaned");
    world.heard("cleaned").await;
    assert_eq!(world.server.prompts().len(), 1, "the words are no prompt");
    assert_eq!(world.chat.count(&place(), "Queued"), 0);
}

#[tokio::test]
async fn only_users_who_may_approve_answer_permissions() {
    let allow = vec![
        Person { id: "ada".into(), prompt: true, approve: false },
        Person { id: "bob".into(), prompt: false, approve: true },
    ];
    let mut world = World::with(Setup { allow, ..Setup::default() }).await;
    let prompt = world.prompt("build").await;
    world.server.busy(&prompt.session);
    world.server.ask_permission("per_1", &prompt.session, "make");
    let post = world.heard("make").await;
    let refused = world.tap(&ada(), &button(&post, "Once")).await;
    assert_eq!(refused.as_deref(), Some("You cannot decide this: another user has to answer."));
    world.say("yes").await;
    world.heard("You do not have the right to answer permission requests.").await;
    world.say_as(&place(), &bob(), "build it all").await;
    world.heard("You may answer requests, but not send prompts.").await;
    let stranger = Sender { id: "eve".into(), name: "Eve".into() };
    let refused = world.tap(&stranger, &button(&post, "Once")).await;
    assert_eq!(refused.as_deref(), Some("You have no access, so you cannot decide this."));
    assert_eq!(world.server.calls("POST /permission"), 0);
    assert_eq!(world.tap(&bob(), &button(&post, "Once")).await, None);
    world.server.called("POST /permission/per_1/reply").await;
}

#[tokio::test]
async fn a_request_answered_elsewhere_is_closed_in_the_chat() {
    let mut world = World::new().await;
    let prompt = asked(&mut world, &json!([colours(false, true)])).await;
    world.server.settle_question("que_1", &prompt.session);
    let post = world.heard("No longer needs an answer.").await;
    assert!(post.buttons.is_empty());
    world.say("2").await;
    world.heard("Queued.").await;
    assert_eq!(world.server.calls("POST /question"), 0);
}

#[tokio::test]
async fn a_late_answer_gets_an_explanation() {
    let mut world = World::new().await;
    asked(&mut world, &json!([colours(false, true)])).await;
    world.server.lose_request("que_1");
    world.say("2").await;
    world.heard("That request is already closed, so your answer was not used.").await;
    world.heard("No longer needs an answer.").await;
}

#[tokio::test]
async fn an_answer_that_does_not_reach_the_server_can_be_repeated() {
    let mut world = World::new().await;
    asked(&mut world, &json!([colours(false, true)])).await;
    world.server.fail("/question/que_1/reply", 503, 1);
    world.say("2").await;
    world.heard("Please answer again in a moment.").await;
    world.say("1").await;
    world.heard("✅ Red (Ada)").await;
}

#[tokio::test]
async fn a_question_times_out_without_further_events() {
    let settings = settings::Router { question_timeout_ms: 20_000, ..settings::Router::default() };
    let mut world = World::with(Setup { settings, ..Setup::default() }).await;
    asked(&mut world, &json!([colours(false, true)])).await;
    world.pass(Duration::from_secs(20)).await;
    world.server.called("POST /question/que_1/reject").await;
    world.heard("Nobody answered within 20 s, so the request was dismissed.").await;
    let post = world.heard("Dismissed, because no answer came in time.").await;
    assert!(post.buttons.is_empty());
}

#[tokio::test]
async fn a_request_can_be_answered_after_a_crash_and_is_not_shown_again() {
    let mut world = World::new().await;
    let prompt = asked(&mut world, &json!([colours(false, true)])).await;
    let post = world.heard("Which colour?").await;
    let mut world = world.crash().await;
    world.tap(&ada(), &button(&post, "Blue")).await;
    world.server.called("POST /question/que_1/reply").await;
    world.server.answer(&prompt, "blue it is");
    world.heard("blue it is").await;
    assert_eq!(world.chat.count(&place(), "Which colour?"), 1);
}

#[tokio::test]
async fn a_request_closed_while_the_gateway_was_down_is_closed_after_the_start() {
    let mut world = World::new().await;
    asked(&mut world, &json!([colours(false, true)])).await;
    world.router.stop().await;
    world.server.lose_request("que_1");
    let world = world.crash().await;
    world.heard("No longer needs an answer.").await;
}

#[tokio::test]
async fn without_buttons_a_request_is_answered_with_text() {
    fn none(abilities: &mut Abilities) {
        abilities.buttons = 0;
    }
    let mut world = World::with(Setup { abilities: none, ..Setup::default() }).await;
    let prompt = asked(&mut world, &json!([colours(false, false)])).await;
    let post = world.heard("1. Red – warm").await;
    assert!(post.buttons.is_empty() && post.text.contains("Write a number."));
    world.say("1").await;
    world.server.called("POST /question/que_1/reply").await;
    world.server.ask_permission("per_1", &prompt.session, "make");
    let post = world.heard("Write 1 (once), 2 (always) or 3 (deny).").await;
    assert!(post.buttons.is_empty());
    world.say("1").await;
    world.server.called("POST /permission/per_1/reply").await;
}

#[tokio::test]
async fn questions_are_shown_even_without_progress() {
    let progress = settings::Progress { enabled: false, ..settings::Progress::default() };
    let settings = settings::Router { progress, ..settings::Router::default() };
    let mut world = World::with(Setup { settings, ..Setup::default() }).await;
    asked(&mut world, &json!([colours(false, true)])).await;
}

#[tokio::test]
async fn marked_options_survive_a_restart() {
    let mut world = World::new().await;
    asked(&mut world, &json!([colours(true, false)])).await;
    let post = world.heard("Which colour?").await;
    world.tap(&ada(), &button(&post, "Blue")).await;
    world.chat.until_button(&place(), "✓ Blue").await;
    let mut world = world.crash().await;
    let post = world.chat.until_button(&place(), "✓ Blue").await;
    world.tap(&ada(), &button(&post, "Red")).await;
    let post = world.chat.until_button(&place(), "✓ Red").await;
    world.tap(&ada(), &button(&post, "Done")).await;
    let call = world.server.called("POST /question/que_1/reply").await;
    assert!(call.ends_with(r#"{"answers":[["Red","Blue"]]}"#), "{call}");
}
