//! Old sessions are deleted.

use std::time::Duration;

use engine::{
    memory::faults::Fault,
    ports::{Listing, StoreFailure},
};
use futures::FutureExt;
use protocol::prompt::PromptInput;
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
    harness.child(&old.id).await;
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
    harness.child(&parent.id).await;
    assert_eq!(harness.sessions.prune(DAY).await.unwrap(), 0);
    assert_eq!(left(&harness).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_busy_session_keeps_its_old_children() {
    let harness = Harness::timed().await;
    let parent = harness.session().await;
    harness.child(&parent.id).await;
    harness.script(|turn| async move {
        tokio::time::sleep(DAY * 30).await;
        say(turn, "late").await
    });
    harness.submit(&parent, "long").await;
    tokio::time::sleep(DAY * 5).await;
    assert_eq!(harness.sessions.prune(DAY).await.unwrap(), 0);
    assert_eq!(left(&harness).await.len(), 2);
}

/// A session and its child.
async fn family(harness: &Harness) -> [SessionId; 2] {
    let parent = harness.session().await.id;
    let child = harness.child(&parent).await.id;
    [parent, child]
}

/// Steps by which the prompt and the search are ahead of each other.
const LEAD: usize = 16;

async fn after<T>(steps: usize, work: impl Future<Output = T>) -> T {
    for _ in 0..steps {
        tokio::task::yield_now().await;
    }
    work.await
}

/// Sends a prompt to one member of a family while a search would delete both.
async fn prompt_during_the_search(member: usize) {
    let mut kept = 0;
    let prompt_late = (0..LEAD).map(|steps| (steps, 0));
    let search_late = (0..LEAD).map(|steps| (0, steps));
    for (late_prompt, late_search) in prompt_late.chain(search_late) {
        let harness = Harness::timed().await;
        let family = family(&harness).await;
        tokio::time::sleep(DAY * 2).await;
        let prompt = harness.sessions.submit(&family[member], PromptInput::text("still here"));
        let search = harness.sessions.prune(DAY);
        let (prompted, count) = tokio::join!(after(late_prompt, prompt), after(late_search, search));
        let left = left(&harness).await.len();
        let expected = if prompted.is_ok() { (0, 2) } else { (1, 0) };
        assert_eq!((count.unwrap(), left), expected, "after {late_prompt} and {late_search} steps");
        kept += usize::from(prompted.is_ok());
    }
    assert!((1..LEAD * 2).contains(&kept), "{kept}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_gets_a_prompt_during_the_search_keeps_its_children() {
    Box::pin(prompt_during_the_search(0)).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_that_gets_a_prompt_during_the_search_keeps_its_parent() {
    Box::pin(prompt_during_the_search(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_family_is_deleted_in_one_commit() {
    let harness = Harness::timed().await;
    let [parent, child] = family(&harness).await;
    tokio::time::sleep(DAY * 2).await;
    harness.memory.faults().next(1, Fault::Refuse(StoreFailure::Full));
    harness.sessions.prune(DAY).await.unwrap_err();
    assert_eq!(left(&harness).await.len(), 2, "a commit that fails deletes none");
    let before = harness.memory.commits();
    assert_eq!(harness.sessions.prune(DAY).await.unwrap(), 1);
    assert_eq!(harness.memory.commits(), before + 1);
    assert!(left(&harness).await.is_empty());
    let forgotten = harness.runner.forgotten.lock().unwrap().clone();
    assert_eq!(forgotten, [child, parent]);
}

#[tokio::test(start_paused = true)]
async fn two_clients_delete_a_family_at_once() {
    let harness = Harness::timed().await;
    let [parent, child] = family(&harness).await;
    harness.script(|turn| async move {
        turn.cancelled().await;
        TurnEnd::Cancelled
    });
    harness.sessions.submit(&child, PromptInput::text("work")).await.unwrap();
    let sessions = &harness.sessions;
    let deleted = tokio::join!(sessions.delete(&child), sessions.delete(&parent), sessions.delete(&parent));
    assert!(deleted.1.is_ok() != deleted.2.is_ok(), "{deleted:?}");
    assert!(left(&harness).await.is_empty());
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
