//! Turns that Codex begins by itself, with and without a goal.

use protocol::{EndReason, EventBody, Part, Session};

use super::scripts::script;
use super::world::{Person, World, options};

/// Shell functions that change the goal of the thread and begin a turn without a prompt.
const WORDS: &str = r#"
goal() { tell thread/goal/updated "\"goal\":{\"status\":\"$1\"}"; }
unasked() { tell turn/started "\"turn\":{\"id\":\"$1\",\"status\":\"inProgress\"}"; }
over() { tell turn/completed "\"turn\":{\"id\":\"$1\",\"status\":\"completed\"}"; }
"#;

async fn world(text: &str) -> World {
    World::new(options(&script(&format!("{WORDS}\n{text}")))).await
}

async fn said(world: &World, session: &Session) -> Vec<String> {
    let messages = world.messages(session).await;
    messages.iter().flat_map(|it| &it.parts).filter_map(Part::text).map(str::to_owned).collect()
}

#[tokio::test]
async fn turns_for_a_goal_are_one_turn() {
    let acts =
        "begin; goal active; said m One; ends; status idle; status active; unasked v; said n Two; over v
        unasked w; said o Three; goal complete; over w; stay";
    let mut world = world(acts).await;
    let session = world.turn(Person::Agrees).await;
    assert_eq!(world.ends(&session), [EndReason::Completed]);
    assert_eq!(said(&world, &session).await, ["please", "One", "Two", "Three"]);
    world.check();
}

#[tokio::test]
async fn a_goal_that_codex_does_not_pursue_does_not_delay_the_end() {
    for goal in ["goal active", "goal active; goal paused", "goal active; tell thread/goal/cleared"] {
        let mut world = world(&format!("begin; {goal}; said m One; ends; stay")).await;
        let session = world.turn(Person::Agrees).await;
        assert_eq!(world.ends(&session), [EndReason::Completed], "{goal}");
        world.check();
    }
}

#[tokio::test]
async fn an_abort_ends_the_turns_for_a_goal() {
    let acts = "begin; goal active; said m One; ends; unasked v; word n go; hear; answer 4 '{}'
        tell turn/completed '\"turn\":{\"id\":\"v\",\"status\":\"interrupted\"}'; stay";
    let mut world = world(acts).await;
    let session = world.session().await;
    world.submit(&session, "please").await;
    world.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == "go")).await;
    world.sessions.abort(&session.id).await.unwrap();
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(world.ends(&session), [EndReason::Aborted]);
    assert_eq!(world.asked("turn/interrupt")[0]["turnId"], "v");
    world.check();
}

#[tokio::test]
async fn work_between_turns_opens_a_turn() {
    let mut world = world("begin; said m One; ends; unasked v; said n Two; over v; stay").await;
    let session = world.turn(Person::Agrees).await;
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(world.ends(&session), [EndReason::Completed, EndReason::Completed]);
    let said = said(&world, &session).await;
    assert_eq!((said[1].as_str(), said[3].as_str()), ("One", "Two"));
    assert_eq!(world.asked("turn/start").len(), 1, "Baton did not start the second turn");
    world.check();
}
