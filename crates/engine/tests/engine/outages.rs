//! Outages of the store, as on a full disk: status and stream agree all the time, every turn gets its one idle, and
//! everything is repaired automatically.

use std::time::Duration;

use engine::{
    Error,
    limits::MAX_REPAIR_PAUSE,
    memory::faults::Fault,
    ports::{Page, StoreFailure},
    session::Turn,
};
use protocol::{
    AgentEvent, EndReason, EventBody, Extra, Message, Session, SessionStatus, TurnEnd,
    agent_event::Ask,
    prompt::{Delivery, PromptInput, SessionPatch},
};
use tokio::sync::oneshot;

use crate::harness::Harness;

fn is_full<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Store(error)) if error.failure == StoreFailure::Full)
}

/// A turn that emits text, waits for `go`, and emits more.
async fn talks(turn: Turn, go: oneshot::Receiver<()>) -> TurnEnd {
    turn.emit(AgentEvent::step_started()).await;
    turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
    turn.emit(AgentEvent::TextDelta { key: "0".into(), delta: "said before".into() }).await;
    let _ = go.await;
    turn.emit(AgentEvent::TextEnded { key: "0".into() }).await;
    std::future::pending().await
}

/// A world whose disk became full during a turn while another prompt waited, so that the actor gave up.
async fn given_up() -> (Harness, Session) {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let (go, wait) = oneshot::channel();
    harness.script(|turn| talks(turn, wait));
    harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    let later = PromptInput { delivery: Some(Delivery::Queue), ..PromptInput::text("two") };
    harness.sessions.submit(&session.id, later).await.unwrap();
    harness.memory.faults().begin_outage(StoreFailure::Full);
    go.send(()).unwrap();
    harness.until(|body| matches!(body, EventBody::SessionError(_))).await;
    (harness, session)
}

fn count(story: &[String], word: &str) -> usize {
    story.iter().filter(|it| *it == word).count()
}

async fn status(harness: &Harness, session: &Session) -> Option<SessionStatus> {
    harness.sessions.statuses(None).await.unwrap().remove(&session.id)
}

#[tokio::test(start_paused = true)]
async fn after_a_full_disk_the_turn_ends_once_and_waiting_prompts_run() {
    let (mut harness, session) = given_up().await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    harness.drain();
    assert_eq!(count(&harness.story(&session.id), "session.idle"), 0, "an idle that is not stored is none");
    assert_eq!(status(&harness, &session).await, Some(SessionStatus::BUSY), "and the status says the same");
    assert!(harness.told("/project", None).await.starts_with("BUSY"), "to a client that connects as well");
    assert!(is_full(&harness.sessions.submit(&session.id, PromptInput::text("three")).await));
    assert!(is_full(&harness.sessions.wait(&session.id).await));

    harness.memory.faults().end_outage();
    harness.until_idle(&session).await;
    harness.until_idle(&session).await;
    harness.drain();
    let story = harness.story(&session.id);
    let from = story.iter().rposition(|word| word == "prompt.ended(error)").unwrap();
    assert_eq!(story[from + 1..from + 5], ["IDLE(error)", "session.idle", "BUSY", "prompt.started"]);
    assert_eq!(story[story.len() - 3..], ["prompt.ended(completed)", "IDLE(completed)", "session.idle"]);
    assert_eq!(count(&story, "session.idle"), 2, "two turns: {story:?}");
    assert_eq!(status(&harness, &session).await, None);
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    let cut = messages.iter().find(|message| matches!(message.info, Message::Assistant(_))).unwrap();
    assert!(matches!(&cut.info, Message::Assistant(it) if it.time.completed.is_some() && it.error.is_some()));
    assert!(cut.parts.iter().any(|part| part.text() == Some("said before") && !part.is_open()));
    assert_eq!(harness.sessions.stats().unfinished, 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_prompts_wait_is_busy_from_its_repair_on() {
    let (mut harness, session) = given_up().await;
    harness.memory.faults().pass(1); // the repair, and nothing after it
    harness.memory.faults().next(3, Fault::Refuse(StoreFailure::Full));
    harness.memory.faults().end_outage();
    harness.until_idle(&session).await;
    assert_eq!(status(&harness, &session).await, Some(SessionStatus::BUSY), "a prompt waits");
    harness.until_idle(&session).await;
    let story = harness.story(&session.id);
    assert_eq!(
        (count(&story, "session.idle"), count(&story, "prompt.ended(completed)")),
        (2, 1),
        "{story:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_abort_on_a_full_disk_fails_and_is_applied_later() {
    let (mut harness, session) = given_up().await;
    assert!(is_full(&harness.sessions.abort(&session.id).await));
    harness.memory.faults().end_outage();
    harness.until_idle(&session).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    harness.drain();
    let story = harness.story(&session.id);
    assert_eq!(count(&story, "IDLE(aborted)"), 1, "{story:?}");
    assert_eq!((count(&story, "prompt.ended(aborted)"), count(&story, "session.idle")), (2, 1), "{story:?}");
    assert_eq!(status(&harness, &session).await, None);
    harness.sessions.prompt(&session.id, PromptInput::text("three")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_abort_that_cannot_be_stored_is_applied_later_and_spares_later_prompts() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let (_go, wait) = oneshot::channel();
    harness.script(|turn| talks(turn, wait));
    harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    let (sessions, id) = (harness.sessions.clone(), session.id.clone());
    let abort = tokio::spawn(async move { sessions.abort(&id).await });
    tokio::task::yield_now().await; // the abort has reached the actor, and the runner has its grace
    harness.submit(&session, "two").await;
    harness.memory.faults().begin_outage(StoreFailure::Full);
    assert!(is_full(&abort.await.unwrap()));
    harness.memory.faults().end_outage();
    harness.until_idle(&session).await;
    harness.until_idle(&session).await;
    let story = harness.story(&session.id);
    assert_eq!((count(&story, "IDLE(aborted)"), count(&story, "IDLE(completed)")), (1, 1), "{story:?}");
    assert_eq!(count(&story, "prompt.ended(aborted)"), 1, "{story:?}");
}

#[tokio::test(start_paused = true)]
async fn an_abort_repairs_as_soon_as_the_disk_has_room() {
    let (mut harness, session) = given_up().await;
    harness.memory.faults().end_outage();
    harness.sessions.abort(&session.id).await.unwrap();
    assert_eq!(status(&harness, &session).await, None, "the answer means idle");
    harness.drain();
    assert_eq!(count(&harness.story(&session.id), "IDLE(aborted)"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_commit_that_succeeds_repairs_the_others() {
    let (mut harness, session) = given_up().await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    harness.memory.faults().end_outage();
    let begun = tokio::time::Instant::now();
    harness.session().await;
    harness.until_idle(&session).await;
    assert!(begun.elapsed() < MAX_REPAIR_PAUSE, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_prompt_whose_start_could_not_be_stored_is_run_later() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.memory.faults().pass(1); // the prompt itself
    harness.memory.faults().next(20, Fault::Refuse(StoreFailure::Full));
    let waits = harness.sessions.prompt(&session.id, PromptInput::text("x")).await;
    assert!(is_full(&waits), "callers do not wait for the disk: {waits:?}");
    harness.until_idle(&session).await;
    let story = harness.story(&session.id);
    assert_eq!(story[story.len() - 3..], ["prompt.ended(completed)", "IDLE(completed)", "session.idle"]);
    assert_eq!(count(&story, "session.idle"), 1, "{story:?}");
    assert_eq!(count(&story, "session.error"), 0, "it is in no turn: {story:?}");
}

#[tokio::test(start_paused = true)]
async fn a_child_does_not_outlive_a_parent_that_was_given_up() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let (go, wait) = oneshot::channel();
    harness.script(|turn| async move {
        let spec = engine::ports::ChildSpec { prompt: "work".into(), ..Default::default() };
        let _child = turn.start_child(spec).await.unwrap();
        talks(turn, wait).await
    });
    harness.script(|turn| async move {
        turn.emit(AgentEvent::step_started()).await;
        std::future::pending().await
    });
    harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    harness.memory.faults().next(4, Fault::Refuse(StoreFailure::Full));
    go.send(()).unwrap();
    harness.until_idle(&session).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(harness.sessions.statuses(None).await.unwrap().is_empty());
}

async fn asks(turn: Turn) -> TurnEnd {
    turn.emit(AgentEvent::step_started()).await;
    let (call, tool) = ("c1".to_owned(), "bash".to_owned());
    turn.emit(AgentEvent::ToolRunning { call, tool, input: Extra::new(), title: None, metadata: None }).await;
    let ask = Ask::Permission {
        permission: "bash".into(),
        patterns: vec!["make".into()],
        metadata: Extra::new(),
        always: Vec::new(),
        call: Some("c1".into()),
    };
    turn.ask(ask).await;
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_on_a_full_disk_serves_and_repairs_when_it_can() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let (_go, wait) = oneshot::channel();
    harness.script(|turn| talks(turn, wait));
    harness.submit(&session, "one").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    let mut harness = harness.crash().await;
    harness.memory.faults().begin_outage(StoreFailure::Full);
    assert_eq!(harness.sessions.recover().await.unwrap(), 1);
    assert_eq!(harness.sessions.stats().unfinished, 1);
    assert_eq!(harness.sessions.messages(&session.id, Page::default()).await.unwrap().len(), 2);
    assert_eq!(status(&harness, &session).await, Some(SessionStatus::BUSY));
    assert_eq!(harness.told("/project", None).await, "BUSY");
    assert!(is_full(&harness.sessions.submit(&session.id, PromptInput::text("two")).await));
    assert!(is_full(&harness.sessions.update(&session.id, SessionPatch::default()).await));
    harness.memory.faults().end_outage();
    harness.until_idle(&session).await;
    assert_eq!(count(&harness.story(&session.id), "IDLE(interrupted)"), 1);
    assert_eq!(
        harness.told("/project", None).await,
        "IDLE(interrupted) · session.idle",
        "as after any crash"
    );
    harness.sessions.prompt(&session.id, PromptInput::text("two")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn many_waiting_requests_are_repaired_together_and_the_start_does_not_wait_for_all() {
    const SESSIONS: usize = 300;
    let mut harness = Harness::new().await;
    for _ in 0..SESSIONS {
        let session = harness.session().await;
        harness.script(asks);
        harness.submit(&session, "one").await;
        harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    }
    let harness = harness.crash().await;
    let slow = Duration::from_millis(200);
    harness.memory.faults().next(SESSIONS, Fault::DelayAcknowledgement(slow));
    let begun = tokio::time::Instant::now();
    assert_eq!(harness.sessions.recover().await.unwrap(), SESSIONS);
    assert_eq!(begun.elapsed(), Duration::from_millis(500), "it serves while there is more to repair");
    while harness.sessions.stats().unfinished > 0 {
        tokio::time::sleep(slow).await;
    }
    // One after the other, the repairs would take a minute.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(harness.sessions.permissions(None).await.unwrap().len(), SESSIONS);
    let ended = harness.sessions.stats().ended;
    assert!(ended.contains(&(EndReason::Interrupted, SESSIONS as u64)), "each once: {ended:?}");
}
