//! Old sessions are deleted.

use std::time::Duration;

use engine::ports::Listing;
use futures::FutureExt;
use futures::poll;
use protocol::prompt::{PromptInput, SessionInput};
use protocol::{EventBody, SessionId, TurnEnd};

use crate::harness::{Harness, say};

const DAY: Duration = Duration::from_hours(24);

async fn left(harness: &Harness) -> Vec<SessionId> {
    let all = harness.sessions.list(Listing::default()).await.unwrap();
    all.into_iter().map(|session| session.id).collect()
}

#[tokio::test(start_paused = true)]
async fn idle_sessions_are_deleted_once_they_are_old_enough() {
    let mut harness = Harness::timed().await;
    let old = harness.session().await;
    harness.sessions.prompt(&old.id, PromptInput::text("hello")).await.unwrap();
    let child = SessionInput { parent_id: Some(old.id.clone()), ..SessionInput::default() };
    harness.sessions.create(Harness::home(), child).await.unwrap();
    let busy = harness.session().await;
    harness.script(|turn| async move {
        tokio::time::sleep(DAY * 30).await;
        say(turn, "late").await
    });
    harness.submit(&busy, "long").await;
    tokio::time::sleep(DAY * 5).await;
    let recent = harness.session().await;
    assert_eq!(harness.sessions.prune(DAY * 7).await.unwrap(), 0, "none is old enough");

    // The search runs at once and then at the beginning of each day.
    let pruning = tokio::spawn(harness.sessions.clone().prune_daily(DAY * 7));
    tokio::time::sleep(DAY * 3 + Duration::from_hours(1)).await;
    let (mut expected, mut found) = (vec![busy.id.clone(), recent.id.clone()], left(&harness).await);
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "the busy one and the recent one stay, the child is gone");
    tokio::time::sleep(DAY * 6).await;
    pruning.abort();
    assert_eq!(left(&harness).await, [busy.id]);
    harness.drain();
    let is_deleted = |id: &SessionId| {
        let about = |body: &EventBody| matches!(body, EventBody::SessionDeleted(it) if it.session_id == *id);
        harness.seen.iter().any(|event| about(&event.body))
    };
    assert!(is_deleted(&old.id) && is_deleted(&recent.id), "clients learn about it");
}

#[tokio::test(start_paused = true)]
async fn a_parent_with_a_recent_child_stays() {
    let harness = Harness::timed().await;
    let parent = harness.session().await;
    tokio::time::sleep(DAY * 2).await;
    let child = SessionInput { parent_id: Some(parent.id.clone()), ..SessionInput::default() };
    harness.sessions.create(Harness::home(), child).await.unwrap();
    assert_eq!(harness.sessions.prune(DAY).await.unwrap(), 0);
    assert_eq!(left(&harness).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_busy_session_keeps_its_old_children() {
    let harness = Harness::timed().await;
    let parent = harness.session().await;
    let child = SessionInput { parent_id: Some(parent.id.clone()), ..SessionInput::default() };
    harness.sessions.create(Harness::home(), child).await.unwrap();
    harness.script(|turn| async move {
        tokio::time::sleep(DAY * 30).await;
        say(turn, "late").await
    });
    harness.submit(&parent, "long").await;
    tokio::time::sleep(DAY * 5).await;
    assert_eq!(harness.sessions.prune(DAY).await.unwrap(), 0);
    assert_eq!(left(&harness).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_gets_a_prompt_during_the_search_keeps_its_children() {
    let mut kept = 0;
    // The prompt arrives after each possible number of steps of the search.
    for steps in 0.. {
        let harness = Harness::timed().await;
        let parent = harness.session().await;
        let child = SessionInput { parent_id: Some(parent.id.clone()), ..SessionInput::default() };
        harness.sessions.create(Harness::home(), child).await.unwrap();
        tokio::time::sleep(DAY * 2).await;
        let mut search = Box::pin(harness.sessions.prune(DAY));
        let mut is_over = false;
        for _ in 0..steps {
            is_over = poll!(&mut search).is_ready();
            if is_over {
                break;
            }
            tokio::task::yield_now().await;
        }
        if is_over {
            assert!(left(&harness).await.is_empty());
            break;
        }
        let prompted = harness.sessions.submit(&parent.id, PromptInput::text("still here")).await;
        search.await.unwrap();
        match prompted {
            Ok(_) => {
                assert_eq!(left(&harness).await.len(), 2, "after {steps} steps");
                kept += 1;
            }
            Err(_) => assert!(left(&harness).await.is_empty(), "after {steps} steps"),
        }
    }
    assert!(kept > 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_deleted_only_if_it_was_not_used_since() {
    let harness = Harness::timed().await;
    let session = harness.session().await;
    let updated = harness.sessions.get(&session.id).await.unwrap().time.updated;
    let used = harness.sessions.delete_unused(&session.id, updated).await;
    assert!(matches!(used, Err(engine::Error::Busy(_))), "{used:?}");
    harness.sessions.delete_unused(&session.id, updated + 1).await.unwrap();
    let gone = harness.sessions.delete_unused(&session.id, updated + 1).await;
    assert!(matches!(gone, Err(engine::Error::NotFound { .. })), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn usage_is_counted_for_metrics() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    harness.always(std::sync::Arc::new(|turn| {
        async move {
            say(turn, "ok").await;
            TurnEnd::Completed
        }
        .boxed()
    }));
    for _ in 0..3 {
        harness.sessions.prompt(&session.id, PromptInput::text("hi")).await.unwrap();
    }
    let used = harness.sessions.stats().used;
    assert_eq!((used.steps, used.tokens, used.cost.0), (3, 36, 1.5));
}
