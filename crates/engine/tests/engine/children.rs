//! Child sessions: their own turns, inside their parent's.

use engine::ports::ChildSpec;
use protocol::{EndReason, EventBody, TurnEnd, prompt::PromptInput};

use crate::harness::{World, say};

fn child() -> ChildSpec {
    ChildSpec { title: "look around".into(), prompt: "look".into(), ..ChildSpec::default() }
}

#[tokio::test(start_paused = true)]
async fn a_child_has_its_own_idle_and_leaves_its_parents_status_alone() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(|turn| async move {
        let child = turn.start_child(child()).await.unwrap();
        let end = child.wait().await.unwrap();
        assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "ok"));
        say(turn, "found it").await
    });
    world.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    world.drain();
    let children = world.sessions.children(&session.id).await.unwrap();
    assert_eq!(children.len(), 1);
    for id in [&session.id, &children[0].id] {
        let story = world.story(id);
        let status: Vec<_> =
            story.iter().filter(|word| word.starts_with(['B', 'I'])).map(String::as_str).collect();
        assert_eq!(status, ["BUSY", "IDLE(completed)"], "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn aborting_the_parent_aborts_the_child_and_idles_each_once() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(|turn| async move {
        let child = turn.start_child(child()).await.unwrap();
        child.wait().await;
        TurnEnd::Completed
    });
    world.script(|turn| async move {
        turn.cancelled().await;
        TurnEnd::Cancelled
    });
    world.submit(&session, "x").await;
    let started =
        world.until(|body| matches!(body, EventBody::PromptStarted(it) if it.session_id != session.id)).await;
    let child = started.body.session_id().unwrap().clone();
    world.sessions.abort(&session.id).await.unwrap();
    world.drain();
    for id in [&session.id, &child] {
        let story = world.story(id);
        assert_eq!(story.iter().filter(|word| *word == "IDLE(aborted)").count(), 1, "{story:?}");
    }
    let order: Vec<_> = world
        .seen
        .iter()
        .filter(|event| matches!(event.body, EventBody::SessionIdle(_)))
        .map(|event| event.body.session_id().unwrap().clone())
        .collect();
    assert_eq!(order, [child, session.id], "the parent's turn ends after its child's");
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_forgets_its_child_does_not_become_idle_before_it() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(|turn| async move {
        turn.start_child(child()).await.unwrap();
        TurnEnd::Completed
    });
    world.script(|turn| async move {
        turn.cancelled().await;
        TurnEnd::Cancelled
    });
    world.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    world.drain();
    let idles: Vec<_> = world
        .seen
        .iter()
        .filter(|event| matches!(event.body, EventBody::SessionIdle(_)))
        .map(|event| *event.body.session_id().unwrap() == session.id)
        .collect();
    assert_eq!(idles, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn children_may_not_nest_without_end() {
    let world = World::new().await;
    let mut session = world.session().await;
    for depth in 1..=engine::limits::MAX_DEPTH + 1 {
        let (tell, told) = tokio::sync::oneshot::channel();
        world.script(|turn| async move {
            let started = turn.start_child(child()).await.map(|child| child.session().clone());
            tell.send(started).unwrap();
            TurnEnd::Completed
        });
        world.sessions.prompt(&session.id, PromptInput::text("deeper")).await.unwrap();
        match told.await.unwrap() {
            Ok(id) => session = world.sessions.get(&id).await.unwrap(),
            Err(error) => {
                assert!(error.contains("nest"), "{error}");
                assert_eq!(depth, engine::limits::MAX_DEPTH + 1);
                return;
            }
        }
    }
    panic!("nothing stopped it");
}
