//! One proof for each ability: a scenario whose outcome depends on the ability.

use std::sync::Arc;

use protocol::config::Budget;
use protocol::prompt::{Delivery, PartInput, PartInputBody, PromptInput};
use protocol::{EndReason, EventBody, PartBody, Session, SessionStatus};
use serde_json::json;
use tempfile::TempDir;

use super::super::continuation;
use super::super::scenario_harness::{FakePeer, ScenarioHarness};
use crate::external::harness::{Cast, Harness, README, SimulatedUser, patient_snapshots};
use crate::roster::SupervisedAgent;
use crate::roster::known::Kind;

/// Runs a turn in which every request is allowed.
async fn played(kind: Kind, scene: &str) -> (ScenarioHarness, Session) {
    let mut stage = ScenarioHarness::new(kind, scene).await;
    let session = stage.harness.session().await;
    assert_eq!(
        stage.harness.turn(&session, "please", SimulatedUser::Agrees).await,
        EndReason::Completed,
        "{kind:?}"
    );
    (stage, session)
}

fn has_seen(stage: &ScenarioHarness, fits: impl Fn(&EventBody) -> bool) -> bool {
    stage.harness.seen.iter().any(|event| fits(&event.body))
}

/// Sends a second prompt while the first is being answered.
async fn second(stage: &mut ScenarioHarness, session: &Session, delivery: Delivery) {
    stage.harness.submit(session, "first").await;
    stage.until_said("One").await;
    let prompt = PromptInput { delivery: Some(delivery), ..PromptInput::text("second") };
    stage.harness.sessions.submit(&session.id, prompt).await.unwrap();
}

/// Asserts that the second prompt waits for the end of the first turn.
async fn waits(kind: Kind, delivery: Delivery) {
    let scene = "prompted; opens One; ready; closes; finish; prompted; says Two; finish; linger";
    let mut stage = ScenarioHarness::new(kind, scene).await;
    let session = stage.harness.session().await;
    second(&mut stage, &session, delivery).await;
    assert_eq!(stage.count_told("second"), 0, "{kind:?}");
    stage.go();
    assert_eq!(stage.harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!(stage.count_told("second"), 1, "{kind:?}");
    assert_eq!(stage.end(&session).await, 1, "{kind:?}");
}

pub(super) async fn queue(kind: Kind, able: bool) {
    assert!(able, "the engine implements it");
    waits(kind, Delivery::Queue).await;
}

pub(super) async fn steer(kind: Kind, able: bool) {
    if !able {
        return waits(kind, Delivery::Steer).await;
    }
    let mut stage =
        ScenarioHarness::new(kind, "prompted; opens One; joined; closes; says Two; finish; linger").await;
    let session = stage.harness.session().await;
    second(&mut stage, &session, Delivery::Steer).await;
    assert_eq!(stage.harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!(stage.end(&session).await, 1, "{kind:?}");
}

pub(super) async fn abort(kind: Kind, able: bool) {
    assert!(able, "a process that does not stop is ended");
    let mut stage = ScenarioHarness::new(kind, "prompted; opens One; stopped; linger").await;
    let session = stage.harness.session().await;
    stage.harness.submit(&session, "please").await;
    stage.until_said("One").await;
    stage.harness.sessions.abort(&session.id).await.unwrap();
    assert_eq!(
        stage.harness.until_idle(&session, SimulatedUser::Agrees).await,
        EndReason::Aborted,
        "{kind:?}"
    );
    assert_eq!(stage.end(&session).await, 1, "{kind:?}");
}

pub(super) async fn resume(kind: Kind, able: bool) {
    let (stage, session) = played(kind, "prompted; says One; finish; linger").await;
    let mut stage = stage.restart().await;
    assert_eq!(
        stage.harness.turn(&session, "again", SimulatedUser::Agrees).await,
        EndReason::Completed,
        "{kind:?}"
    );
    let resumes = match kind {
        Kind::Claude => "--resume conversation",
        Kind::Codex => "\"thread/resume\"",
        Kind::OpenCode => "GET /session/ses_there ",
        Kind::Acp => "\"session/resume\"",
    };
    assert_eq!(stage.count_told(resumes) == 1, able, "{kind:?}: {:?}", stage.told());
}

pub(super) async fn permissions(kind: Kind, able: bool) {
    let (stage, session) = played(kind, "prompted; wants; returns; says Done; finish; linger").await;
    assert_eq!(has_seen(&stage, |body| matches!(body, EventBody::PermissionAsked(_))), able, "{kind:?}");
    assert_eq!(stage.end(&session).await, 1);
}

pub(super) async fn questions(kind: Kind, able: bool) {
    let (stage, session) = played(kind, "prompted; wonders; says Done; finish; linger").await;
    assert_eq!(has_seen(&stage, |body| matches!(body, EventBody::QuestionAsked(_))), able, "{kind:?}");
    assert_eq!(stage.end(&session).await, 1);
}

pub(super) async fn todos(kind: Kind, able: bool) {
    let (stage, session) = played(kind, "prompted; plans in_progress; says Done; finish; linger").await;
    let todos = stage.harness.sessions.todos(&session.id).await.unwrap();
    let todos: Vec<_> = todos.iter().map(|todo| (todo.content.as_str(), todo.status.as_str())).collect();
    assert_eq!(todos == [("work", "in_progress")], able, "{kind:?}: {todos:?}");
    assert_eq!(stage.end(&session).await, 1);
}

/// The tokens and the cost of a turn with one step.
async fn used(kind: Kind) -> (u64, f64) {
    let (stage, session) = played(kind, "prompted; says Done; finish; linger").await;
    let session = stage.harness.sessions.get(&session.id).await.unwrap();
    assert_eq!(stage.end(&session).await, 1);
    (session.tokens.map_or(0, |tokens| tokens.input), session.cost.unwrap_or_default().0)
}

pub(super) async fn tokens(kind: Kind, able: bool) {
    assert_eq!(used(kind).await.0 > 0, able, "{kind:?}");
}

pub(super) async fn cost(kind: Kind, able: bool) {
    assert_eq!(used(kind).await.1 > 0.0, able, "{kind:?}");
}

pub(super) async fn children(kind: Kind, able: bool) {
    if !able {
        // The messages of the subagent do not appear in the session of the parent.
        let (stage, session) = played(kind, "prompted; bears; says Done; finish; linger").await;
        assert_eq!(stage.harness.sessions.children(&session.id).await.unwrap(), [], "{kind:?}");
        assert!(!stage.harness.story(&session.id).contains("below"), "{kind:?}");
        return;
    }
    let mut stage =
        ScenarioHarness::new(kind, "prompted; bears; says Meanwhile; finish; ready; buries; linger").await;
    let session = stage.harness.session().await;
    stage.harness.submit(&session, "please").await;
    stage
        .harness
        .until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.text() == Some("below")))
        .await;
    let child = stage.harness.sessions.children(&session.id).await.unwrap().remove(0);
    stage.go();
    assert_eq!(
        stage.harness.until_idle(&session, SimulatedUser::Agrees).await,
        EndReason::Completed,
        "{kind:?}"
    );
    let idle = |session: &Session| {
        let is_idle =
            |body: &EventBody| matches!(body, EventBody::SessionIdle(it) if it.session_id == session.id);
        stage.harness.seen.iter().position(|event| is_idle(&event.body))
    };
    assert!(idle(&child).unwrap() < idle(&session).unwrap(), "{kind:?}");
    assert_eq!(stage.harness.check(&child.id), 1, "{kind:?}");
    assert_eq!(stage.end(&session).await, 1, "{kind:?}");
}

pub(super) async fn retries(kind: Kind, able: bool) {
    let (stage, session) = played(kind, "prompted; retries; says Done; finish; linger").await;
    let is_retry = |body: &EventBody| matches!(body, EventBody::SessionStatus(it) if matches!(it.status, SessionStatus::Retry { .. }));
    assert_eq!(has_seen(&stage, is_retry), able, "{kind:?}");
    assert_eq!(stage.end(&session).await, 1);
}

pub(super) async fn attachments(kind: Kind, able: bool) {
    let mut stage = ScenarioHarness::new(kind, "prompted; says Seen; finish; linger").await;
    let session = stage.harness.session().await;
    let picture =
        json!({ "mime": "image/png", "url": "data:image/png;base64,QkFUT04=", "filename": "a.png" });
    let body = PartInputBody::File(serde_json::from_value(picture).unwrap());
    let mut prompt = PromptInput::text("look");
    prompt.parts.push(PartInput { id: None, body });
    stage.harness.sessions.submit(&session.id, prompt).await.unwrap();
    assert_eq!(stage.harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed);
    assert_eq!(stage.count_told("QkFUT04=") == 1, able, "{kind:?}: {:?}", stage.told());
    assert_eq!(stage.end(&session).await, 1);
}

pub(super) async fn snapshots(kind: Kind, able: bool) {
    assert!(able, "Baton looks at the files itself");
    let data = TempDir::new().unwrap();
    let snapshots = Some(patient_snapshots(&data));
    let scene = "prompted; writes; says Done; finish; linger";
    let mut cast = FakePeer::new(kind, scene).await;
    let external = cast.runner(kind, Arc::new(|_, _| {}));
    let runner = SupervisedAgent::new(Arc::clone(&external), snapshots.clone(), Budget::default());
    let mut harness = Harness::undoing(Cast::new(Arc::clone(&external), runner), snapshots).await;
    harness.commit().await;
    cast.raise(scene, harness.project.path());
    let session = harness.session().await;
    assert_eq!(
        harness.turn(&session, "change it", SimulatedUser::Agrees).await,
        EndReason::Completed,
        "{kind:?}"
    );
    assert_eq!(harness.read("README.md").unwrap(), "changed\n", "{kind:?}");
    let parts = harness.parts(&session).await;
    assert!(parts.iter().any(|part| matches!(part, PartBody::Patch(_))), "{kind:?}: {parts:?}");
    assert!(harness.seen.iter().any(|event| matches!(event.body, EventBody::SessionDiff(_))), "{kind:?}");
    let prompt = harness.messages(&session).await[0].info.id().clone();
    harness.sessions.revert(&session.id, prompt, None).await.unwrap();
    assert_eq!(harness.read("README.md").unwrap(), README, "{kind:?}");
    external.close().await;
}

pub(super) async fn budgets(kind: Kind, able: bool) {
    assert!(able, "Baton counts itself");
    let budget: Budget = serde_json::from_value(json!({ "steps": { "turn": 1 } })).unwrap();
    let scene = "prompted; wants; returns; says One; opens Two; stopped; linger";
    let mut stage = ScenarioHarness::bounded(kind, scene, &budget).await;
    let session = stage.harness.session().await;
    assert_eq!(
        stage.harness.turn(&session, "please", SimulatedUser::Agrees).await,
        EndReason::Budget,
        "{kind:?}"
    );
    assert_eq!(stage.end(&session).await, 1);
}

pub(super) async fn continuation(kind: Kind, able: bool) {
    assert_eq!(able, kind.abilities().todos, "continuations need a todo list");
    if able {
        continuation::finishes(kind).await;
    }
}
