//! Commands and access rights.

use serde_json::json;

use super::harness::{Harness, Setup, ada, place};
use crate::{Content, Sender, Update, settings::UserAccess};

fn eve() -> Sender {
    Sender { id: "eve".into(), name: "Eve".into() }
}

#[tokio::test]
async fn without_allowed_users_every_user_is_refused() {
    let mut harness = Harness::with(Setup { allow: Vec::new(), ..Setup::default() }).await;
    harness.say("hi").await;
    harness.heard("You are not on the list of users").await;
    harness.say("/status").await;
    harness.say("hello?").await;
    harness.rest().await;
    assert_eq!(harness.texts().len(), 1, "it is said once");
    let aloud = harness.update(Content::Message { text: "hi all".into(), files: Vec::new() });
    harness.bring(Update { is_direct: false, sender: eve(), ..aloud }).await;
    harness.rest().await;
    assert_eq!(harness.texts().len(), 1, "and never in front of others");
    assert!(harness.server.prompts().is_empty() && harness.server.calls("POST") == 0);
}

#[tokio::test]
async fn a_code_pairs_one_user() {
    let mut harness = Harness::with(Setup { allow: Vec::new(), ..Setup::default() }).await;
    let code = harness.ledger.new_code(false).await.unwrap();
    harness.say("/pair WRONG123").await;
    harness.heard("That code is not valid.").await;
    harness.say(&format!("/pair {code}")).await;
    harness.heard("Welcome. You can send prompts").await;
    let prompt = harness.prompt("hi").await;
    harness.server.busy(&prompt.session);
    harness.server.ask_permission("per_1", &prompt.session, "make");
    harness.heard("make").await;
    harness.say("yes").await;
    harness.heard("You do not have the right to answer permission requests.").await;
    harness.say_as(&place(), &eve(), &format!("/pair {code}")).await;
    harness.chat.until_count(&place(), "That code is not valid.", 2).await;
}

#[tokio::test]
async fn a_running_turn_is_stopped_by_a_command_or_by_the_services_own_button() {
    let mut harness = Harness::new().await;
    for number in 0..2 {
        let prompt = harness.prompt("work").await;
        harness.server.busy(&prompt.session);
        harness.settled().await;
        if number == 0 {
            harness.say("/cancel").await;
        } else {
            let update = harness.update(Content::Stop);
            harness.bring(update).await;
        }
        harness.heard("Stopped.").await;
        harness.rest().await;
        assert_eq!(harness.texts(), ["Stopped."]);
    }
    harness.say("/cancel").await;
    harness.heard("Nothing is running.").await;
}

#[tokio::test]
async fn a_turn_that_is_cancelled_before_the_server_has_it_is_stopped_when_it_has() {
    let mut harness = Harness::new().await;
    harness.server.hold("/prompt_async");
    harness.say("work").await;
    harness.server.called("POST /session/ses_1/prompt_async").await;
    harness.say("/cancel").await;
    harness.done(2).await;
    assert_eq!(harness.server.calls("POST /session/ses_1/abort"), 0);
    harness.server.let_go();
    harness.server.prompt(0).await;
    harness.server.called("POST /session/ses_1/abort").await;
}

#[tokio::test]
async fn stop_drops_queued_messages() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("one").await;
    harness.server.busy(&prompt.session);
    harness.settled().await;
    harness.say("two").await;
    harness.heard("Queued").await;
    harness.say("/stop").await;
    harness.heard("Stopped. 1 message that waited was dropped.").await;
    harness.rest().await;
    assert_eq!(harness.server.prompts().len(), 1);
    assert_eq!(harness.server.calls("POST /session/ses_1/continuation"), 1);
}

#[tokio::test]
async fn status_describes_the_running_turn() {
    let mut harness = Harness::new().await;
    harness.say("/status").await;
    harness.heard("Nothing is running.").await;
    let prompt = harness.prompt("work").await;
    harness.server.busy(&prompt.session);
    harness.server.step(
        &prompt,
        &[json!({
            "type": "tool", "tool": "read", "callID": "c1",
            "state": { "status": "running", "input": {}, "title": "Read a.rs", "time": { "start": 1 } },
        })],
    );
    let next = harness.now() + 30_900;
    let retry = json!({ "type": "retry", "attempt": 2, "message": "Overloaded", "next": next });
    harness.server.status(&prompt.session, &retry);
    harness.heard("Overloaded").await;
    harness.say("/status").await;
    let status =
        harness.heard("Working for").await.text.replace("29 s", "30 s").replace("for 1 s", "for 0 s");
    insta::assert_snapshot!(status, @r"
    ⏳ Working for 0 s.
    🔁 Overloaded. Trying again in 30 s (attempt 2)
    Last: 🔧 Read a.rs
    Todos: 1 of 2 done
    Session: Title of ses_1 (`ses_1`)
    Model: `demo/small`
    Tokens: 10 in, 20 out
    ");
}

#[tokio::test]
async fn sessions_are_listed_and_chosen() {
    let mut harness = Harness::new().await;
    let first = harness.prompt("one").await;
    harness.server.answer(&first, "first answer");
    harness.heard("first answer").await;
    harness.say("/new").await;
    harness.heard("A new session.").await;
    harness.say("/sessions").await;
    let list = harness.heard("/use and a number").await.text;
    assert!(list.contains("Title of ses_2") && list.contains("← here"), "{list}");
    harness.rest().await;
    harness.server.touch("ses_2", 99);
    harness.say("/use 2").await;
    harness.heard("Continuing “Title of ses_2”.").await;
    harness.say("/use ses_1").await;
    harness.heard("Continuing “Title of ses_1”.").await;
    harness.say("/last").await;
    harness.chat.until_count(&place(), "first answer", 2).await;
    harness.say("/use 9").await;
    harness.heard("There is no such session.").await;
    assert_eq!(harness.prompt("again").await.session, "ses_1");
}

#[tokio::test]
async fn a_model_and_an_agent_can_be_chosen_for_a_place() {
    let mut harness = Harness::new().await;
    harness.say("/model").await;
    let list = harness.heard("/model and a name").await.text;
    assert!(list.contains("demo/large"), "{list}");
    harness.say("/model nonsense").await;
    harness.heard("There is no model `nonsense`").await;
    harness.say("/model demo/large").await;
    harness.heard("The model is now demo/large.").await;
    harness.say("/agent").await;
    let list = harness.heard("/agent and a name").await.text;
    assert!(list.contains("build – Does things") && !list.contains("explore"), "{list}");
    harness.say("/agent build").await;
    harness.heard("The agent is now build.").await;
    let prompt = harness.prompt("hi").await;
    assert_eq!(prompt.body["model"], json!({ "providerID": "demo", "modelID": "large" }));
    assert_eq!(prompt.body["agent"], "build");
}

#[tokio::test]
async fn changes_are_sent_as_a_file() {
    let mut harness = Harness::new().await;
    harness.say("/diff").await;
    harness.heard("There is no session yet.").await;
    harness.say("/new").await;
    harness.say("/diff").await;
    let post = harness.heard("All changes.").await;
    assert_eq!(post.file.unwrap().text, "--- a.rs\n+++ a.rs\n");
}

#[tokio::test]
async fn an_unknown_command_is_never_a_prompt() {
    let mut harness = Harness::new().await;
    harness.say("/dance").await;
    harness.heard("There is no command /dance. /help lists them.").await;
    harness.say("/help").await;
    harness.heard("/sessions – List the sessions").await;
    harness.rest().await;
    assert!(harness.server.prompts().is_empty());
}

#[tokio::test]
async fn a_user_who_may_only_approve_cannot_use_commands() {
    let allow = vec![UserAccess { id: ada().id, prompt: false, approve: true }];
    let mut harness = Harness::with(Setup { allow, ..Setup::default() }).await;
    harness.say("/new").await;
    harness.heard("not send prompts").await;
    assert_eq!(harness.server.calls("POST"), 0);
}

#[tokio::test]
async fn a_command_reports_an_unreachable_server() {
    let mut harness = Harness::new().await;
    harness.server.fail("/session", 503, 1);
    harness.say("/new").await;
    harness.heard("The server cannot be reached right now.").await;
}

#[tokio::test]
async fn status_works_without_the_server() {
    let mut harness = Harness::new().await;
    let prompt = harness.prompt("work").await;
    harness.server.busy(&prompt.session);
    harness.settled().await;
    harness.server.fail("/session/ses_1", 503, 1);
    harness.say("/status").await;
    let status = harness.heard("Working for").await.text;
    assert!(status.ends_with("I go on as soon as it is back."), "{status}");
}
