//! Requests of OpenCode that the user does not answer in Baton.

use std::time::Duration;

use engine::limits::Limits;
use protocol::{EndReason, EventBody};
use serde_json::json;

use super::fake::{Act, Fake};
use super::script::*;
use crate::external::harness::{Harness, SimulatedUser};

/// A turn that waits for the user: for a permission or for an answer to a question.
async fn asked(request: Act, limits: Limits) -> (Fake, Harness, protocol::Session) {
    let fake = Fake::new().await;
    let mut harness = Harness::bounded(limits, |_| fake.runner()).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    fake.play([start(), vec![opened("$A"), tool("$A", "running"), request]].concat()).await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_) | EventBody::QuestionAsked(_))).await;
    (fake, harness, session)
}

/// The rest of a successful turn.
fn rest() -> Vec<Act> {
    [vec![tool("$A", "completed"), closed("$A", "tool-calls")], answer("$B", "Hello"), idle()].concat()
}

#[tokio::test]
async fn a_request_that_another_client_answers_is_withdrawn_at_once() {
    for (request, settled) in [
        (permission("per_1"), settled_as("permission.replied", "per_1")),
        (question("que_1"), settled_as("question.replied", "que_1")),
        (question("que_1"), settled_as("question.rejected", "que_1")),
    ] {
        let (fake, mut harness, session) = asked(request, Limits::default()).await;
        fake.play(vec![settled]).await;
        harness
            .until(|body| matches!(body, EventBody::PermissionReplied(_) | EventBody::QuestionRejected(_)))
            .await;
        fake.play(rest()).await;
        assert_eq!(harness.until_idle(&session, SimulatedUser::Silent).await, EndReason::Completed);
        assert_eq!(harness.check(&session.id), 1);
        let replies: Vec<String> = fake.calls().into_iter().filter(|call| call.contains("/re")).collect();
        assert!(replies.is_empty(), "{replies:?}");
    }
}

fn settled_as(kind: &str, request: &str) -> Act {
    event(kind, json!({ "requestID": request, "reply": "once", "answers": [["this"]] }))
}

#[tokio::test]
async fn requests_that_are_gone_after_a_reconnect_are_withdrawn() {
    let (fake, mut harness, session) = asked(permission("per_1"), Limits::default()).await;
    fake.set_busy(true);
    fake.play(vec![Act::Cut]).await;
    harness.until(|body| matches!(body, EventBody::PermissionReplied(_))).await;
    fake.called("GET /session/status", 1).await;
    fake.play(rest()).await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Silent).await, EndReason::Completed);
    assert_eq!(harness.check(&session.id), 1);
}

#[tokio::test]
async fn an_unanswered_request_is_refused_at_its_timeout() {
    let limits = Limits { request: Duration::from_millis(200), ..Limits::default() };
    let (fake, mut harness, session) = asked(permission("per_1"), limits).await;
    fake.called("/permission/per_1/reply {\"reply\":\"reject\"}", 1).await;
    let refused = [vec![tool("$A", "error"), closed("$A", "tool-calls")], idle()].concat();
    fake.play(refused).await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Silent).await, EndReason::Blocked);
    assert_eq!(harness.check(&session.id), 1);
}
