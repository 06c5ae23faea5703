//! An abort wins over everything else.

use std::time::Duration;

use protocol::{
    AgentEvent, EndReason, EventBody, Extra, Message, TurnEnd, message::Finish, prompt::PromptInput,
};

use crate::harness::{World, step};

async fn tool_for_ever(turn: engine::session::Turn) -> TurnEnd {
    turn.emit(AgentEvent::step_started()).await;
    let (call, tool) = ("c1".to_owned(), "bash".to_owned());
    let (input, title, metadata) = (Extra::new(), None, None);
    turn.emit(AgentEvent::ToolRunning { call, tool, input, title, metadata }).await;
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn abort_during_a_tool_that_ignores_it_ends_within_the_grace() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(tool_for_ever);
    let submitted = world.submit(&session, "x").await;
    world.until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.is_open())).await;
    let begun = tokio::time::Instant::now();
    world.sessions.abort(&session.id).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(submitted.end.unwrap().await, Ok(EndReason::Aborted));
    world.drain();
    let story = world.story(&session.id).join(" · ");
    insta::assert_snapshot!(story, @"session.created · user · text · prompt.queued · session.updated · BUSY · prompt.started · assistant[-] · step-start · bash:running · bash:error · assistant[-,done,error] · session.error · prompt.ended(aborted) · IDLE(aborted) · session.idle");
}

#[tokio::test(start_paused = true)]
async fn waiting_prompts_are_ended_with_a_reason() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(tool_for_ever);
    let running = world.submit(&session, "one").await;
    let waiting = world.submit(&session, "two").await;
    world.sessions.abort(&session.id).await.unwrap();
    assert_eq!(running.end.unwrap().await, Ok(EndReason::Aborted));
    assert_eq!(waiting.end.unwrap().await, Ok(EndReason::Aborted));
    world.drain();
    let story = world.story(&session.id);
    assert_eq!(story.iter().filter(|word| *word == "prompt.ended(aborted)").count(), 2);
    assert_eq!(story.iter().filter(|word| *word == "session.idle").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_after_the_abort_gets_its_own_turn() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(tool_for_ever);
    let first = world.submit(&session, "one").await;
    world.until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.is_open())).await;
    let (aborted, second) = tokio::join!(
        world.sessions.abort(&session.id),
        world.sessions.prompt(&session.id, PromptInput::text("two")),
    );
    aborted.unwrap();
    assert!(matches!(second.unwrap().info, Message::Assistant(it) if it.error.is_none()));
    assert_eq!(first.end.unwrap().await, Ok(EndReason::Aborted));
    world.drain();
    let story = world.story(&session.id);
    let status: Vec<_> =
        story.iter().filter(|word| word.starts_with(['B', 'I'])).map(String::as_str).collect();
    assert_eq!(status, ["BUSY", "IDLE(aborted)", "BUSY", "IDLE(completed)"]);
}

#[tokio::test(start_paused = true)]
async fn abort_of_an_idle_session_publishes_nothing() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.sessions.abort(&session.id).await.unwrap();
    world.drain();
    assert_eq!(world.story(&session.id), ["session.created"]);
}

#[tokio::test(start_paused = true)]
async fn reports_of_a_stopped_runner_are_dropped() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(|turn| async move {
        step(&turn, "one", Finish::ToolCalls).await;
        turn.cancelled().await;
        // The runner returns, but only after it has sent more reports.
        TurnEnd::Completed
    });
    let submitted = world.submit(&session, "x").await;
    world.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    world.sessions.abort(&session.id).await.unwrap();
    assert_eq!(submitted.end.unwrap().await, Ok(EndReason::Aborted), "an abort is not a completion");
    world.drain();
    assert_eq!(world.story(&session.id).last().unwrap(), "session.idle");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_busy_session_stops_it_first() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(tool_for_ever);
    world.submit(&session, "x").await;
    world.sessions.delete(&session.id).await.unwrap();
    world.drain();
    let story = world.story(&session.id).join(" · ");
    assert!(story.ends_with("IDLE(aborted) · session.idle · session.deleted"), "{story}");
    assert!(world.sessions.get(&session.id).await.is_err());
    assert!(world.sessions.statuses(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_turns_as_interrupted_and_keeps_waiting_prompts() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.script(tool_for_ever);
    world.submit(&session, "one").await;
    world.submit(&session, "two").await;
    world.sessions.shutdown().await;
    world.drain();
    let story = world.story(&session.id).join(" · ");
    assert!(story.ends_with("prompt.ended(interrupted) · IDLE(interrupted) · session.idle"), "{story}");
    assert!(world.sessions.submit(&session.id, PromptInput::text("late")).await.is_err());
    let mut world = world.crash().await;
    assert_eq!(world.sessions.recover().await.unwrap(), 1);
    world.until_idle(&session).await;
    assert!(world.story(&session.id).contains(&"IDLE(completed)".to_owned()), "the waiting prompt was run");
}
