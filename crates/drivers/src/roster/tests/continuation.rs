//! Turns of external agents continue while todos are open: in the same turn, within the same limits,
//! and for the same reasons as those of the native loop.

use protocol::continuation::StopReason;
use protocol::{EndReason, EventBody, Message, Session, SessionStatus};

use super::scenario_harness::{ScenarioHarness, each};
use crate::external::harness::SimulatedUser;
use crate::roster::known::Kind;

/// The beginning of the continuation prompt.
const REMINDER: &str = "The todo list is not finished";

/// The number of continuations of a session, and the reasons why they stopped.
fn went_on(stage: &ScenarioHarness, session: &Session) -> (usize, Vec<StopReason>) {
    let own = stage.harness.seen.iter().filter(|event| event.body.session_id() == Some(&session.id));
    let (mut started, mut stopped) = (0, Vec::new());
    for event in own {
        match &event.body {
            EventBody::ContinuationStarted(_) => started += 1,
            EventBody::ContinuationStopped(it) => stopped.push(it.reason),
            _ => {}
        }
    }
    (started, stopped)
}

/// The number of idle statuses of a session.
fn idles(stage: &ScenarioHarness, session: &Session) -> usize {
    let is_idle = |body: &EventBody| matches!(body, EventBody::SessionStatus(it) if it.session_id == session.id && matches!(it.status, SessionStatus::Idle { .. }));
    stage.harness.seen.iter().filter(|event| is_idle(&event.body)).count()
}

/// Runs an agent that leaves a todo open and finishes it in the continuation.
pub(super) async fn finishes(kind: Kind) {
    let scene =
        "prompted; plans pending; says Planned; finish; prompted; plans completed; says Done; finish; linger";
    let mut stage = ScenarioHarness::new(kind, scene).await;
    let session = stage.continuing().await;
    assert_eq!(stage.harness.turn(&session, "please", SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!((went_on(&stage, &session), idles(&stage, &session)), ((1, vec![]), 1), "{kind:?}");
    assert_eq!(stage.count_told(REMINDER), 1, "{kind:?}: {:?}", stage.told());
    let messages = stage.harness.messages(&session).await;
    let asked = messages[0].info.id().clone();
    let continued = messages.iter().find_map(|message| match &message.info {
        Message::User(user) => user.continues(),
        Message::Assistant(_) => None,
    });
    assert_eq!(continued, Some(asked), "{kind:?}");
    assert_eq!(stage.end(&session).await, 1, "{kind:?}");
}

#[tokio::test]
async fn an_open_todo_is_finished_within_the_turn() {
    each(finishes).await;
}

#[tokio::test]
async fn continuations_stop_without_progress() {
    each(async |kind| {
        let scene = format!("{} linger", "prompted; plans pending; says Planned; finish;".repeat(4));
        let mut stage = ScenarioHarness::new(kind, &scene).await;
        let session = stage.continuing().await;
        assert_eq!(stage.harness.turn(&session, "please", SimulatedUser::Agrees).await, EndReason::Completed);
        assert_eq!(went_on(&stage, &session), (3, vec![StopReason::Stagnant]), "{kind:?}");
        assert_eq!((idles(&stage, &session), stage.count_told(REMINDER)), (1, 3), "{kind:?}");
        assert_eq!(stage.end(&session).await, 1, "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn no_continuation_follows_an_abort_until_the_next_prompt() {
    each(async |kind| {
        let scene = "prompted; plans pending; says Planned; finish; prompted; opens Working; stopped; \
                     prompted; plans pending; says Again; finish; prompted; plans completed; says Done; finish; linger";
        let mut stage = ScenarioHarness::new(kind, scene).await;
        let session = stage.continuing().await;
        stage.harness.submit(&session, "please").await;
        stage.until_said("Working").await;
        stage.harness.sessions.abort(&session.id).await.unwrap();
        assert_eq!(stage.harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Aborted, "{kind:?}");
        assert_eq!(went_on(&stage, &session), (1, vec![StopReason::Abort]), "{kind:?}");
        assert_eq!(stage.harness.turn(&session, "again", SimulatedUser::Agrees).await, EndReason::Completed);
        assert_eq!(went_on(&stage, &session), (2, vec![StopReason::Abort]), "{kind:?}");
        assert_eq!(stage.end(&session).await, 2, "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn a_refused_request_ends_the_continuations() {
    each(async |kind| {
        let scene = "prompted; plans pending; wants; finish; linger";
        let mut stage = ScenarioHarness::new(kind, scene).await;
        let session = stage.continuing().await;
        assert_eq!(
            stage.harness.turn(&session, "please", SimulatedUser::Refuses).await,
            EndReason::Blocked,
            "{kind:?}"
        );
        assert_eq!(went_on(&stage, &session), (0, vec![StopReason::Refused]), "{kind:?}");
        assert_eq!(stage.end(&session).await, 1, "{kind:?}");
    })
    .await;
}
