//! The end of a turn: subagents in the background, and a server that sends nothing.

use std::sync::Arc;
use std::time::Duration;

use engine::limits::Limits;
use protocol::{EndReason, EventBody, Session, SessionStatus};

use super::fake::{Act, Fake};
use super::scene::Player;
use super::script::*;
use crate::external::harness::{Harness, SimulatedUser};
use crate::opencode::status_checks::Pace;

/// Limits that are long in production are short here.
const HASTY: Pace = Pace {
    settle: Duration::from_millis(20),
    pulse: Duration::from_millis(20),
    quiet: Duration::from_millis(100),
};

/// A session whose turn has begun.
async fn begun(pace: Pace) -> (Arc<Fake>, Harness, Session) {
    let fake = Arc::new(Fake::new().await);
    fake.set_busy(true);
    let harness = Harness::bounded(Limits::default(), |_| fake.paced_runner(pace)).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    (fake, harness, session)
}

/// The published statuses, with the messages of retries.
fn statuses(harness: &Harness, session: &Session) -> Vec<String> {
    let told = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::SessionStatus(it) if it.session_id == session.id => Some(match &it.status {
            SessionStatus::Busy { .. } => "busy".to_owned(),
            SessionStatus::Idle { .. } => "idle".to_owned(),
            SessionStatus::Retry { message, .. } => message.clone(),
        }),
        _ => None,
    });
    told.collect()
}

async fn play(harness: &Harness, fake: &Arc<Fake>, scene: &str) {
    Player::new(fake, harness.project.path(), &Arc::default(), 0).perform(scene.to_owned()).await;
}

/// Plays a scene in which a subagent works in the background when its parent is idle.
async fn with_child(harness: &mut Harness, fake: &Arc<Fake>, session: &Session) -> Session {
    let said = |text: &'static str| move |body: &EventBody| matches!(body, EventBody::PartUpdated(it) if it.part.text() == Some(text) && !it.part.is_open());
    play(harness, fake, "prompted; bears").await;
    harness.until(said("below")).await;
    // OpenCode is busy until every event has arrived, so that no status check ends the turn before.
    fake.play([answer("$D", "Meanwhile"), idle()].concat()).await;
    harness.until(said("Meanwhile")).await;
    fake.play(vec![Act::Statuses(serde_json::json!({ "ses_child": { "type": "busy" } }))]).await;
    harness.sessions.children(&session.id).await.unwrap().remove(0)
}

#[tokio::test]
async fn a_session_is_busy_until_the_last_subagent_has_ended() {
    let (fake, mut harness, session) = begun(HASTY).await;
    let child = with_child(&mut harness, &fake, &session).await;
    // It was asked many times, and always said that the session is idle.
    fake.called("GET /session/status", 5).await;
    play(&harness, &fake, "buries").await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!((harness.check(&session.id), harness.check(&child.id)), (1, 1));
    let idle = |session: &Session| {
        let is_idle =
            |body: &EventBody| matches!(body, EventBody::SessionIdle(it) if it.session_id == session.id);
        harness.seen.iter().position(|event| is_idle(&event.body)).unwrap()
    };
    assert!(idle(&child) < idle(&session));
}

#[tokio::test]
async fn the_result_of_a_subagent_continues_the_same_turn() {
    let (fake, mut harness, session) = begun(Pace { settle: Duration::from_millis(200), ..HASTY }).await;
    with_child(&mut harness, &fake, &session).await;
    play(&harness, &fake, "buries").await;
    // OpenCode continues with the result of the subagent.
    fake.set_busy(true);
    fake.play([vec![busy()], answer("$E", "Taken up"), idle()].concat()).await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!(harness.check(&session.id), 1);
    let messages = harness.messages(&session).await;
    let last = messages.last().unwrap().parts.iter().find_map(|part| part.text());
    assert_eq!(last, Some("Taken up"));
}

#[tokio::test]
async fn a_silent_server_causes_a_notice_and_the_turn_continues() {
    let (fake, mut harness, session) = begun(HASTY).await;
    fake.play([start(), vec![opened("$A")]].concat()).await;
    harness.until(|body| matches!(body, EventBody::SessionStatus(it) if matches!(it.status, SessionStatus::Retry { .. }))).await;
    let asked = fake.calls().iter().filter(|call| call.starts_with("GET /session/status")).count();
    fake.called("GET /session/status", asked + 5).await;
    fake.play([vec![closed("$A", "tool-calls")], answer("$B", "Hello"), idle()].concat()).await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
    let told = statuses(&harness, &session);
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[1].contains("OpenCode reports that it is busy"), "{told:?}");
    assert_eq!((told[2].as_str(), told[3].as_str()), ("busy", "idle"));
    assert_eq!(harness.check(&session.id), 1);
}

#[tokio::test]
async fn a_tool_may_take_its_time() {
    let (fake, mut harness, session) = begun(HASTY).await;
    fake.play([start(), vec![opened("$A"), tool("$A", "running")]].concat()).await;
    fake.called("GET /session/status", 20).await;
    fake.play(
        [vec![tool("$A", "completed"), closed("$A", "tool-calls")], answer("$B", "Hello"), idle()].concat(),
    )
    .await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!(statuses(&harness, &session), ["busy", "idle"]);
}

#[tokio::test]
async fn a_missed_idle_is_detected() {
    let (fake, mut harness, session) = begun(HASTY).await;
    fake.play([start(), answer("$A", "Hello")].concat()).await;
    fake.called("GET /session/status", 3).await;
    fake.play(vec![Act::Statuses(serde_json::json!({}))]).await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!(harness.check(&session.id), 1);
}
