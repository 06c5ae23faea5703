//! Requests that were open when the server stopped.

use std::time::Duration;

use engine::session::Turn;
use protocol::{
    AgentEvent, EndReason, EventBody, Extra, Session, TurnEnd,
    agent_event::{Answer, Ask},
    prompt::PromptInput,
    request::{PermissionReply, PermissionRequest},
};

use crate::harness::{Harness, say};

fn may_i() -> Ask {
    Ask::Permission {
        permission: "bash".into(),
        patterns: vec!["make".into()],
        metadata: Extra::new(),
        always: vec!["make *".into()],
        call: Some("c1".into()),
    }
}

/// A tool call that waits for a permission.
async fn waits(turn: Turn) -> TurnEnd {
    turn.emit(AgentEvent::step_started()).await;
    let (call, tool) = ("c1".to_owned(), "bash".to_owned());
    turn.emit(AgentEvent::ToolRunning { call, tool, input: Extra::new(), title: None, metadata: None }).await;
    turn.ask(may_i()).await;
    std::future::pending().await
}

async fn waiting(harness: &Harness) -> Vec<PermissionRequest> {
    harness.sessions.permissions(None).await.unwrap()
}

/// A world whose server stopped while a tool call waited for a permission, and was started again.
async fn restarted(kindly: bool) -> (Harness, Session) {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(waits);
    harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    if kindly {
        harness.sessions.shutdown().await;
    }
    let mut harness = harness.crash().await;
    harness.sessions.recover().await.unwrap();
    harness.drain();
    assert!(harness.sessions.statuses(None).await.unwrap().is_empty(), "after a restart nothing is busy");
    (harness, session)
}

#[tokio::test(start_paused = true)]
async fn an_open_request_is_listed_after_a_restart_and_its_answer_resumes_the_turn() {
    for kindly in [false, true] {
        let (mut harness, session) = restarted(kindly).await;
        let request = waiting(&harness).await.remove(0);
        harness.script(|turn| async move {
            assert_eq!(turn.resumed().unwrap().call_id, "c1");
            assert_eq!(turn.ask(may_i()).await, Answer::Always, "it is not asked twice");
            say(turn, "done").await
        });
        harness.sessions.reply_permission(&request.id, PermissionReply::Always, None).await.unwrap();
        let again = harness.sessions.reply_permission(&request.id, PermissionReply::Always, None).await;
        assert!(again.is_err());
        harness.until_idle(&session).await;
        assert!(waiting(&harness).await.is_empty());
        assert_eq!(harness.sessions.approvals(None).await.unwrap().len(), 1);
        let story = harness.story(&session.id);
        let from = story.iter().position(|word| word == "permission.replied").unwrap();
        assert_eq!(story[from + 1..from + 4], ["prompt.queued", "BUSY", "prompt.started"]);
        assert_eq!(story[story.len() - 3..], ["prompt.ended(completed)", "IDLE(completed)", "session.idle"]);
        assert_eq!(harness.sessions.recover().await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_open_after_a_restart_is_sent_to_new_clients() {
    let (harness, _) = restarted(true).await;
    assert_eq!(harness.told("/project", None).await, "permission.asked");
    let (harness, _) = restarted(false).await;
    assert_eq!(harness.told("/project", None).await, "IDLE(interrupted) · session.idle · permission.asked");
    harness
        .sessions
        .reply_permission(&waiting(&harness).await[0].id, PermissionReply::Reject, None)
        .await
        .unwrap();
    assert!(!harness.told("/project", None).await.contains("permission.asked"));
}

#[tokio::test(start_paused = true)]
async fn a_new_prompt_or_an_abort_withdraws_the_orphaned_request() {
    let (mut harness, session) = restarted(false).await;
    harness.sessions.prompt(&session.id, PromptInput::text("never mind")).await.unwrap();
    assert!(waiting(&harness).await.is_empty());
    harness.drain();
    assert!(harness.story(&session.id).contains(&"permission.replied".to_owned()));

    let (mut harness, session) = restarted(true).await;
    harness.sessions.abort(&session.id).await.unwrap();
    assert!(waiting(&harness).await.is_empty());
    harness.drain();
    assert!(!harness.story(&session.id).contains(&"BUSY".to_owned()), "it was idle already");
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_request_has_a_deadline() {
    let (mut harness, _) = restarted(true).await;
    let begun = tokio::time::Instant::now();
    let given_up = harness.until(|body| matches!(body, EventBody::PermissionReplied(_))).await;
    assert!(begun.elapsed() >= Duration::from_hours(1));
    assert!(matches!(given_up.body, EventBody::PermissionReplied(it) if it.unanswered == Some(true)));
    assert!(waiting(&harness).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_second_restart_changes_nothing() {
    let (harness, session) = restarted(false).await;
    let harness = harness.crash().await;
    assert_eq!(harness.sessions.recover().await.unwrap(), 0, "its turn has ended already");
    let request = waiting(&harness).await.remove(0);
    harness.script(|turn| async move {
        if turn.resumed().is_some() { TurnEnd::Completed } else { TurnEnd::Blocked }
    });
    harness.sessions.reply_permission(&request.id, PermissionReply::Once, None).await.unwrap();
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("and?")).await;
    answer.unwrap();
    assert_eq!(
        harness.sessions.stats().ended.iter().find(|(end, _)| *end == EndReason::Completed).unwrap().1,
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_childs_request_goes_with_its_parent() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        let spec = engine::ports::ChildSpec { prompt: "ask".into(), ..Default::default() };
        turn.start_child(spec).await.unwrap().wait().await;
        TurnEnd::Completed
    });
    harness.script(waits);
    harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let harness = harness.crash().await;
    harness.sessions.recover().await.unwrap();
    assert!(waiting(&harness).await.is_empty());
}
