//! Fences: an actor whose node has lost the workspace ends without a word, because the new owner ends the turn.

use std::sync::Arc;

use engine::{
    Error,
    memory::faults::Fault,
    ports::{self, Alone, Fence, Fleet, Reads, StoreFailure, StoreFuture},
};
use futures::FutureExt;
use protocol::{
    AgentEvent, EventBody, Extra, PartBody, Session, SessionStatus, TurnEnd, WorkspaceId,
    prompt::{PromptInput, SessionInput},
};
use tokio::sync::oneshot;

use crate::harness::Harness;

fn is_fenced<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Store(error)) if error.failure == StoreFailure::Fenced)
}

/// The events of a turn whose workspace gets another owner after its first text. With `ends`, the text ends; otherwise
/// only the timer that saves open text finds out.
async fn lost_workspace(ends: bool) {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let (go, wait) = oneshot::channel::<()>();
    harness.script(move |turn| async move {
        turn.emit(AgentEvent::step_started()).await;
        turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
        turn.emit(AgentEvent::TextDelta { key: "0".into(), delta: "said".into() }).await;
        let _ = wait.await;
        if ends {
            turn.emit(AgentEvent::TextEnded { key: "0".into() }).await;
        }
        std::future::pending::<TurnEnd>().await
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    let before = harness.story(&session.id).len();
    harness.memory.change_owner(&harness.sessions.workspace(&session.directory));
    go.send(()).unwrap();
    assert!(is_fenced(&harness.sessions.wait(&session.id).await));
    harness.drain();
    assert_eq!(harness.story(&session.id).len(), before, "neither an error nor an idle is published");
    let statuses = harness.sessions.statuses(None).await.unwrap();
    assert_eq!(statuses.get(&session.id), Some(&SessionStatus::BUSY), "the new owner ends the turn");
    let stats = harness.sessions.stats();
    assert_eq!((stats.live, stats.unfinished), (0, 0), "and this node does not try to repair it");
}

#[tokio::test(start_paused = true)]
async fn a_fenced_commit_ends_the_actor_without_a_word() {
    lost_workspace(true).await;
}

#[tokio::test(start_paused = true)]
async fn a_fenced_checkpoint_ends_the_actor_without_a_word() {
    lost_workspace(false).await;
}

/// A node that owns no workspace.
#[derive(Debug)]
struct Guest;

impl Fleet for Guest {
    fn workspace(&self, directory: &str) -> WorkspaceId {
        Alone.workspace(directory)
    }

    fn claim<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Fence> {
        let message = format!("another node owns {workspace}");
        futures::future::ready(Err(ports::Error::new(StoreFailure::Fenced, message))).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn no_actor_starts_on_a_node_that_does_not_own_the_workspace() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let harness = harness.crash_to(Arc::new(Guest)).await;
    assert!(is_fenced(&harness.sessions.submit(&session.id, PromptInput::text("x")).await));
    assert!(is_fenced(&harness.sessions.fork(&session.id, None).await));
    assert!(is_fenced(&harness.sessions.create(Harness::home(), SessionInput::default()).await));
    let stats = harness.sessions.stats();
    assert_eq!((stats.live, stats.unfinished), (0, 0));
    assert_eq!(harness.sessions.get(&session.id).await.unwrap(), session, "reading works");
}

/// Runs a turn that begins a tool once it is admitted. Returns true if the tool began, and whether the record showed it as
/// running by then.
async fn tool(prepare: impl FnOnce(&Harness, &Session)) -> (bool, bool) {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let (go, wait) = oneshot::channel::<()>();
    let (tell, told) = oneshot::channel();
    let (memory, id) = (harness.memory.clone(), session.id.clone());
    harness.script(move |turn| async move {
        turn.emit(AgentEvent::step_started()).await;
        let _ = wait.await;
        let (call, tool) = ("c1".to_owned(), "bash".to_owned());
        turn.emit(AgentEvent::ToolRunning { call, tool, input: Extra::new(), title: None, metadata: None })
            .await;
        let is_admitted = turn.admit().await;
        let open = memory.open(&id).await.unwrap();
        let mut parts = open.iter().flat_map(|message| &message.parts);
        let is_stored = parts.any(|part| matches!(&part.body, PartBody::Tool(tool) if tool.call_id == "c1"));
        tell.send((is_admitted, is_stored)).unwrap();
        TurnEnd::Completed
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PartUpdated(_))).await;
    prepare(&harness, &session);
    go.send(()).unwrap();
    told.await.unwrap_or((false, false))
}

#[tokio::test(start_paused = true)]
async fn a_tool_begins_after_the_commit_that_shows_it() {
    assert_eq!(tool(|_, _| ()).await, (true, true));
    let slow = |harness: &Harness, _: &Session| {
        let delay = Fault::Delay(std::time::Duration::from_secs(5));
        harness.memory.faults().next(1, delay);
    };
    assert_eq!(tool(slow).await, (true, true), "however long the commit takes");
}

#[tokio::test(start_paused = true)]
async fn no_tool_begins_on_a_node_that_lost_the_workspace() {
    let lost = |harness: &Harness, session: &Session| {
        harness.memory.change_owner(&harness.sessions.workspace(&session.directory));
    };
    assert_eq!(tool(lost).await, (false, false));
}
