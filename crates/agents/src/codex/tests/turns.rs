//! Turns that go well: what people say to Codex, and what becomes of it.

use protocol::prompt::SessionInput;
use protocol::request::{Action, Rule};
use protocol::{EndReason, EventBody, ToolState};
use serde_json::json;

use super::scripts::script;
use super::world::{Person, World, options};

const ASK: &str = "ask 9 item/commandExecution/requestApproval '\"itemId\":\"c\",\"command\":\"make\",\"proposedExecpolicyAmendment\":[\"make\"]'";

async fn world(text: &str) -> World {
    World::new(options(&script(text))).await
}

#[tokio::test]
async fn two_turns_use_one_process_and_one_thread() {
    let mut world = world("begin; said m One; ends; hear; started 4; said n Two; ends; stay").await;
    let session = world.turn(Person::Agrees).await;
    world.submit(&session, "again").await;
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(world.ends(&session), [EndReason::Completed, EndReason::Completed]);
    assert_eq!(world.asked("turn/start").len(), 2);
    assert_eq!(world.asked("turn/start")[1]["input"], json!([{ "type": "text", "text": "again" }]));
    assert_eq!(world.asked("thread/start").len(), 1);
    world.check();
}

#[tokio::test]
async fn a_process_that_ended_between_turns_is_started_again_with_the_same_thread() {
    let text = "greet; hear; case $heard in *thread/resume*) word=Two;; *) word=One;; esac; \
                answer 2 '{\"thread\":{\"id\":\"t\"}}'; hear; started 3; said m $word; ends; exit 0";
    let mut world = world(text).await;
    let session = world.turn(Person::Agrees).await;
    world.submit(&session, "again").await;
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(world.ends(&session), [EndReason::Completed, EndReason::Completed]);
    assert_eq!(world.asked("thread/resume")[0]["threadId"], "t");
    assert_eq!(world.asked("thread/start").len(), 1);
}

#[tokio::test]
async fn after_a_restart_of_the_server_the_thread_goes_on() {
    let mut first = world("begin; said m One; ends; stay").await;
    let session = first.turn(Person::Agrees).await;
    let text = "greet; hear; answer 2 '{\"thread\":{\"id\":\"t\"}}'; hear; started 3; said m Two; ends; stay";
    let mut world = first.restart(options(&script(text))).await;
    world.submit(&session, "again").await;
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(world.ends(&session), [EndReason::Completed]);
    assert_eq!(world.asked("thread/resume").len(), 1);
    world.check();
}

#[tokio::test]
async fn a_thread_that_codex_has_forgotten_begins_anew_and_says_so() {
    let mut first = world("begin; said m One; ends; stay").await;
    let session = first.turn(Person::Agrees).await;
    let text = "greet; hear; refuse 2 'no rollout found'; hear; answer 3 '{\"thread\":{\"id\":\"t\"}}'; \
                hear; started 4; said m Two; ends; stay";
    let mut world = first.restart(options(&script(text))).await;
    world.submit(&session, "again").await;
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(world.ends(&session), [EndReason::Completed]);
    assert!(
        world.errors().contains("without memory of this session: no rollout found"),
        "{}",
        world.errors()
    );
}

#[tokio::test]
async fn a_prompt_joins_a_running_turn() {
    let text = "begin; word m Slowly; hear; answer 4 '{\"turnId\":\"u\"}'; \
                tell item/started '\"item\":{\"type\":\"userMessage\",\"id\":\"x\"}'; said n Faster; ends; stay";
    let mut world = world(text).await;
    let session = world.session().await;
    world.submit(&session, "please").await;
    world.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == "Slowly")).await;
    world.submit(&session, "faster").await;
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(world.ends(&session), [EndReason::Completed]);
    let steered = &world.asked("turn/steer")[0];
    assert_eq!(steered["expectedTurnId"], "u");
    assert_eq!(steered["input"][0]["text"], "faster");
    let order: Vec<bool> = world
        .messages(&session)
        .await
        .iter()
        .map(|it| matches!(it.info, protocol::Message::User(_)))
        .collect();
    assert_eq!(order, [true, false, true, false], "each prompt has its answer");
    world.check();
}

#[tokio::test]
async fn a_prompt_that_comes_too_late_to_join_gets_a_turn_of_its_own() {
    let text = "begin; word m Slowly; hear; ends; refuse 4 'no active turn'; hear; started 5; said n Faster; ends; stay";
    let mut world = world(text).await;
    let session = world.session().await;
    world.submit(&session, "please").await;
    world.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == "Slowly")).await;
    world.submit(&session, "faster").await;
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(world.ends(&session), [EndReason::Completed]);
    assert_eq!(world.asked("turn/start").len(), 2);
    world.check();
}

#[tokio::test]
async fn a_permission_is_given_for_once_or_for_the_session() {
    for (person, decision) in [(Person::Agrees, "accept"), (Person::AlwaysAgrees, "acceptForSession")] {
        let mut world = world(&format!("begin; runs c; {ASK}; hear; ran c; ends; stay")).await;
        let session = world.turn(person).await;
        assert_eq!(world.ends(&session), [EndReason::Completed]);
        assert_eq!(world.heard().last().unwrap(), &json!({ "id": 9, "result": { "decision": decision } }));
    }
}

#[tokio::test]
async fn what_was_allowed_for_good_is_not_asked_again() {
    let text = format!(
        "begin; runs c; {ASK}; hear; ran c; ends; hear; started 4; runs c; {ASK}; hear; ran c; ends; stay"
    );
    let mut world = world(&text).await;
    let session = world.turn(Person::AlwaysAgrees).await;
    world.submit(&session, "again").await;
    world.until_idle(&session, Person::Sleeps).await;
    let asked = world.seen.iter().filter(|event| matches!(event.body, EventBody::PermissionAsked(_)));
    assert_eq!(asked.count(), 1);
}

#[tokio::test]
async fn a_person_who_says_no_stops_the_turn_and_one_who_explains_does_not() {
    let text = format!("begin; runs c; {ASK}; hear; ends interrupted; stay");
    let mut refused = world(&text).await;
    let session = refused.turn(Person::Refuses).await;
    assert_eq!(refused.ends(&session), [EndReason::Blocked]);
    assert_eq!(refused.heard().last().unwrap()["result"]["decision"], "cancel");
    let tools = refused.tools(&session).await;
    assert!(matches!(tools.as_slice(), [(name, ToolState::Error(_))] if name == "bash"), "{tools:?}");
    refused.check();

    let text =
        format!("begin; runs c; {ASK}; hear; hear; answer 4 '{{\"turnId\":\"u\"}}'; said m Well; ends; stay");
    let mut corrected = world(&text).await;
    let session = corrected.turn(Person::Corrects).await;
    assert_eq!(corrected.ends(&session), [EndReason::Completed]);
    assert_eq!(corrected.asked("turn/steer")[0]["input"][0]["text"], "use less");
}

/// Codex is answered, and is told why if a rule says no.
const ALLOWED: &str = "hear; said m Well; ends; stay";
const DENIED: &str = "hear; hear; answer 4 '{\"turnId\":\"u\"}'; said m Well; ends; stay";

#[tokio::test]
async fn rules_answer_before_people_do() {
    for (action, then, decision) in [(Action::Allow, ALLOWED, "accept"), (Action::Deny, DENIED, "decline")] {
        let rules = vec![Rule::new("bash", "*", Action::Ask), Rule::new("bash", "make", action)];
        // Those of the configuration, and those of a session.
        for own in [false, true] {
            let text = script(&format!("begin; runs c; {ASK}; {then}"));
            let mut options = options(&text);
            let mut input = SessionInput::default();
            if own {
                input.permission = Some(rules.clone());
            } else {
                options.program.rules.clone_from(&rules);
            }
            let mut world = World::new(options).await;
            let session = world.session_with(input).await;
            world.submit(&session, "please").await;
            world.until_idle(&session, Person::Sleeps).await;
            assert_eq!(world.ends(&session), [EndReason::Completed]);
            let decided = world.heard().into_iter().find(|said| said["result"]["decision"].is_string());
            assert_eq!(decided.unwrap()["result"]["decision"], decision);
            // The rules say to ask about commands, so Codex is told to.
            assert_eq!(world.asked("thread/start")[0]["approvalPolicy"], "untrusted");
            let told = world.asked("turn/steer");
            assert_eq!(told.len(), usize::from(action == Action::Deny));
            assert!(
                told.iter().all(|told| told["input"][0]["text"].as_str().unwrap().contains("prevents you"))
            );
        }
    }
}

#[tokio::test]
async fn a_question_that_is_dismissed_stops_the_turn() {
    let text = "begin; ask 9 item/tool/requestUserInput '\"itemId\":\"c\",\"questions\":[{\"id\":\"q\",\"question\":\"Which?\",\"options\":[{\"label\":\"Red\"}]}]'; \
                hear; hear; answer 4 '{}'; ends interrupted; stay";
    let mut world = world(text).await;
    let session = world.turn(Person::Refuses).await;
    assert_eq!(world.ends(&session), [EndReason::Blocked]);
    assert_eq!(world.asked("turn/interrupt")[0]["turnId"], "u");
}

#[tokio::test]
async fn a_plan_and_a_name_are_passed_on() {
    let text = "begin; tell turn/plan/updated '\"plan\":[{\"step\":\"look\",\"status\":\"inProgress\"}]'; \
                tell thread/name/updated '\"threadName\":\"A tidy plan\"'; said m Hi; ends; stay";
    let mut world = world(text).await;
    let session = world.turn(Person::Agrees).await;
    let todos = world.sessions.todos(&session.id).await.unwrap();
    assert_eq!((todos[0].content.as_str(), todos[0].status.as_str()), ("look", "in_progress"));
    assert_eq!(world.sessions.get(&session.id).await.unwrap().title, "A tidy plan");
}
