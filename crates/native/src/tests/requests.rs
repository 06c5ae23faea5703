//! Permission requests and questions, and the end of a turn whose user refuses.

use std::sync::Arc;

use engine::limits::Limits;
use protocol::request::PermissionReply;
use protocol::{EndReason, EventBody, ToolState};

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel};
use crate::Options;

#[tokio::test(start_paused = true)]
async fn a_refused_permission_blocks_the_turn_and_runs_nothing() {
    let mut harness = Harness::new().await;
    let session = harness.turn("permission_two", Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Blocked);
    assert!(!harness.project.path().join("demo-one.txt").exists());
    assert!(!harness.project.path().join("demo-two.txt").exists());
    insta::assert_snapshot!(harness.story(&session.id));
}

#[tokio::test(start_paused = true)]
async fn a_rejection_with_instructions_reaches_the_model_and_the_turn_continues() {
    let mut harness = Harness::new().await;
    let session = harness.turn("permission", Responder::RejectWithFeedback).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let tools = harness.tools(&session).await;
    let ToolState::Error(state) = &tools[0] else { panic!("{tools:?}") };
    assert!(state.error.ends_with("with the following feedback: do something else"), "{}", state.error);
}

#[tokio::test(start_paused = true)]
async fn a_dismissed_question_blocks_the_turn() {
    let mut harness = Harness::new().await;
    let session = harness.turn("question", Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Blocked);
    insta::assert_snapshot!(harness.story(&session.id));
}

#[tokio::test(start_paused = true)]
async fn a_refused_repetition_blocks_the_turn() {
    for scenario in ["doom_loop", "doom_parallel"] {
        let mut harness = Harness::new().await;
        let session = harness.turn(scenario, Responder::Reject).await;
        assert_eq!(harness.end(&session), EndReason::Blocked, "{scenario}");
        let done = harness
            .tools(&session)
            .await
            .iter()
            .filter(|state| matches!(state, ToolState::Completed(_)))
            .count();
        assert_eq!(done, 2, "{scenario}");
    }
}

#[tokio::test]
async fn an_always_allowed_command_is_not_asked_about_again() {
    let mut harness = Harness::new().await;
    let asked = |harness: &Harness| {
        harness.seen.iter().filter(|event| matches!(event.body, EventBody::PermissionAsked(_))).count()
    };
    harness.turn("permission", Responder::AllowAlways).await;
    assert_eq!(asked(&harness), 1);
    harness.turn("permission", Responder::AllowAlways).await;
    assert_eq!(asked(&harness), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_blocks_the_turn_in_the_end() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.submit(&session, "permission", "please").await;
    let id = session.id.clone();
    harness.until(|body| matches!(body, EventBody::SessionIdle(idle) if idle.session_id == id)).await;
    assert_eq!(harness.end(&session), EndReason::Blocked);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_alternates_between_two_calls_is_stopped() {
    let call = |path: &str| ("read", serde_json::json!({ "filePath": path }));
    let calls: Vec<_> = (0..10).map(|number| call(if number % 2 == 0 { "README.md" } else { "." })).collect();
    let (harness, session, tools) = super::tools::run_calls(&calls, &[], Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Blocked);
    assert!(harness.story(&session.id).contains("permission.asked(doom_loop [\"read\"])"));
    // Three rounds: the sixth call is the one that is asked about.
    assert_eq!(tools.len(), 6);
    assert!(tools.iter().take(5).all(|state| matches!(state, ToolState::Completed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_timed_out_is_reported_as_unanswered() {
    let limits = Limits { request_reply: Some(PermissionReply::Reject), ..Limits::default() };
    let mut harness = Harness::with_limits(limits).await;
    let session = harness.session().await;
    harness.submit(&session, "permission", "please").await;
    let id = session.id.clone();
    harness.until(|body| matches!(body, EventBody::SessionIdle(idle) if idle.session_id == id)).await;
    assert_eq!(harness.end(&session), EndReason::Completed, "the model may go on without it");
    let tools = harness.tools(&session).await;
    let ToolState::Error(state) = &tools[0] else { panic!("{tools:?}") };
    assert!(
        state.error.starts_with("The user did not answer the permission request in time"),
        "{}",
        state.error
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_that_waited_when_the_server_stopped_is_answered_after_the_restart() {
    let asked = serde_json::json!({ "questions": [{ "question": "Tea?", "header": "Tea", "options": [] }] });
    let model = ScriptedModel::new([Reply::call("q", "question", asked), Reply::text("As you like.")]);
    let mut harness = Harness::with_model(Arc::new(model), Options::default()).await;
    let session = harness.session().await;
    harness.submit(&session, "small", "please").await;
    harness.until(|body| matches!(body, EventBody::QuestionAsked(_))).await;
    let mut harness = harness.restart().await;
    let waiting = harness.sessions.questions(None).await.unwrap();
    harness.sessions.reply_question(&waiting[0].id, vec![vec!["Yes".into()]]).await.unwrap();
    let id = session.id.clone();
    let mut idles = 0;
    while idles < 2 {
        harness.until(|body| matches!(body, EventBody::SessionIdle(idle) if idle.session_id == id)).await;
        idles += 1;
    }
    let tools = harness.tools(&session).await;
    let [ToolState::Error(cut), ToolState::Completed(made)] = tools.as_slice() else { panic!("{tools:?}") };
    assert_eq!(cut.error, "Tool execution aborted");
    assert!(made.output.contains("\"Tea?\"=\"Yes\""), "{}", made.output);
    let last = harness.messages(&session).await.pop().unwrap();
    assert!(last.parts.iter().any(|part| part.text() == Some("As you like.")));
}
