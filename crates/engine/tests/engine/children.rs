//! Child sessions: their own turns, inside their parent's.

use std::sync::Arc;

use engine::{
    ports::{ChildSpec, Page},
    session::Turn,
};
use futures::FutureExt;
use protocol::{
    AgentEvent, EndReason, EventBody, Message, TurnEnd,
    agent_event::{Answer, Ask},
    prompt::PromptInput,
};

use crate::harness::{Harness, say};

fn child() -> ChildSpec {
    ChildSpec { title: "look around".into(), prompt: "look".into(), ..ChildSpec::default() }
}

#[tokio::test(start_paused = true)]
async fn a_child_has_its_own_idle_and_leaves_its_parents_status_alone() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        let child = turn.start_child(child()).await.unwrap();
        let end = child.wait().await.unwrap();
        assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "ok"));
        say(turn, "found it").await
    });
    harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    harness.drain();
    let children = harness.sessions.children(&session.id).await.unwrap();
    assert_eq!(children.len(), 1);
    for id in [&session.id, &children[0].id] {
        let story = harness.story(id);
        let status: Vec<_> =
            story.iter().filter(|word| word.starts_with(['B', 'I'])).map(String::as_str).collect();
        assert_eq!(status, ["BUSY", "IDLE(completed)"], "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_is_announced_with_its_agent() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        let spec = ChildSpec { agent: Some("build".into()), ..child() };
        turn.start_child(spec).await.unwrap().wait().await;
        TurnEnd::Completed
    });
    harness.submit(&session, "x").await;
    let is_child =
        |body: &EventBody| matches!(body, EventBody::SessionCreated(it) if it.session_id != session.id);
    let EventBody::SessionCreated(created) = harness.until(is_child).await.body else { panic!() };
    assert_eq!(created.info.agent.as_deref(), Some("build"));
}

#[tokio::test(start_paused = true)]
async fn aborting_the_parent_aborts_the_child_and_idles_each_once() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        let child = turn.start_child(child()).await.unwrap();
        child.wait().await;
        TurnEnd::Completed
    });
    harness.script(|turn| async move {
        turn.cancelled().await;
        TurnEnd::Cancelled
    });
    harness.submit(&session, "x").await;
    let started = harness
        .until(|body| matches!(body, EventBody::PromptStarted(it) if it.session_id != session.id))
        .await;
    let child = started.body.session_id().unwrap().clone();
    harness.sessions.abort(&session.id).await.unwrap();
    harness.drain();
    for id in [&session.id, &child] {
        let story = harness.story(id);
        assert_eq!(story.iter().filter(|word| *word == "IDLE(aborted)").count(), 1, "{story:?}");
    }
    let order: Vec<_> = harness
        .seen
        .iter()
        .filter(|event| matches!(event.body, EventBody::SessionIdle(_)))
        .map(|event| event.body.session_id().unwrap().clone())
        .collect();
    assert_eq!(order, [child, session.id], "the parent's turn ends after its child's");
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_forgets_its_child_does_not_become_idle_before_it() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        turn.start_child(child()).await.unwrap();
        TurnEnd::Completed
    });
    harness.script(|turn| async move {
        turn.cancelled().await;
        TurnEnd::Cancelled
    });
    harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    harness.drain();
    let idles: Vec<_> = harness
        .seen
        .iter()
        .filter(|event| matches!(event.body, EventBody::SessionIdle(_)))
        .map(|event| *event.body.session_id().unwrap() == session.id)
        .collect();
    assert_eq!(idles, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_child_can_be_prompted_again_by_its_own_ancestors_only() {
    let harness = Harness::new().await;
    let (session, stranger) = (harness.session().await, harness.session().await);
    let told = stranger.id.clone();
    harness.script(|turn| async move {
        let first = turn.start_child(child()).await.unwrap();
        let id = first.session().clone();
        assert_eq!(first.wait().await.unwrap().text, "ok");
        for outside in [told, turn.session.id.clone(), "ses_nobody".parse().unwrap()] {
            let refused = turn.start_child(ChildSpec { resume: Some(outside), ..child() }).await.unwrap_err();
            assert!(refused.contains("was not started by this session"), "{refused}");
        }
        // Two prompts at once: the second waits for the first, and the turn for both.
        let again = || ChildSpec { resume: Some(id.clone()), ..child() };
        let (one, two) = (turn.start_child(again()).await.unwrap(), turn.start_child(again()).await.unwrap());
        assert_eq!((one.session(), two.session()), (&id, &id));
        assert_eq!(one.wait().await.unwrap().reason, EndReason::Completed);
        assert_eq!(two.wait().await.unwrap().reason, EndReason::Completed);
        say(turn, "done").await
    });
    harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    let children = harness.sessions.children(&session.id).await.unwrap();
    assert_eq!(children.len(), 1);
    let messages = harness.sessions.messages(&children[0].id, Page::default()).await.unwrap();
    assert_eq!(messages.iter().filter(|it| matches!(it.info, Message::User(_))).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_abort_with_children_in_different_states_leaves_nothing_running() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let named = |title: &str| ChildSpec { title: title.into(), ..child() };
    harness.always(Arc::new(move |turn: Turn| {
        async move {
            match turn.session.title.as_str() {
                "asks" => {
                    let question = Ask::Question { questions: Vec::new(), call: None };
                    assert_eq!(turn.ask(question).await, Answer::Withdrawn);
                    TurnEnd::Cancelled
                }
                "talks" => {
                    turn.emit(AgentEvent::step_started()).await;
                    turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
                    std::future::pending().await
                }
                "delegates" => {
                    let below = turn.start_child(named("talks")).await.unwrap();
                    below.wait().await;
                    TurnEnd::Cancelled
                }
                _ => {
                    for title in ["asks", "talks", "delegates"] {
                        turn.start_child(named(title)).await.unwrap();
                    }
                    std::future::pending().await
                }
            }
        }
        .boxed()
    }));
    harness.submit(&session, "x").await;
    // Five turns have begun and one of them asks, in any order.
    for _ in 0..6 {
        let fits = |body: &_| matches!(body, EventBody::PromptStarted(_) | EventBody::QuestionAsked(_));
        harness.until(fits).await;
    }
    harness.sessions.abort(&session.id).await.unwrap();
    harness.drain();
    assert!(harness.sessions.statuses(None).await.unwrap().is_empty());
    assert!(harness.sessions.questions(None).await.unwrap().is_empty());
    let all = harness.sessions.list(engine::ports::Listing::default()).await.unwrap();
    assert_eq!(all.len(), 5);
    for one in all {
        let story = harness.story(&one.id);
        let idles: Vec<_> = story.iter().filter(|word| word.starts_with("IDLE")).collect();
        assert_eq!(idles, ["IDLE(aborted)"], "{}", one.title);
    }
    assert_eq!(harness.sessions.stats().live, 0);
}

#[tokio::test(start_paused = true)]
async fn children_can_be_sent_to_the_background() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    assert!(!harness.sessions.background(&session.id).await.unwrap(), "it is idle");
    let (tell, told) = tokio::sync::oneshot::channel();
    harness.script(|turn| async move {
        tokio::join!(turn.sent_to_background(), async { tell.send(()).unwrap() });
        TurnEnd::Completed
    });
    harness.submit(&session, "alone").await;
    told.await.unwrap();
    assert!(!harness.sessions.background(&session.id).await.unwrap(), "there is no child");
    harness.sessions.abort(&session.id).await.unwrap();

    let (let_go, gate) = tokio::sync::oneshot::channel::<()>();
    harness.script(|turn| async move {
        let child = turn.start_child(child()).await.unwrap();
        turn.sent_to_background().await;
        let_go.send(()).unwrap();
        assert_eq!(child.wait().await.unwrap().reason, EndReason::Completed);
        TurnEnd::Completed
    });
    harness.script(|turn| async move {
        gate.await.unwrap();
        say(turn, "late").await
    });
    let submitted = harness.submit(&session, "with a child").await;
    harness.until(|body| matches!(body, EventBody::PromptStarted(it) if it.session_id != session.id)).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await; // until the runner waits
    assert!(harness.sessions.background(&session.id).await.unwrap());
    assert_eq!(submitted.end.unwrap().await, Ok(EndReason::Completed));
}

#[tokio::test(start_paused = true)]
async fn children_may_not_nest_without_end() {
    let harness = Harness::new().await;
    let mut session = harness.session().await;
    for depth in 1..=engine::limits::MAX_DEPTH + 1 {
        let (tell, told) = tokio::sync::oneshot::channel();
        harness.script(|turn| async move {
            let started = turn.start_child(child()).await.map(|child| child.session().clone());
            tell.send(started).unwrap();
            TurnEnd::Completed
        });
        harness.sessions.prompt(&session.id, PromptInput::text("deeper")).await.unwrap();
        match told.await.unwrap() {
            Ok(id) => session = harness.sessions.get(&id).await.unwrap(),
            Err(error) => {
                assert!(error.contains("nest"), "{error}");
                assert_eq!(depth, engine::limits::MAX_DEPTH + 1);
                return;
            }
        }
    }
    panic!("nothing stopped it");
}
