//! Streams: resuming without gap or duplicate, the text of open parts, bounded queues.

use engine::{
    StreamItem,
    bus::{MAX_QUEUED_FRAMES, Scope},
    ports::Page,
};
use protocol::{
    AgentEvent, Event, EventBody, Extra, TurnEnd, agent_event::Ask, prompt::PromptInput,
    request::PermissionReply,
};
use tokio::sync::oneshot;

use crate::harness::Harness;

async fn read(stream: &mut engine::Stream) -> Vec<(Option<u64>, Event)> {
    match stream.next().await.unwrap() {
        StreamItem::Frames(frames) => frames
            .iter()
            .map(|frame| (frame.position, serde_json::from_slice(frame.json()).unwrap()))
            .collect(),
        other => panic!("the stream ended: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_client_gets_the_text_of_an_open_part() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let (go, wait) = oneshot::channel::<()>();
    harness.script(|turn| async move {
        turn.emit(AgentEvent::step_started()).await;
        turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
        turn.emit(AgentEvent::TextDelta { key: "0".into(), delta: "half of it".into() }).await;
        wait.await.unwrap();
        turn.emit(crate::harness::finish(protocol::message::Finish::Stop)).await;
        TurnEnd::Completed
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    assert_eq!(messages[1].parts[1].text(), Some("half of it"));
    let mut late = harness.sessions.subscribe(harness.sessions.scope("/project"), None).await.unwrap();
    let first = read(&mut late).await;
    assert!(matches!(&first[0].1.body, EventBody::SessionStatus(it) if !it.status.is_idle()), "{first:?}");
    let EventBody::PartUpdated(part) = &first[1].1.body else { panic!("{first:?}") };
    assert_eq!(part.part.text(), Some("half of it"));
    assert!(first.iter().all(|(position, _)| position.is_none()), "what is repeated is not in the log");
    go.send(()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_new_client_receives_busy_sessions_and_open_requests_until_they_end() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    assert_eq!(harness.told("/project", None).await, "");
    harness.script(|turn| async move {
        let (permission, patterns) = ("bash".to_owned(), vec!["rm x".to_owned()]);
        let always = Vec::new();
        turn.ask(Ask::Permission { permission, patterns, metadata: Extra::new(), always, call: None }).await;
        turn.ask(Ask::Question { questions: Vec::new(), call: None }).await;
        TurnEnd::Completed
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    assert_eq!(harness.told("/project", None).await, "BUSY · permission.asked");
    let after_replay = harness.told("/project", Some(0)).await;
    assert!(after_replay.ends_with("permission.asked · BUSY · permission.asked"), "{after_replay}");
    assert_eq!(harness.told("/elsewhere", None).await, "");
    let permission = harness.sessions.permissions(None).await.unwrap()[0].id.clone();
    harness.sessions.reply_permission(&permission, PermissionReply::Once, None).await.unwrap();
    harness.until(|body| matches!(body, EventBody::QuestionAsked(_))).await;
    assert_eq!(harness.told("/project", None).await, "BUSY · question.asked");
    let question = harness.sessions.questions(None).await.unwrap()[0].id.clone();
    harness.sessions.reject_question(&question).await.unwrap();
    harness.until_idle(&session).await;
    assert_eq!(harness.told("/project", None).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_deleted_is_not_announced() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        turn.ask(Ask::Question { questions: Vec::new(), call: None }).await;
        TurnEnd::Completed
    });
    harness.submit(&session, "x").await;
    harness.until(|body| matches!(body, EventBody::QuestionAsked(_))).await;
    harness.sessions.delete(&session.id).await.unwrap();
    assert_eq!(harness.told("/project", None).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_replays_exactly_the_missed_events_of_its_directory() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    let mut whole = harness.sessions.subscribe(Scope::default(), Some(0)).await.unwrap();
    let whole = read(&mut whole).await;
    for cut in 0..=whole.len() {
        let cursor = if cut == 0 { 0 } else { whole[cut - 1].0.unwrap() };
        let mut rest =
            harness.sessions.subscribe(harness.sessions.scope("/project"), Some(cursor)).await.unwrap();
        let other = harness.session().await; // something live ends every replay
        let mut got = Vec::new();
        while !got.iter().any(|(_, event): &(_, Event)| event.body.session_id() == Some(&other.id)) {
            got.extend(read(&mut rest).await);
        }
        got.retain(|(_, event)| event.body.session_id() == Some(&session.id));
        let wanted = &whole[cut..];
        assert_eq!(got, wanted);
        let mut elsewhere =
            harness.sessions.subscribe(harness.sessions.scope("/other"), Some(cursor)).await.unwrap();
        assert!(futures::FutureExt::now_or_never(elsewhere.next()).is_none());
    }
    harness.drain();
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_is_too_old_or_unknown_gets_a_resync() {
    let harness = Harness::new().await;
    harness.session().await;
    harness.session().await;
    harness.memory.trim(1);
    for cursor in [0, 99] {
        let mut stream = harness.sessions.subscribe(Scope::default(), Some(cursor)).await.unwrap();
        let first = read(&mut stream).await;
        assert!(matches!(&first[0].1.body, EventBody::ServerResync(it) if it.oldest == 2), "{first:?}");
    }
    let mut fine = harness.sessions.subscribe(Scope::default(), Some(1)).await.unwrap();
    assert_eq!(read(&mut fine).await[0].0, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_cut_off_and_others_are_not() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let mut stalled = harness.sessions.subscribe(Scope::default(), None).await.unwrap();
    harness.script(|turn| async move {
        turn.emit(AgentEvent::step_started()).await;
        turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
        for _ in 0..=MAX_QUEUED_FRAMES {
            turn.emit(AgentEvent::TextDelta { key: "0".into(), delta: "x".into() }).await;
        }
        TurnEnd::Completed
    });
    harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    assert!(matches!(stalled.next().await.unwrap(), StreamItem::Lagged(_)));
    assert_eq!(harness.sessions.stats().bus.cut_off, 2, "the test's own watcher did not read either");
}

#[tokio::test(start_paused = true)]
async fn a_log_that_is_trimmed_under_a_slow_replay_causes_a_resync() {
    let harness = Harness::new().await;
    for _ in 0..=engine::limits::REPLAY_PAGE {
        harness.session().await;
    }
    let mut slow = harness.sessions.subscribe(Scope::default(), Some(0)).await.unwrap();
    let page = read(&mut slow).await;
    assert_eq!(page.len(), engine::limits::REPLAY_PAGE);
    harness.memory.trim(engine::limits::REPLAY_PAGE as u64 + 1);
    let next = read(&mut slow).await;
    assert!(matches!(next[0].1.body, EventBody::ServerResync(_)), "{next:?}");
}
