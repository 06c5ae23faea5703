//! Reads the last turn of a session.

use engine::{Error, lifecycle::continuation::ContinuationPolicy, session::Turn};
use protocol::{
    AgentEvent, EndReason, EventBody, Extra, MessageError, TurnEnd, message::Finish, prompt::PromptInput,
};
use serde_json::json;

use crate::harness::{Harness, finish, say, step};

/// A turn with two steps, a tool call and an open todo.
async fn busy(turn: Turn) -> TurnEnd {
    turn.emit(AgentEvent::step_started()).await;
    let (call, tool) = ("call_1".to_owned(), "bash".to_owned());
    turn.emit(AgentEvent::ToolRunning {
        call: call.clone(),
        tool,
        input: Extra::new(),
        title: None,
        metadata: None,
    })
    .await;
    let (output, title) = ("a".to_owned(), "ls".to_owned());
    turn.emit(AgentEvent::ToolCompleted {
        call,
        output,
        title,
        metadata: Extra::new(),
        attachments: Vec::new(),
    })
    .await;
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
