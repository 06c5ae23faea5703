//! Turns that Codex begins by itself, with and without a goal.

use protocol::{EndReason, EventBody, Part, Session};

use super::harness::{Harness, SimulatedUser, options};
use super::scripts::script;

/// Shell functions that change the goal of the thread and begin a turn without a prompt.
const WORDS: &str = r#"
goal() { tell thread/goal/updated "\"goal\":{\"status\":\"$1\"}"; }
unasked() { tell turn/started "\"turn\":{\"id\":\"$1\",\"status\":\"inProgress\"}"; }
over() { tell turn/completed "\"turn\":{\"id\":\"$1\",\"status\":\"completed\"}"; }
"#;

async fn harness(text: &str) -> Harness {
    Harness::new(options(&script(&format!("{WORDS}\n{text}")))).await
}

async fn said(harness: &Harness, session: &Session) -> Vec<String> {
    let messages = harness.messages(session).await;
    messages.iter().flat_map(|it| &it.parts).filter_map(Part::text).map(str::to_owned).collect()
}

#[tokio::test]
async fn turns_for_a_goal_are_one_turn() {
    let acts =
        "begin; goal active; said m One; ends; status idle; status active; unasked v; said n Two; over v
        unasked w; said o Three; goal complete; over w; stay";
    let mut harness = harness(acts).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed]);
    assert_eq!(said(&harness, &session).await, ["please", "One", "Two", "Three"]);
    harness.check_all();
}

#[tokio::test]
async fn a_goal_that_codex_does_not_pursue_does_not_delay_the_end() {
    for goal in ["goal active", "goal active; goal paused", "goal active; tell thread/goal/cleared"] {
        let mut harness = harness(&format!("begin; {goal}; said m One; ends; stay")).await;
        let session = harness.first_turn(SimulatedUser::Agrees).await;
        assert_eq!(harness.ends(&session), [EndReason::Completed], "{goal}");
        harness.check_all();
    }
}

#[tokio::test]
async fn an_abort_ends_the_turns_for_a_goal() {
    let acts = "begin; goal active; said m One; ends; unasked v; word n go; hear; answer 4 '{}'
        tell turn/completed '\"turn\":{\"id\":\"v\",\"status\":\"interrupted\"}'; stay";
    let mut harness = harness(acts).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == "go")).await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Aborted]);
    assert_eq!(harness.asked("turn/interrupt")[0]["turnId"], "v");
    harness.check_all();
}

#[tokio::test]
async fn work_that_begins_between_turns_gets_its_own_turn() {
    let mut harness = harness("begin; said m One; ends; unasked v; said n Two; over v; stay").await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(harness.ends(&session), [EndReason::Completed, EndReason::Completed]);
    let said = said(&harness, &session).await;
    assert_eq!((said[1].as_str(), said[3].as_str()), ("One", "Two"));
    assert_eq!(harness.asked("turn/start").len(), 1, "Codex began the second by itself");
    harness.check_all();
}
