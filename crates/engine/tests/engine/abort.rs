//! An abort wins over everything else.

use std::time::Duration;

use protocol::{
    AgentEvent, EndReason, EventBody, Extra, Message, TurnEnd, message::Finish, prompt::PromptInput,
};

use crate::harness::{Harness, step};

async fn tool_for_ever(turn: engine::session::Turn) -> TurnEnd {
    turn.emit(AgentEvent::step_started()).await;
    let (call, tool) = ("c1".to_owned(), "bash".to_owned());
    let (input, title, metadata) = (Extra::new(), None, None);
    turn.emit(AgentEvent::ToolRunning { call, tool, input, title, metadata }).await;
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn abort_during_a_tool_that_ignores_it_ends_within_the_grace() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(tool_for_ever);
    let submitted = harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.is_open())).await;
    let begun = tokio::time::Instant::now();
    harness.sessions.abort(&session.id).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(submitted.end.unwrap().await, Ok(EndReason::Aborted));
    harness.drain();
    let story = harness.story(&session.id).join(" · ");
    insta::assert_snapshot!(story, @"session.created · user · text · prompt.queued · session.updated · BUSY · prompt.started · assistant[-] · step-start · bash:running · bash:error · assistant[-,done,error] · session.error · prompt.ended(aborted) · IDLE(aborted) · session.idle");
}

#[tokio::test(start_paused = true)]
async fn waiting_prompts_are_ended_with_a_reason() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(tool_for_ever);
    let running = harness.submit(&session, "one").await;
    let waiting = harness.submit(&session, "two").await;
    harness.sessions.abort(&session.id).await.unwrap();
    assert_eq!(running.end.unwrap().await, Ok(EndReason::Aborted));
    assert_eq!(waiting.end.unwrap().await, Ok(EndReason::Aborted));
    harness.drain();
    let story = harness.story(&session.id);
    assert_eq!(story.iter().filter(|word| *word == "prompt.ended(aborted)").count(), 2);
    assert_eq!(story.iter().filter(|word| *word == "session.idle").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_after_the_abort_gets_its_own_turn() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(tool_for_ever);
    let first = harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.is_open())).await;
    let (aborted, second) = tokio::join!(
        harness.sessions.abort(&session.id),
        harness.sessions.prompt(&session.id, PromptInput::text("two")),
    );
    aborted.unwrap();
    assert!(matches!(second.unwrap().info, Message::Assistant(it) if it.error.is_none()));
    assert_eq!(first.end.unwrap().await, Ok(EndReason::Aborted));
    harness.drain();
    let story = harness.story(&session.id);
    let status: Vec<_> =
        story.iter().filter(|word| word.starts_with(['B', 'I'])).map(String::as_str).collect();
    assert_eq!(status, ["BUSY", "IDLE(aborted)", "BUSY", "IDLE(completed)"]);
}

#[tokio::test(start_paused = true)]
async fn abort_of_an_idle_session_publishes_nothing() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.drain();
    assert_eq!(harness.story(&session.id), ["session.created"]);
}

#[tokio::test(start_paused = true)]
async fn reports_of_a_stopped_runner_are_dropped() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        step(&turn, "one", Finish::ToolCalls).await;
        turn.cancelled().await;
        // The runner returns, but only after it has sent more reports.
        TurnEnd::Completed
    });
    let submitted = harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    harness.sessions.abort(&session.id).await.unwrap();
    assert_eq!(submitted.end.unwrap().await, Ok(EndReason::Aborted), "an abort is not a completion");
    harness.drain();
    assert_eq!(harness.story(&session.id).last().unwrap(), "session.idle");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_busy_session_stops_it_first() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(tool_for_ever);
    harness.submit(&session, "x").await;
    harness.sessions.delete(&session.id).await.unwrap();
    harness.drain();
    let story = harness.story(&session.id).join(" · ");
    assert!(story.ends_with("IDLE(aborted) · session.idle · session.deleted"), "{story}");
    assert!(harness.sessions.get(&session.id).await.is_err());
    assert!(harness.sessions.statuses(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_turns_as_interrupted_and_keeps_waiting_prompts() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(tool_for_ever);
    harness.submit(&session, "one").await;
    harness.submit(&session, "two").await;
    harness.sessions.shutdown().await;
    harness.drain();
    let story = harness.story(&session.id).join(" · ");
    assert!(story.ends_with("prompt.ended(interrupted) · IDLE(interrupted) · session.idle"), "{story}");
    assert!(harness.sessions.submit(&session.id, PromptInput::text("late")).await.is_err());
    let mut harness = harness.crash().await;
    assert_eq!(harness.sessions.recover().await.unwrap(), 1);
    harness.until_idle(&session).await;
    assert!(harness.story(&session.id).contains(&"IDLE(completed)".to_owned()), "the waiting prompt was run");
}
