//! Commands and access rights.

use serde_json::json;

use super::world::{Setup, World, ada, place};
use crate::{Content, Sender, Update, settings::Person};

fn eve() -> Sender {
    Sender { id: "eve".into(), name: "Eve".into() }
}

#[tokio::test]
async fn without_allowed_users_every_user_is_refused() {
    let mut world = World::with(Setup { allow: Vec::new(), ..Setup::default() }).await;
    world.say("hi").await;
    world.heard("You are not on the list of users").await;
    world.say("/status").await;
    world.say("hello?").await;
    world.rest().await;
    assert_eq!(world.texts().len(), 1, "it is said once");
    let aloud = world.update(Content::Message { text: "hi all".into(), files: Vec::new() });
    world.bring(Update { is_direct: false, sender: eve(), ..aloud }).await;
    world.rest().await;
    assert_eq!(world.texts().len(), 1, "and never in front of others");
    assert!(world.server.prompts().is_empty() && world.server.calls("POST") == 0);
}

#[tokio::test]
async fn a_code_pairs_one_user() {
    let mut world = World::with(Setup { allow: Vec::new(), ..Setup::default() }).await;
    let code = world.ledger.new_code(false).await.unwrap();
    world.say("/pair WRONG123").await;
    world.heard("That code is not valid.").await;
    world.say(&format!("/pair {code}")).await;
    world.heard("Welcome. You can send prompts").await;
    let prompt = world.prompt("hi").await;
    world.server.busy(&prompt.session);
    world.server.ask_permission("per_1", &prompt.session, "make");
    world.heard("make").await;
    world.say("yes").await;
    world.heard("You do not have the right to answer permission requests.").await;
    world.say_as(&place(), &eve(), &format!("/pair {code}")).await;
    world.chat.until_count(&place(), "That code is not valid.", 2).await;
}

#[tokio::test]
async fn a_running_turn_is_stopped_by_a_command_or_by_the_services_own_button() {
    let mut world = World::new().await;
    for number in 0..2 {
        let prompt = world.prompt("work").await;
        world.server.busy(&prompt.session);
        world.settled().await;
        if number == 0 {
            world.say("/cancel").await;
        } else {
            let update = world.update(Content::Stop);
            world.bring(update).await;
        }
        world.heard("Stopped.").await;
        world.rest().await;
        assert_eq!(world.texts(), ["Stopped."]);
    }
    world.say("/cancel").await;
    world.heard("Nothing is running.").await;
}

#[tokio::test]
async fn a_turn_that_is_cancelled_before_the_server_has_it_is_stopped_when_it_has() {
    let mut world = World::new().await;
    world.server.hold("/prompt_async");
    world.say("work").await;
    world.server.called("POST /session/ses_1/prompt_async").await;
    world.say("/cancel").await;
    world.done(2).await;
    assert_eq!(world.server.calls("POST /session/ses_1/abort"), 0);
    world.server.let_go();
    world.server.prompt(0).await;
    world.server.called("POST /session/ses_1/abort").await;
}

#[tokio::test]
async fn stop_drops_queued_messages() {
    let mut world = World::new().await;
    let prompt = world.prompt("one").await;
    world.server.busy(&prompt.session);
    world.settled().await;
    world.say("two").await;
    world.heard("Queued").await;
    world.say("/stop").await;
    world.heard("Stopped. 1 message that waited was dropped.").await;
    world.rest().await;
    assert_eq!(world.server.prompts().len(), 1);
    assert_eq!(world.server.calls("POST /session/ses_1/continuation"), 1);
}

#[tokio::test]
async fn status_describes_the_running_turn() {
    let mut world = World::new().await;
    world.say("/status").await;
    world.heard("Nothing is running.").await;
    let prompt = world.prompt("work").await;
    world.server.busy(&prompt.session);
    world.server.step(
        &prompt,
        &[json!({
            "type": "tool", "tool": "read", "callID": "c1",
            "state": { "status": "running", "input": {}, "title": "Read a.rs", "time": { "start": 1 } },
        })],
    );
    let next = world.now() + 30_900;
    let retry = json!({ "type": "retry", "attempt": 2, "message": "Overloaded", "next": next });
    world.server.status(&prompt.session, &retry);
    world.heard("Overloaded").await;
    world.say("/status").await;
    let status = world.heard("Working for").await.text.replace("29 s", "30 s").replace("for 1 s", "for 0 s");
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
    let mut world = World::new().await;
    let first = world.prompt("one").await;
    world.server.answer(&first, "first answer");
    world.heard("first answer").await;
    world.say("/new").await;
    world.heard("A new session.").await;
    world.say("/sessions").await;
    let list = world.heard("/use and a number").await.text;
    assert!(list.contains("Title of ses_2") && list.contains("← here"), "{list}");
    world.rest().await;
    world.server.touch("ses_2", 99);
    world.say("/use 2").await;
    world.heard("Continuing “Title of ses_2”.").await;
    world.say("/use ses_1").await;
    world.heard("Continuing “Title of ses_1”.").await;
    world.say("/last").await;
    world.chat.until_count(&place(), "first answer", 2).await;
    world.say("/use 9").await;
    world.heard("There is no such session.").await;
    assert_eq!(world.prompt("again").await.session, "ses_1");
}

#[tokio::test]
async fn a_model_and_an_agent_can_be_chosen_for_a_place() {
    let mut world = World::new().await;
    world.say("/model").await;
    let list = world.heard("/model and a name").await.text;
    assert!(list.contains("demo/large"), "{list}");
    world.say("/model nonsense").await;
    world.heard("There is no model `nonsense`").await;
    world.say("/model demo/large").await;
    world.heard("The model is now demo/large.").await;
    world.say("/agent").await;
    let list = world.heard("/agent and a name").await.text;
    assert!(list.contains("build – Does things") && !list.contains("explore"), "{list}");
    world.say("/agent build").await;
    world.heard("The agent is now build.").await;
    let prompt = world.prompt("hi").await;
    assert_eq!(prompt.body["model"], json!({ "providerID": "demo", "modelID": "large" }));
    assert_eq!(prompt.body["agent"], "build");
}

#[tokio::test]
async fn changes_are_sent_as_a_file() {
    let mut world = World::new().await;
    world.say("/diff").await;
    world.heard("There is no session yet.").await;
    world.say("/new").await;
    world.say("/diff").await;
    let post = world.heard("All changes.").await;
    assert_eq!(post.file.unwrap().text, "--- a.rs\n+++ a.rs\n");
}

#[tokio::test]
async fn an_unknown_command_is_never_a_prompt() {
    let mut world = World::new().await;
    world.say("/dance").await;
    world.heard("There is no command /dance. /help lists them.").await;
    world.say("/help").await;
    world.heard("/sessions – List the sessions").await;
    world.rest().await;
    assert!(world.server.prompts().is_empty());
}

#[tokio::test]
async fn a_user_who_may_only_approve_cannot_use_commands() {
    let allow = vec![Person { id: ada().id, prompt: false, approve: true }];
    let mut world = World::with(Setup { allow, ..Setup::default() }).await;
    world.say("/new").await;
    world.heard("not send prompts").await;
    assert_eq!(world.server.calls("POST"), 0);
}

#[tokio::test]
async fn a_command_reports_an_unreachable_server() {
    let mut world = World::new().await;
    world.server.fail("/session", 503, 1);
    world.say("/new").await;
    world.heard("The server cannot be reached right now.").await;
}

#[tokio::test]
async fn status_works_without_the_server() {
    let mut world = World::new().await;
    let prompt = world.prompt("work").await;
    world.server.busy(&prompt.session);
    world.settled().await;
    world.server.fail("/session/ses_1", 503, 1);
    world.say("/status").await;
    let status = world.heard("Working for").await.text;
    assert!(status.ends_with("The server cannot be reached right now. Try again in a moment."), "{status}");
}
