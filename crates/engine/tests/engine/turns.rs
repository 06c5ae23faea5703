//! Reads the last turn of a session.

use engine::{Error, lifecycle::continuation::ContinuationPolicy, session::Turn};
use protocol::{
    AgentEvent, EndReason, EventBody, Extra, MessageError, TurnEnd, message::Finish, prompt::PromptInput,
};
use serde_json::json;

use crate::harness::{Harness, finish, say, step};

/// Reports a tool call that runs and completes.
async fn tool_call(turn: &Turn, call: String) {
    let (input, tool) = (Extra::new(), "bash".to_owned());
    turn.emit(AgentEvent::ToolRunning { call: call.clone(), tool, input, title: None, metadata: None }).await;
    let (output, title) = ("a".to_owned(), "ls".to_owned());
    let (metadata, attachments) = (Extra::new(), Vec::new());
    turn.emit(AgentEvent::ToolCompleted { call, output, title, metadata, attachments }).await;
}

/// A turn with two steps, a tool call and an open todo.
async fn busy(turn: Turn) -> TurnEnd {
    turn.emit(AgentEvent::step_started()).await;
    tool_call(&turn, "call_1".to_owned()).await;
    turn.emit(finish(Finish::ToolCalls)).await;
    let todo = json!([{ "content": "the rest", "status": "pending", "priority": "low" }]);
    turn.emit(AgentEvent::Todos(serde_json::from_value(todo).unwrap())).await;
    say(turn, "first half").await
}

async fn rest(turn: Turn) -> TurnEnd {
    turn.emit(AgentEvent::Todos(Vec::new())).await;
    say(turn, "second half").await
}

#[tokio::test(start_paused = true)]
async fn the_last_turn_includes_its_continuations() {
    let harness = Harness::new().await;
    harness.policy(ContinuationPolicy { todos: true, ..ContinuationPolicy::default() });
    let session = harness.session().await;
    harness.sessions.prompt(&session.id, PromptInput::text("before")).await.unwrap();
    harness.script(busy);
    harness.script(rest);
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("do it")).await.unwrap();
    let turn = harness.sessions.last_turn(&session.id).await.unwrap();
    assert_eq!((turn.prompt.as_str(), turn.answer.as_str()), ("do it", "first half\nsecond half"));
    assert_eq!((turn.steps, turn.messages.len(), turn.continued), (3, 3, 1));
    assert_eq!(turn.messages.last().unwrap().info.id(), answer.info.id());
    let tools: Vec<_> = turn.tools.iter().map(|it| (it.tool.as_str(), it.status.as_str())).collect();
    assert_eq!(tools, [("bash", "completed")]);
    assert_eq!((turn.tokens.input, turn.tokens.output, turn.cost.0), (30, 6, 1.5));
    assert_eq!(turn.end, Some(EndReason::Completed));
}

#[tokio::test(start_paused = true)]
async fn the_last_turn_has_its_end_once_it_has_ended() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let nothing = harness.sessions.last_turn(&session.id).await.unwrap_err();
    assert!(matches!(nothing, Error::NotFound { kind: "Turn", .. }), "{nothing}");
    harness.script(|turn| async move {
        step(&turn, "half", Finish::ToolCalls).await;
        turn.cancelled().await;
        TurnEnd::Cancelled
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    assert_eq!(harness.sessions.last_turn(&session.id).await.unwrap().end, None);
    harness.sessions.abort(&session.id).await.unwrap();
    assert_eq!(harness.sessions.last_turn(&session.id).await.unwrap().end, Some(EndReason::Aborted));
    harness.script(|_| async { TurnEnd::Blocked });
    harness.sessions.prompt(&session.id, PromptInput::text("y")).await.unwrap();
    assert_eq!(harness.sessions.last_turn(&session.id).await.unwrap().end, Some(EndReason::Blocked));
    harness.script(|_| async { TurnEnd::Error(MessageError::unknown("no")) });
    harness.sessions.prompt(&session.id, PromptInput::text("z")).await.unwrap();
    assert_eq!(harness.sessions.last_turn(&session.id).await.unwrap().end, Some(EndReason::Error));
}

/// Runs a turn with so many tool calls, reported without a pause. Returns the commits that it took.
async fn commits_of(calls: usize) -> u64 {
    let harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(move |turn| async move {
        turn.emit(AgentEvent::step_started()).await;
        for call in 0..calls {
            tool_call(&turn, format!("call_{call}")).await;
        }
        turn.emit(finish(Finish::Stop)).await;
        TurnEnd::Completed
    });
    let before = harness.memory.commits();
    harness.sessions.prompt(&session.id, PromptInput::text("go")).await.unwrap();
    let turn = harness.sessions.last_turn(&session.id).await.unwrap();
    assert_eq!(turn.tools.iter().filter(|tool| tool.status == "completed").count(), calls);
    harness.memory.commits() - before
}

#[tokio::test(start_paused = true)]
async fn events_that_wait_together_share_a_commit() {
    // One commit accepts the prompt, one starts it, one stores its step and one ends the turn.
    assert_eq!(commits_of(10).await, 4);
    // Nothing is lost when more events wait than one commit takes.
    assert!(commits_of(100).await < 20);
}
