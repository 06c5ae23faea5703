//! Turns of a well-behaved Codex: prompts, permissions, questions and resumption.

use protocol::prompt::{Delivery, PromptInput, SessionInput};
use protocol::request::{Action, Rule};
use protocol::{EndReason, EventBody, Session, ToolState};
use serde_json::json;

use super::harness::{Harness, SimulatedUser, options};
use super::scripts::script;

const ASK: &str = "ask 9 item/commandExecution/requestApproval '\"itemId\":\"c\",\"command\":\"make\",\"proposedExecpolicyAmendment\":[\"make\"]'";

async fn harness(text: &str) -> Harness {
    Harness::new(options(&script(text))).await
}

#[tokio::test]
async fn two_turns_use_one_process_and_one_thread() {
    let mut harness = harness("begin; said m One; ends; hear; started 4; said n Two; ends; stay").await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    harness.submit(&session, "again").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed, EndReason::Completed]);
    assert_eq!(harness.asked("turn/start").len(), 2);
    assert_eq!(harness.asked("turn/start")[1]["input"], json!([{ "type": "text", "text": "again" }]));
    assert_eq!(harness.asked("thread/start").len(), 1);
    harness.check_all();
}

#[tokio::test]
async fn a_process_that_ended_between_turns_is_started_again_with_the_same_thread() {
    let text = "greet; hear; case $heard in *thread/resume*) word=Two;; *) word=One;; esac; \
                answer 2 '{\"thread\":{\"id\":\"t\"}}'; hear; started 3; said m $word; ends; exit 0";
    let mut harness = harness(text).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    harness.submit(&session, "again").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed, EndReason::Completed]);
    assert_eq!(harness.asked("thread/resume")[0]["threadId"], "t");
    assert_eq!(harness.asked("thread/start").len(), 1);
}

#[tokio::test]
async fn after_a_restart_of_the_server_the_thread_is_resumed() {
    let mut first = harness("begin; said m One; ends; stay").await;
    let session = first.first_turn(SimulatedUser::Agrees).await;
    let text = "greet; hear; answer 2 '{\"thread\":{\"id\":\"t\"}}'; hear; started 3; said m Two; ends; stay";
    let mut harness = first.restart(options(&script(text))).await;
    harness.submit(&session, "again").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed]);
    assert_eq!(harness.asked("thread/resume").len(), 1);
    harness.check_all();
}

#[tokio::test]
async fn a_thread_that_codex_has_lost_starts_again_with_a_notice() {
    let mut first = harness("begin; said m One; ends; stay").await;
    let session = first.first_turn(SimulatedUser::Agrees).await;
    let text = "greet; hear; refuse 2 'no rollout found'; hear; answer 3 '{\"thread\":{\"id\":\"t\"}}'; \
                hear; started 4; said m Two; ends; stay";
    let mut harness = first.restart(options(&script(text))).await;
    harness.submit(&session, "again").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed]);
    assert!(
        harness.errors().contains("without memory of this session: no rollout found"),
        "{}",
        harness.errors()
    );
}

/// Submits a prompt that joins the running turn.
async fn steer(harness: &Harness, session: &Session, text: &str) {
    let prompt = PromptInput { delivery: Some(Delivery::Steer), ..PromptInput::text(text) };
    harness.sessions.submit(&session.id, prompt).await.unwrap();
}

#[tokio::test]
async fn a_prompt_without_a_delivery_waits_so_that_both_answers_are_whole() {
    let text = "begin; word m One; while [ ! -e .go ]; do sleep 0.01; done; ends; hear; started 4; said n Two; ends; stay";
    let mut harness = harness(text).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == "One")).await;
    harness.submit(&session, "again").await;
    std::fs::write(harness.project.path().join(".go"), "").unwrap();
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert!(harness.asked("turn/steer").is_empty());
    assert_eq!(harness.asked("turn/start").len(), 2);
    harness.check_all();
}

#[tokio::test]
async fn a_prompt_joins_a_running_turn() {
    let text = "begin; word m Slowly; hear; answer 4 '{\"turnId\":\"u\"}'; \
                tell item/started '\"item\":{\"type\":\"userMessage\",\"id\":\"x\"}'; said n Faster; ends; stay";
    let mut harness = harness(text).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == "Slowly")).await;
    steer(&harness, &session, "faster").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed]);
    let steered = &harness.asked("turn/steer")[0];
    assert_eq!(steered["expectedTurnId"], "u");
    assert_eq!(steered["input"][0]["text"], "faster");
    let order: Vec<bool> = harness
        .messages(&session)
        .await
        .iter()
        .map(|it| matches!(it.info, protocol::Message::User(_)))
        .collect();
    assert_eq!(order, [true, false, true, false], "each prompt has its answer");
    harness.check_all();
}

#[tokio::test]
async fn a_prompt_that_comes_too_late_to_join_gets_a_turn_of_its_own() {
    let text = "begin; word m Slowly; hear; ends; refuse 4 'no active turn'; hear; started 5; said n Faster; ends; stay";
    let mut harness = harness(text).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == "Slowly")).await;
    steer(&harness, &session, "faster").await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed]);
    assert_eq!(harness.asked("turn/start").len(), 2);
    harness.check_all();
}

#[tokio::test]
async fn a_permission_is_given_for_once_or_for_the_session() {
    for (user, decision) in
        [(SimulatedUser::Agrees, "accept"), (SimulatedUser::AlwaysAgrees, "acceptForSession")]
    {
        let mut harness = harness(&format!("begin; runs c; {ASK}; hear; ran c; ends; stay")).await;
        let session = harness.first_turn(user).await;
        assert_eq!(harness.ends(&session), [EndReason::Completed]);
        assert_eq!(harness.heard().last().unwrap(), &json!({ "id": 9, "result": { "decision": decision } }));
    }
}

#[tokio::test]
async fn permanent_approvals_are_not_asked_again() {
    let text = format!(
        "begin; runs c; {ASK}; hear; ran c; ends; hear; started 4; runs c; {ASK}; hear; ran c; ends; stay"
    );
    let mut harness = harness(&text).await;
    let session = harness.first_turn(SimulatedUser::AlwaysAgrees).await;
    harness.submit(&session, "again").await;
    harness.until_idle(&session, SimulatedUser::Silent).await;
    let asked = harness.seen.iter().filter(|event| matches!(event.body, EventBody::PermissionAsked(_)));
    assert_eq!(asked.count(), 1);
}

#[tokio::test]
async fn a_refusal_stops_the_turn_unless_it_has_a_reason() {
    let text = format!("begin; runs c; {ASK}; hear; ends interrupted; stay");
    let mut refused = harness(&text).await;
    let session = refused.first_turn(SimulatedUser::Refuses).await;
    assert_eq!(refused.ends(&session), [EndReason::Blocked]);
    assert_eq!(refused.heard().last().unwrap()["result"]["decision"], "cancel");
    let tools = refused.tools(&session).await;
    assert!(matches!(tools.as_slice(), [(name, ToolState::Error(_))] if name == "bash"), "{tools:?}");
    refused.check_all();

    let text =
        format!("begin; runs c; {ASK}; hear; hear; answer 4 '{{\"turnId\":\"u\"}}'; said m Well; ends; stay");
    let mut corrected = harness(&text).await;
    let session = corrected.first_turn(SimulatedUser::Corrects).await;
    assert_eq!(corrected.ends(&session), [EndReason::Completed]);
    assert_eq!(corrected.asked("turn/steer")[0]["input"][0]["text"], "do something else");
}

/// Scripts that read the answer to a request. A refusal by a rule is followed by a `turn/steer` with the reason.
const ALLOWED: &str = "hear; said m Well; ends; stay";
const DENIED: &str = "hear; hear; answer 4 '{\"turnId\":\"u\"}'; said m Well; ends; stay";

#[tokio::test]
async fn rules_decide_before_the_user_is_asked() {
    for (action, then, decision) in [(Action::Allow, ALLOWED, "accept"), (Action::Deny, DENIED, "decline")] {
        let rules = vec![Rule::new("bash", "*", Action::Ask), Rule::new("bash", "make", action)];
        // Rules of the configuration, and rules of a session.
        for own in [false, true] {
            let text = script(&format!("begin; runs c; {ASK}; {then}"));
            let mut options = options(&text);
            let mut input = SessionInput::default();
            if own {
                input.permission = Some(rules.clone());
            } else {
                options.program.rules.clone_from(&rules);
            }
            let mut harness = Harness::new(options).await;
            let session = harness.session_with(input).await;
            harness.submit(&session, "please").await;
            harness.until_idle(&session, SimulatedUser::Silent).await;
            assert_eq!(harness.ends(&session), [EndReason::Completed]);
            let decided = harness.heard().into_iter().find(|said| said["result"]["decision"].is_string());
            assert_eq!(decided.unwrap()["result"]["decision"], decision);
            // The rules say to ask about commands, so Codex is told to.
            assert_eq!(harness.asked("thread/start")[0]["approvalPolicy"], "untrusted");
            let told = harness.asked("turn/steer");
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
    let mut harness = harness(text).await;
    let session = harness.first_turn(SimulatedUser::Refuses).await;
    assert_eq!(harness.ends(&session), [EndReason::Blocked]);
    assert_eq!(harness.asked("turn/interrupt")[0]["turnId"], "u");
}

#[tokio::test]
async fn a_plan_and_a_name_are_passed_on() {
    let text = "begin; tell turn/plan/updated '\"plan\":[{\"step\":\"look\",\"status\":\"inProgress\"}]'; \
                tell thread/name/updated '\"threadName\":\"A tidy plan\"'; said m Hi; ends; stay";
    let mut harness = harness(text).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    let todos = harness.sessions.todos(&session.id).await.unwrap();
    assert_eq!((todos[0].content.as_str(), todos[0].status.as_str()), ("look", "in_progress"));
    assert_eq!(harness.sessions.get(&session.id).await.unwrap().title, "A tidy plan");
}

#[tokio::test]
async fn a_command_is_dead_when_an_abort_has_ended_the_turn() {
    let text = "begin; setsid sleep 600 & echo $! >> .processes; runs c; word m go; \
                hear; answer 4 '{}'; ends interrupted; stay";
    let mut harness = harness(text).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == "go")).await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Aborted]);
    harness.assert_nothing_is_left();
}
