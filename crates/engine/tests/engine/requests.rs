//! Permissions and questions.

use std::time::Duration;

use engine::Error;
use protocol::{
    EndReason, EventBody, Extra, TurnEnd,
    agent_event::{Answer, Ask},
    request::PermissionReply,
};

use crate::harness::World;

fn may_i() -> Ask {
    let (permission, patterns) = ("bash".to_owned(), vec!["rm x".to_owned()]);
    Ask::Permission { permission, patterns, metadata: Extra::new(), always: Vec::new(), call: None }
}

#[tokio::test(start_paused = true)]
async fn a_permission_is_listed_until_it_is_answered_once() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(|turn| async move {
        assert_eq!(turn.ask(may_i()).await, Answer::Once);
        TurnEnd::Completed
    });
    world.submit(&session, "x").await;
    world.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let listed = world.sessions.permissions(Some("/project")).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(world.sessions.permissions(Some("/elsewhere")).await.unwrap().is_empty());
    let id = listed[0].id.clone();
    world.sessions.reply_permission(&id, PermissionReply::Once, None).await.unwrap();
    let again = world.sessions.reply_permission(&id, PermissionReply::Once, None).await;
    assert!(matches!(again, Err(Error::NoRequest { .. })), "{again:?}");
    world.until_idle(&session).await;
    assert!(world.sessions.permissions(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_abort_withdraws_requests_with_an_event_and_a_late_reply_does_nothing() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(|turn| async move {
        assert_eq!(turn.ask(may_i()).await, Answer::Withdrawn);
        TurnEnd::Cancelled
    });
    world.submit(&session, "x").await;
    world.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let id = world.sessions.permissions(None).await.unwrap()[0].id.clone();
    world.sessions.abort(&session.id).await.unwrap();
    assert!(world.sessions.permissions(None).await.unwrap().is_empty());
    assert!(world.sessions.reply_permission(&id, PermissionReply::Once, None).await.is_err());
    world.drain();
    let story = world.story(&session.id).join(" · ");
    assert!(story.contains("permission.asked · permission.replied ·"), "{story}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_its_runner_drops_is_withdrawn_at_once() {
    let mut world = World::new().await;
    let session = world.session().await;
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    world.script(|turn| async move {
        let asked = turn.ask(may_i());
        assert!(tokio::time::timeout(Duration::from_secs(1), asked).await.is_err());
        let _ = is_over.await;
        TurnEnd::Completed
    });
    world.submit(&session, "x").await;
    world.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let id = world.sessions.permissions(None).await.unwrap()[0].id.clone();
    world.until(|body| matches!(body, EventBody::PermissionReplied(_))).await;
    assert!(world.sessions.permissions(None).await.unwrap().is_empty());
    let late = world.sessions.reply_permission(&id, PermissionReply::Once, None).await;
    assert!(matches!(late, Err(Error::NoRequest { .. })), "{late:?}");
    over.send(()).unwrap();
    world.until_idle(&session).await;
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_withdrawn_at_its_deadline() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(|turn| async move {
        let questions = Vec::new();
        assert_eq!(turn.ask(Ask::Question { questions, call: None }).await, Answer::Withdrawn);
        TurnEnd::Blocked
    });
    let begun = tokio::time::Instant::now();
    let submitted = world.submit(&session, "x").await;
    assert_eq!(submitted.end.unwrap().await, Ok(EndReason::Blocked));
    assert!(begun.elapsed() >= Duration::from_hours(1));
    world.drain();
    assert!(world.story(&session.id).contains(&"question.rejected".to_owned()));
}
