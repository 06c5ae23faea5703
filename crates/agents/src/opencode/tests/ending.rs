//! The end of a turn: subagents in the background, and a server that sends nothing.

use std::sync::Arc;
use std::time::Duration;

use engine::limits::Limits;
use protocol::{EndReason, EventBody, Session, SessionStatus};

use super::fake::{Act, Fake};
use super::scene::Player;
use super::script::*;
use crate::external::world::{Person, World};
use crate::opencode::pulse::Pace;

/// Short delays for tests.
const HASTY: Pace = Pace {
    settle: Duration::from_millis(20),
    pulse: Duration::from_millis(20),
    quiet: Duration::from_millis(100),
};

/// A session whose turn has begun.
async fn begun(pace: Pace) -> (Arc<Fake>, World, Session) {
    let fake = Arc::new(Fake::new().await);
    fake.set_busy(true);
    let world = World::bounded(Limits::default(), |_| fake.paced_runner(pace)).await;
    let session = world.session().await;
    world.submit(&session, "please").await;
    (fake, world, session)
}

/// The published statuses, with the message of a retry.
fn statuses(world: &World, session: &Session) -> Vec<String> {
    let told = world.seen.iter().filter_map(|event| match &event.body {
        EventBody::SessionStatus(it) if it.session_id == session.id => Some(match &it.status {
            SessionStatus::Busy { .. } => "busy".to_owned(),
            SessionStatus::Idle { .. } => "idle".to_owned(),
            SessionStatus::Retry { message, .. } => message.clone(),
        }),
        _ => None,
    });
    told.collect()
}

async fn play(world: &World, fake: &Arc<Fake>, scene: &str) {
    Player::new(fake, world.project.path(), &Arc::default(), 0).perform(scene.to_owned()).await;
}

/// Starts a subagent in the background and makes its parent idle.
async fn with_child(world: &mut World, fake: &Arc<Fake>, session: &Session) -> Session {
    play(world, fake, "prompted; bears; says Meanwhile; finish").await;
    world.until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.text() == Some("below"))).await;
    world.sessions.children(&session.id).await.unwrap().remove(0)
}

#[tokio::test]
async fn a_session_is_busy_until_the_last_subagent_has_ended() {
    let (fake, mut world, session) = begun(HASTY).await;
    let child = with_child(&mut world, &fake, &session).await;
    // The server has reported the session as idle in many status checks.
    fake.called("GET /session/status", 5).await;
    play(&world, &fake, "buries").await;
    assert_eq!(world.until_idle(&session, Person::Agrees).await, EndReason::Completed);
    assert_eq!((world.check(&session.id), world.check(&child.id)), (1, 1));
    let idle = |session: &Session| {
        let is_idle =
            |body: &EventBody| matches!(body, EventBody::SessionIdle(it) if it.session_id == session.id);
        world.seen.iter().position(|event| is_idle(&event.body)).unwrap()
    };
    assert!(idle(&child) < idle(&session));
}

#[tokio::test]
async fn the_result_of_a_subagent_is_used_in_the_same_turn() {
    let (fake, mut world, session) = begun(Pace { settle: Duration::from_millis(200), ..HASTY }).await;
    with_child(&mut world, &fake, &session).await;
    play(&world, &fake, "buries").await;
    // OpenCode continues with the result of the subagent.
    fake.set_busy(true);
    fake.play([vec![busy()], answer("$E", "Taken up"), idle()].concat()).await;
    assert_eq!(world.until_idle(&session, Person::Agrees).await, EndReason::Completed);
    assert_eq!(world.check(&session.id), 1);
    let messages = world.messages(&session).await;
    let last = messages.last().unwrap().parts.iter().find_map(|part| part.text());
    assert_eq!(last, Some("Taken up"));
}

#[tokio::test]
async fn a_silence_is_reported_and_the_turn_continues() {
    let (fake, mut world, session) = begun(HASTY).await;
    fake.play([start(), vec![opened("$A")]].concat()).await;
    world.until(|body| matches!(body, EventBody::SessionStatus(it) if matches!(it.status, SessionStatus::Retry { .. }))).await;
    let asked = fake.calls().iter().filter(|call| call.starts_with("GET /session/status")).count();
    fake.called("GET /session/status", asked + 5).await;
    fake.play([vec![closed("$A", "tool-calls")], answer("$B", "Hello"), idle()].concat()).await;
    assert_eq!(world.until_idle(&session, Person::Agrees).await, EndReason::Completed);
    let told = statuses(&world, &session);
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[1].contains("OpenCode reports that it is busy"), "{told:?}");
    assert_eq!((told[2].as_str(), told[3].as_str()), ("busy", "idle"));
    assert_eq!(world.check(&session.id), 1);
}

#[tokio::test]
async fn a_tool_may_take_its_time() {
    let (fake, mut world, session) = begun(HASTY).await;
    fake.play([start(), vec![opened("$A"), tool("$A", "running")]].concat()).await;
    fake.called("GET /session/status", 20).await;
    fake.play(
        [vec![tool("$A", "completed"), closed("$A", "tool-calls")], answer("$B", "Hello"), idle()].concat(),
    )
    .await;
    assert_eq!(world.until_idle(&session, Person::Agrees).await, EndReason::Completed);
    assert_eq!(statuses(&world, &session), ["busy", "idle"]);
}

#[tokio::test]
async fn a_status_check_finds_a_lost_idle() {
    let (fake, mut world, session) = begun(HASTY).await;
    fake.play([start(), answer("$A", "Hello")].concat()).await;
    fake.called("GET /session/status", 3).await;
    fake.play(vec![Act::Statuses(serde_json::json!({}))]).await;
    assert_eq!(world.until_idle(&session, Person::Agrees).await, EndReason::Completed);
    assert_eq!(world.check(&session.id), 1);
}
