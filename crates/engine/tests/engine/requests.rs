//! Permissions and questions.

use std::time::Duration;

use engine::Error;
use protocol::{
    EndReason, EventBody, Extra, TurnEnd,
    agent_event::{Answer, Ask},
    request::PermissionReply,
};

use crate::harness::Harness;

fn may_i() -> Ask {
    let (permission, patterns) = ("bash".to_owned(), vec!["rm x".to_owned()]);
    Ask::Permission { permission, patterns, metadata: Extra::new(), always: Vec::new(), call: None }
}

#[tokio::test(start_paused = true)]
async fn a_permission_is_listed_until_it_is_answered_once() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        assert_eq!(turn.ask(may_i()).await, Answer::Once);
        TurnEnd::Completed
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let listed = harness.sessions.permissions(Some(&harness.sessions.workspace("/project"))).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(
        harness
            .sessions
            .permissions(Some(&harness.sessions.workspace("/elsewhere")))
            .await
            .unwrap()
            .is_empty()
    );
    let id = listed[0].id.clone();
    harness.sessions.reply_permission(&id, PermissionReply::Once, None).await.unwrap();
    let again = harness.sessions.reply_permission(&id, PermissionReply::Once, None).await;
    assert!(matches!(again, Err(Error::NoRequest { .. })), "{again:?}");
    harness.until_idle(&session).await;
    assert!(harness.sessions.permissions(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_abort_withdraws_requests_with_an_event_and_a_late_reply_does_nothing() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        assert_eq!(turn.ask(may_i()).await, Answer::Withdrawn);
        TurnEnd::Cancelled
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let id = harness.sessions.permissions(None).await.unwrap()[0].id.clone();
    harness.sessions.abort(&session.id).await.unwrap();
    assert!(harness.sessions.permissions(None).await.unwrap().is_empty());
    assert!(harness.sessions.reply_permission(&id, PermissionReply::Once, None).await.is_err());
    harness.drain();
    let story = harness.story(&session.id).join(" · ");
    assert!(story.contains("permission.asked · permission.replied ·"), "{story}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_its_runner_drops_is_withdrawn_at_once() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    harness.script(|turn| async move {
        let asked = turn.ask(may_i());
        assert!(tokio::time::timeout(Duration::from_secs(1), asked).await.is_err());
        let _ = is_over.await;
        TurnEnd::Completed
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let id = harness.sessions.permissions(None).await.unwrap()[0].id.clone();
    harness.until(|body| matches!(body, EventBody::PermissionReplied(_))).await;
    assert!(harness.sessions.permissions(None).await.unwrap().is_empty());
    let late = harness.sessions.reply_permission(&id, PermissionReply::Once, None).await;
    assert!(matches!(late, Err(Error::NoRequest { .. })), "{late:?}");
    over.send(()).unwrap();
    harness.until_idle(&session).await;
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_withdrawn_at_its_deadline() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        let questions = Vec::new();
        assert_eq!(turn.ask(Ask::Question { questions, call: None }).await, Answer::Withdrawn);
        TurnEnd::Blocked
    });
    let begun = tokio::time::Instant::now();
    let submitted = harness.submit(&session, "x").await;
    assert_eq!(submitted.end.unwrap().await, Ok(EndReason::Blocked));
    assert!(begun.elapsed() >= Duration::from_hours(1));
    harness.drain();
    assert!(harness.story(&session.id).contains(&"question.rejected".to_owned()));
}
