//! After a crash: no session is busy, no part is open, no prompt is lost, and cursors stay valid.

use std::sync::Arc;

use engine::{
    bus::Scope,
    memory::faults::Fault,
    ports::{Page, Reads, StoreFailure},
};
use protocol::{AgentEvent, EventBody, Extra, Message, TurnEnd, agent_event::Ask, prompt::PromptInput};

use crate::harness::{Custodian, Harness, Node};

async fn half_way(turn: engine::session::Turn) -> TurnEnd {
    turn.emit(AgentEvent::step_started()).await;
    turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
    turn.emit(AgentEvent::TextDelta { key: "0".into(), delta: "so far".into() }).await;
    let (call, tool) = ("c1".to_owned(), "bash".to_owned());
    turn.emit(AgentEvent::ToolRunning { call, tool, input: Extra::new(), title: None, metadata: None }).await;
    let (permission, patterns) = ("bash".to_owned(), vec!["x".to_owned()]);
    turn.ask(Ask::Permission {
        permission,
        patterns,
        metadata: Extra::new(),
        always: Vec::new(),
        call: None,
    })
    .await;
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_a_turn_is_closed_as_interrupted_and_waiting_prompts_run() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(half_way);
    harness.submit(&session, "one").await;
    harness.submit(&session, "two").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await; // the checkpoint's time
    let mut harness = harness.crash().await;
    assert_eq!(harness.sessions.statuses(None).await.unwrap().len(), 1, "the log still says busy");
    harness.sessions.recover().await.unwrap();
    harness
        .until(
            |body| matches!(body, EventBody::PromptEnded(it) if it.reason == protocol::EndReason::Completed),
        )
        .await;
    harness.drain();
    let story = harness.story(&session.id).join(" · ");
    insta::assert_snapshot!(story, @"permission.replied · text · bash:error · assistant[-,done,error] · session.error · prompt.ended(interrupted) · IDLE(interrupted) · session.idle · BUSY · prompt.started · assistant[-] · step-start · text · message.part.delta · text · step-finish · assistant[finish] · session.updated · assistant[finish,done] · prompt.ended(completed) · IDLE(completed) · session.idle");
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    let kept = messages.iter().flat_map(|message| &message.parts).any(|part| part.text() == Some("so far"));
    assert!(kept, "the words up to the checkpoint are kept");
    assert!(harness.sessions.permissions(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_cursor_learns_that_the_crash_ended_the_turn() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(half_way);
    harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let mut harness = harness.crash().await;
    harness.sessions.recover().await.unwrap();
    for (directory, told) in [("/project", "IDLE(interrupted) · session.idle"), ("/elsewhere", "")] {
        assert_eq!(harness.told(directory, None).await, told, "{directory}");
    }
    let newest = harness.memory.bounds().await.unwrap().1;
    assert_eq!(harness.told("/project", Some(newest)).await, "", "a cursor says that it was heard");
    harness.submit(&session, "two").await;
    harness.until_idle(&session).await;
    harness.until_idle(&session).await;
    assert_eq!(harness.told("/project", None).await, "", "the session has moved on");
}

#[tokio::test(start_paused = true)]
async fn a_second_crash_during_recovery_does_not_end_a_turn_twice() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(half_way);
    harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let harness = harness.crash().await;
    harness.sessions.recover().await.unwrap();
    let harness = harness.crash().await;
    assert_eq!(harness.sessions.recover().await.unwrap(), 0);
    let mut all = harness.sessions.subscribe(Scope::default(), Some(0)).await.unwrap();
    let engine::StreamItem::Frames(frames) = all.next().await.unwrap() else { panic!("no replay") };
    let idles = frames
        .iter()
        .filter(|frame| String::from_utf8_lossy(frame.json()).contains("\"session.idle\""))
        .count();
    assert_eq!(idles, 1);
}

#[tokio::test(start_paused = true)]
async fn a_workspace_is_adopted_while_the_node_serves_others() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(half_way);
    harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let workspace = harness.sessions.workspace(&session.directory);
    let mut harness = harness.crash_to(Arc::new(Node("other"))).await;
    // The node works in a directory of its own, which has the same path.
    let own = harness.session().await;
    harness.script(half_way);
    harness.submit(&own, "mine").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    assert_eq!(harness.sessions.adopt(&harness.sessions.workspace(&own.directory)).await.unwrap(), 0);
    assert_eq!(harness.sessions.statuses(None).await.unwrap().len(), 2, "its own turn goes on");
    for sessions in [1, 0] {
        assert_eq!(harness.sessions.adopt(&workspace).await.unwrap(), sessions);
    }
    harness.until_idle(&session).await;
    harness.drain();
    let idles = |id| harness.story(id).iter().filter(|word| *word == "session.idle").count();
    assert_eq!((idles(&session.id), idles(&own.id)), (1, 0));
    let busy: Vec<_> = harness.sessions.statuses(None).await.unwrap().into_keys().collect();
    assert_eq!(busy, [own.id]);
}

#[tokio::test(start_paused = true)]
async fn a_workspace_in_custody_runs_nothing_until_its_node_is_back() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(half_way);
    harness.submit(&session, "one").await;
    harness.submit(&session, "two").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let workspace = harness.sessions.workspace(&session.directory);
    let mut harness = harness.crash_to(Arc::new(Custodian)).await;
    assert_eq!(harness.sessions.adopt(&workspace).await.unwrap(), 1);
    harness.until_idle(&session).await;
    assert_eq!(harness.sessions.adopt(&workspace).await.unwrap(), 1, "the second prompt waits");
    assert!(harness.sessions.statuses(None).await.unwrap().is_empty());
    assert!(harness.memory.requests_of(&session.id).await.unwrap().is_empty(), "an answer could not run");
    let refused = harness.sessions.submit(&session.id, PromptInput::text("three")).await.unwrap_err();
    assert!(refused.to_string().contains("on another node"), "{refused}");

    let mut harness = harness.crash().await;
    harness.script(half_way);
    assert_eq!(harness.sessions.adopt(&workspace).await.unwrap(), 1);
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    assert_eq!(harness.sessions.statuses(None).await.unwrap().len(), 1, "the prompt that waited runs");
}

#[tokio::test(start_paused = true)]
async fn a_childs_waiting_prompt_is_not_run_after_its_parent_has_ended() {
    let mut harness = Harness::new().await;
    let parent = harness.session().await;
    let child = harness.child(&parent.id).await;
    harness.script(half_way);
    harness.submit(&child, "one").await;
    harness.submit(&child, "two").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let mut harness = harness.crash().await;
    harness.sessions.recover().await.unwrap();
    harness.drain();
    let story = harness.story(&child.id);
    assert_eq!(story.iter().filter(|word| *word == "prompt.ended(interrupted)").count(), 2, "{story:?}");
    assert!(!story.contains(&"BUSY".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_child_is_closed_before_its_parent() {
    let mut harness = Harness::new().await;
    let parent = harness.session().await;
    let child = harness.child(&parent.id).await;
    for session in [&parent, &child] {
        harness.script(half_way);
        harness.submit(session, "one").await;
        harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    }
    let mut harness = harness.crash().await;
    // The repairs at the start find no space, so that the client's prompt repairs the parent.
    harness.memory.faults().next(1, Fault::Refuse(StoreFailure::Full));
    harness.sessions.recover().await.unwrap();
    harness.submit(&parent, "two").await;
    harness.drain();
    let idle = |body: &EventBody| matches!(body, EventBody::SessionIdle(_));
    let idles: Vec<_> = harness.seen.iter().filter(|event| idle(&event.body)).collect();
    let place = |id| idles.iter().position(|event| event.body.session_id() == Some(id)).unwrap();
    assert!(place(&child.id) < place(&parent.id));
}

#[tokio::test(start_paused = true)]
async fn the_session_works_on_after_a_crash() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(half_way);
    harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let harness = harness.crash().await;
    harness.sessions.recover().await.unwrap();
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("again")).await.unwrap();
    assert!(matches!(answer.info, Message::Assistant(it) if it.error.is_none()));
}
