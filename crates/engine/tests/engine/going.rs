//! Turns that continue by themselves, because of open todos or hooks: within the same turn, and never endlessly.

use std::{sync::Arc, time::Duration};

use engine::{
    lifecycle::continuation::ContinuationPolicy,
    ports::{
        ChildSpec, HookPoint, Hooks, Page,
        hooks::{HookCall, Hooked, Next},
    },
    session::Turn,
};
use futures::{FutureExt, future};
use protocol::{
    AgentEvent, EventBody, Extra, Message, MessageError, MessageWithParts, Session, Todo, TurnEnd,
    agent_event::{Answer, Ask, Speaker},
    continuation::{ContinuationAction, StopReason},
    message::{Finish, ModelRef},
    part::{CompactionPart, TextPart},
    prompt::{PartInput, PartInputBody, PromptInput, Sender, SessionPatch},
    request::{PermissionReply, Question},
};
use serde_json::json;

use crate::harness::{Harness, finish, say, step};

fn policy() -> ContinuationPolicy {
    ContinuationPolicy { todos: true, ..ContinuationPolicy::default() }
}

fn counting_down() -> ContinuationPolicy {
    ContinuationPolicy { countdown: Duration::from_secs(5), ..policy() }
}

async fn harness(policy: ContinuationPolicy) -> (Harness, Session) {
    let harness = Harness::new().await;
    harness.policy(policy);
    let session = harness.session().await;
    (harness, session)
}

fn todos(statuses: &[&str]) -> AgentEvent {
    let todo = |status: &&str| -> Todo {
        serde_json::from_value(json!({ "content": "a thing", "status": status, "priority": "low" })).unwrap()
    };
    AgentEvent::Todos(statuses.iter().map(todo).collect())
}

/// Sets the todo list and emits a text.
async fn list(turn: Turn, statuses: &[&str]) -> TurnEnd {
    turn.emit(todos(statuses)).await;
    say(turn, "so far").await
}

/// Every busy, continuation, stop and idle, in order.
fn tale(harness: &Harness, session: &Session) -> Vec<String> {
    let mine = harness.seen.iter().filter(|event| event.body.session_id() == Some(&session.id));
    mine.filter_map(|event| match &event.body {
        EventBody::ContinuationStarted(it) => Some(format!("on {}", it.n)),
        EventBody::ContinuationCountdown(it) => Some(format!("countdown {}", it.n)),
        EventBody::ContinuationStopped(it) => Some(format!("stopped {:?} after {}", it.reason, it.rounds)),
        EventBody::SessionStatus(it) => match &it.status {
            protocol::SessionStatus::Idle { reason, .. } => {
                Some(format!("idle {}", reason.unwrap().as_str()))
            }
            protocol::SessionStatus::Busy { .. } => Some("busy".into()),
            protocol::SessionStatus::Retry { .. } => None,
        },
        _ => None,
    })
    .collect()
}

async fn turn(harness: &mut Harness, session: &Session) -> String {
    harness.submit(session, "do it").await;
    harness.until_idle(session).await;
    tale(harness, session).join(", ")
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_open_todos_continues_until_they_are_done() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["completed", "pending", "pending"]).await });
    harness.script(|turn| async move { list(turn, &["completed", "completed", "in_progress"]).await });
    harness.script(|turn| async move {
        turn.emit(todos(&["completed", "completed", "completed"])).await;
        say(turn, "all done").await
    });
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("do it")).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("all done"), "a waiting caller gets the last answer");
    harness.drain();
    assert_eq!(tale(&harness, &session).join(", "), "busy, on 1, on 2, idle completed");
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    let asked = messages[0].info.id();
    let marked: Vec<&MessageWithParts> = messages.iter().filter(|it| is_continuation(it)).collect();
    assert_eq!(marked.len(), 2);
    let Message::User(user) = &marked[1].info else { panic!("not a prompt") };
    assert_eq!(user.continues().as_ref(), Some(asked));
    assert_eq!((user.agent.as_str(), user.model.model_id.as_str()), ("build", "model"));
    let part = serde_json::to_value(&marked[1].parts[0]).unwrap();
    assert_eq!(part["synthetic"], true);
    assert_eq!(part["metadata"]["continuation"], json!({ "source": "todo", "episode": asked, "n": 2 }));
    assert!(part["text"].as_str().unwrap().contains("2 of 3 entries are completed"), "{part}");
}

fn is_continuation(message: &MessageWithParts) -> bool {
    matches!(&message.info, Message::User(user) if user.continues().is_some())
}

#[tokio::test(start_paused = true)]
async fn a_model_that_never_updates_its_todos_is_stopped() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["pending", "pending"]).await });
    let tale = turn(&mut harness, &session).await;
    assert_eq!(tale, "busy, on 1, on 2, on 3, stopped Stagnant after 3, idle completed");
    let stored = harness.sessions.get(&session.id).await.unwrap().continuation.unwrap();
    assert_eq!((stored.stopped, stored.episode.unwrap().rounds), (Some(StopReason::Stagnant), 3));
    assert_eq!(
        toasts(&harness),
        ["warning: stopped after round 3 of 10 with 2 todos open: no progress in the last rounds"]
    );
}

/// The toasts that OpenCode's clients show.
fn toasts(harness: &Harness) -> Vec<String> {
    let toasts = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::TuiToastShow(it) => Some(it),
        _ => None,
    });
    let text = |it: &Extra, name: &str| it[name].as_str().unwrap().to_owned();
    toasts.map(|it| format!("{}: {}", text(it, "variant"), text(it, "message"))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_model_that_churns_is_stopped() {
    let (mut harness, session) = harness(policy()).await;
    let flip = Arc::new(std::sync::atomic::AtomicBool::new(false));
    harness.always(Arc::new(move |turn| {
        let odd = flip.fetch_xor(true, std::sync::atomic::Ordering::Relaxed);
        async move {
            list(turn, if odd { &["pending", "in_progress"] } else { &["in_progress", "pending"] }).await
        }
        .boxed()
    }));
    let tale = turn(&mut harness, &session).await;
    assert_eq!(tale, "busy, on 1, on 2, on 3, stopped Stagnant after 3, idle completed");
}

#[tokio::test(start_paused = true)]
async fn a_session_with_continuation_disabled_is_not_continued() {
    let (mut harness, session) = harness(policy()).await;
    harness.sessions.update(&session.id, switch(false)).await.unwrap();
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    assert_eq!(turn(&mut harness, &session).await, "busy, idle completed");
    harness.sessions.update(&session.id, switch(true)).await.unwrap();
    harness.seen.clear();
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    let tale = turn(&mut harness, &session).await;
    assert_eq!(tale, "busy, on 1, on 2, on 3, stopped Stagnant after 3, idle completed");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_about_another_subject_costs_one_call_although_todos_are_left() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["pending", "pending"]).await });
    let tale = turn(&mut harness, &session).await;
    assert_eq!(tale, "busy, on 1, on 2, on 3, stopped Stagnant after 3, idle completed");
    harness.seen.clear();
    harness.submit(&session, "what time is it?").await;
    harness.until_idle(&session).await;
    assert_eq!(self::tale(&harness, &session).join(", "), "busy, idle completed");
    assert!(toasts(&harness).is_empty(), "the user knows already");
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_for_lack_of_progress_a_turn_continues_once_the_list_has_changed() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["pending", "pending"]).await });
    turn(&mut harness, &session).await;
    harness.seen.clear();
    harness.script(|turn| async move { list(turn, &["pending", "pending"]).await });
    assert_eq!(turn(&mut harness, &session).await, "busy, idle completed", "the same list again");
    harness.seen.clear();
    harness.script(|turn| async move { list(turn, &["completed", "pending"]).await });
    harness.script(|turn| async move { list(turn, &["completed", "completed"]).await });
    assert_eq!(turn(&mut harness, &session).await, "busy, on 1, idle completed");
}

/// A prompt that a plugin sends through its client.
fn by_plugin(text: &str, synthetic: bool) -> PromptInput {
    let text = TextPart { text: text.into(), synthetic: Some(synthetic), ..TextPart::default() };
    let part = PartInput { id: None, body: PartInputBody::Text(text) };
    PromptInput { sender: Sender::Plugin, parts: vec![part], ..PromptInput::text("") }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_wants_to_continue_a_stopped_session_is_held_back() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    turn(&mut harness, &session).await;
    harness.seen.clear();
    let refused = harness.sessions.submit(&session.id, by_plugin("go on with your todos", true)).await;
    assert!(matches!(refused, Err(engine::Error::Held(StopReason::Stagnant))), "{refused:?}");
    harness.drain();
    assert!(tale(&harness, &session).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_prompt_of_a_plugin_belongs_to_the_episode_of_the_user() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    turn(&mut harness, &session).await;
    harness.seen.clear();
    let answer = harness.sessions.prompt(&session.id, by_plugin("a background task has ended", false)).await;
    let Message::Assistant(answer) = answer.unwrap().info else { panic!("not an answer") };
    harness.drain();
    assert_eq!(tale(&harness, &session).join(", "), "busy, idle completed", "no round is given back");
    let prompt = harness.sessions.message(&session.id, &answer.parent_id).await.unwrap();
    assert_eq!(serde_json::to_value(prompt.info).unwrap()["origin"], json!({ "type": "plugin" }));
}

#[tokio::test(start_paused = true)]
async fn the_rounds_of_plugins_and_of_todos_are_counted_together() {
    let (mut harness, session) = harness(ContinuationPolicy { rounds: 3, stagnant: 9, ..policy() }).await;
    harness.submit(&session, "do it").await;
    harness.until_idle(&session).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.sessions.prompt(&session.id, by_plugin("go on", true)).await.unwrap();
    harness.drain();
    let expected = "busy, idle completed, busy, on 2, on 3, stopped Rounds after 3, idle completed";
    assert_eq!(tale(&harness, &session).join(", "), expected);
}

fn switch(on: bool) -> SessionPatch {
    SessionPatch { continuation: Some(on), ..SessionPatch::default() }
}

#[tokio::test(start_paused = true)]
async fn an_episode_has_a_last_round() {
    let (mut harness, session) = harness(ContinuationPolicy { rounds: 2, ..policy() }).await;
    harness.script(|turn| async move { list(turn, &["pending", "pending", "pending", "pending"]).await });
    harness.script(|turn| async move { list(turn, &["completed", "pending", "pending", "pending"]).await });
    harness.script(|turn| async move { list(turn, &["completed", "completed", "pending", "pending"]).await });
    let tale = turn(&mut harness, &session).await;
    assert_eq!(tale, "busy, on 1, on 2, stopped Rounds after 2, idle completed");
}

#[tokio::test(start_paused = true)]
async fn a_blocked_todo_ends_it() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["pending", "pending"]).await });
    harness.script(|turn| async move { list(turn, &["pending", "blocked"]).await });
    assert_eq!(turn(&mut harness, &session).await, "busy, on 1, stopped Blocked after 1, idle completed");
}

#[tokio::test(start_paused = true)]
async fn a_round_without_output_is_the_last() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.script(|_| async { TurnEnd::Completed });
    assert_eq!(turn(&mut harness, &session).await, "busy, on 1, stopped Silent after 1, idle completed");
}

#[tokio::test(start_paused = true)]
async fn an_open_question_holds_the_turn_and_a_rejected_one_ends_it() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move {
        turn.emit(todos(&["pending"])).await;
        let question: Question =
            serde_json::from_value(json!({ "question": "?", "header": "?", "options": [] })).unwrap();
        let ask = Ask::Question { questions: vec![question], call: None };
        step(&turn, "one moment", Finish::ToolCalls).await;
        match turn.ask(ask).await {
            Answer::Rejected { .. } => TurnEnd::Blocked,
            _ => TurnEnd::Completed,
        }
    });
    harness.submit(&session, "do it").await;
    let asked = harness.until(|body| matches!(body, EventBody::QuestionAsked(_))).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    harness.drain();
    assert_eq!(tale(&harness, &session), ["busy"], "it waits and does nothing else");
    let EventBody::QuestionAsked(request) = asked.body else { panic!("not asked") };
    harness.sessions.reject_question(&request.id).await.unwrap();
    harness.until_idle(&session).await;
    assert_eq!(tale(&harness, &session).join(", "), "busy, stopped Refused after 0, idle blocked");
}

#[tokio::test(start_paused = true)]
async fn an_abort_during_a_continuation_holds_until_the_next_prompt() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.script(|turn| async move {
        step(&turn, "half", Finish::ToolCalls).await;
        turn.cancelled().await;
        TurnEnd::Cancelled
    });
    harness.submit(&session, "do it").await;
    harness.until(|body| matches!(body, EventBody::ContinuationStarted(_))).await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.drain();
    assert_eq!(tale(&harness, &session).join(", "), "busy, on 1, stopped Abort after 1, idle aborted");
    let stored = harness.sessions.get(&session.id).await.unwrap().continuation.unwrap();
    assert_eq!(stored.stopped, Some(StopReason::Abort));
    harness.seen.clear();
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.script(|turn| async move { list(turn, &["completed"]).await });
    assert_eq!(turn(&mut harness, &session).await, "busy, on 1, idle completed", "a new episode");
    assert!(harness.sessions.get(&session.id).await.unwrap().continuation.unwrap().stopped.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_countdown_is_announced_before_the_turn_continues() {
    let (mut harness, session) = harness(counting_down()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.script(|turn| async move { list(turn, &["completed"]).await });
    let began = tokio::time::Instant::now();
    assert_eq!(turn(&mut harness, &session).await, "busy, countdown 1, on 1, idle completed");
    assert!(began.elapsed() >= Duration::from_secs(5));
    assert_eq!(toasts(&harness), ["info: 1 todo is still open, continuing in a moment (round 1 of 10)"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_connects_during_a_countdown_receives_it() {
    let (mut harness, session) = harness(counting_down()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.script(|turn| async move { list(turn, &["completed"]).await });
    harness.submit(&session, "do it").await;
    harness.until(|body| matches!(body, EventBody::ContinuationCountdown(_))).await;
    assert_eq!(harness.told("/project", None).await, "BUSY · continuation.countdown");
    assert_eq!(harness.told("/elsewhere", None).await, "");
    harness.until(|body| matches!(body, EventBody::ContinuationStarted(_))).await;
    assert!(!harness.told("/project", None).await.contains("countdown"), "the countdown is over");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_connects_after_a_stopped_countdown_does_not_receive_it() {
    let (mut harness, session) = harness(counting_down()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.submit(&session, "do it").await;
    harness.until(|body| matches!(body, EventBody::ContinuationCountdown(_))).await;
    harness.sessions.abort(&session.id).await.unwrap();
    assert_eq!(harness.told("/project", None).await, "");
}

#[tokio::test(start_paused = true)]
async fn an_abort_during_the_countdown_ends_the_turn_once() {
    let (mut harness, session) = harness(counting_down()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.submit(&session, "do it").await;
    harness.until(|body| matches!(body, EventBody::ContinuationCountdown(_))).await;
    harness.sessions.abort(&session.id).await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    harness.drain();
    assert_eq!(tale(&harness, &session).join(", "), "busy, countdown 1, stopped Abort after 0, idle aborted");
    assert_eq!(toasts(&harness).len(), 1, "who aborts knows why it does not go on");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_during_the_countdown_is_answered_in_its_place() {
    let (mut harness, session) = harness(counting_down()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.script(|turn| async move { list(turn, &["cancelled"]).await });
    harness.submit(&session, "do it").await;
    harness.until(|body| matches!(body, EventBody::ContinuationCountdown(_))).await;
    harness.submit(&session, "never mind").await;
    harness.until_idle(&session).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    harness.drain();
    assert_eq!(
        tale(&harness, &session).join(", "),
        "busy, countdown 1, stopped Prompt after 0, idle completed"
    );
    let ended =
        harness.story(&session.id).into_iter().filter(|word| word == "prompt.ended(completed)").count();
    assert_eq!(ended, 2);
}

#[tokio::test(start_paused = true)]
async fn two_clients_may_stop_a_countdown_and_it_stops_once() {
    let (mut harness, session) = harness(counting_down()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.submit(&session, "do it").await;
    harness.until(|body| matches!(body, EventBody::ContinuationCountdown(_))).await;
    let stop = || harness.sessions.continuation(&session.id, ContinuationAction::Stop);
    let (one, other) = tokio::join!(stop(), stop());
    assert_eq!(one.unwrap().continuation.unwrap().stopped, Some(StopReason::Stop));
    other.unwrap();
    harness.until_idle(&session).await;
    assert_eq!(
        tale(&harness, &session).join(", "),
        "busy, countdown 1, stopped Stop after 0, idle completed"
    );
    let resumed = harness.sessions.continuation(&session.id, ContinuationAction::Resume).await.unwrap();
    assert_eq!(resumed.continuation.unwrap().stopped, None);
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_a_step_lets_the_step_end_and_no_other_follows() {
    let (mut harness, session) = harness(policy()).await;
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    harness.script(|turn| async move {
        turn.emit(todos(&["pending"])).await;
        wait.await.unwrap();
        say(turn, "done").await
    });
    harness.submit(&session, "do it").await;
    harness.until(|body| matches!(body, EventBody::TodoUpdated(_))).await;
    harness.sessions.continuation(&session.id, ContinuationAction::Stop).await.unwrap();
    go.send(()).unwrap();
    harness.until_idle(&session).await;
    assert_eq!(tale(&harness, &session).join(", "), "busy, stopped Stop after 0, idle completed");
}

#[tokio::test(start_paused = true)]
async fn a_restart_gives_no_round_back() {
    // The restarted server's clock begins a day later.
    let time = Duration::from_hours(100);
    let (mut harness, session) =
        harness(ContinuationPolicy { rounds: 3, stagnant: 9, time, ..policy() }).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.script(careful);
    harness.submit(&session, "do it").await;
    harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    let mut harness = harness.crash().await;
    harness.policy(ContinuationPolicy { rounds: 3, stagnant: 9, time, ..policy() });
    harness.sessions.recover().await.unwrap();
    let kept = harness.sessions.get(&session.id).await.unwrap().continuation.unwrap().episode.unwrap();
    assert_eq!(kept.rounds, 2);
    harness.drain();
    harness.seen.clear();
    let waiting = harness.sessions.permissions(None).await.unwrap();
    harness.sessions.reply_permission(&waiting[0].id, PermissionReply::Once, None).await.unwrap();
    harness.until_idle(&session).await;
    assert_eq!(tale(&harness, &session).join(", "), "busy, on 3, stopped Rounds after 3, idle completed");
}

/// Asks for a permission in a tool call, so that the request outlives a crash.
async fn careful(turn: Turn) -> TurnEnd {
    let (call, tool) = ("call_1".to_owned(), "bash".to_owned());
    turn.emit(AgentEvent::ToolRunning {
        call: call.clone(),
        tool,
        input: Extra::new(),
        title: None,
        metadata: None,
    })
    .await;
    let ask = Ask::Permission {
        permission: "bash".into(),
        patterns: vec!["ls".into()],
        metadata: Extra::new(),
        always: Vec::new(),
        call: Some(call),
    };
    turn.ask(ask).await;
    say(turn, "asked").await
}

#[tokio::test(start_paused = true)]
async fn a_summary_in_the_middle_changes_nothing_about_the_count() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.script(|turn| async move {
        let part = CompactionPart { auto: true, overflow: None, tail_start_id: None, extra: Extra::new() };
        turn.emit(AgentEvent::Continued(vec![protocol::PartBody::Compaction(part)])).await;
        let speaker = Speaker {
            agent: "compaction".into(),
            model: ModelRef::new("test", "small"),
            summary: true,
            answers: None,
        };
        turn.emit(AgentEvent::StepStarted { snapshot: None, speaker: Some(speaker) }).await;
        turn.emit(finish(Finish::Stop)).await;
        turn.emit(AgentEvent::Compacted).await;
        let text = TextPart { text: "go on".into(), synthetic: Some(true), ..TextPart::default() };
        turn.emit(AgentEvent::Continued(vec![protocol::PartBody::Text(text)])).await;
        say(turn, "where was I").await
    });
    let tale = turn(&mut harness, &session).await;
    assert_eq!(tale, "busy, on 1, on 2, on 3, stopped Stagnant after 3, idle completed");
}

#[tokio::test(start_paused = true)]
async fn a_requested_summary_is_not_continued() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["blocked"]).await });
    turn(&mut harness, &session).await;
    harness.seen.clear();
    harness.sessions.prompt(&session.id, PromptInput::compaction(false)).await.unwrap();
    harness.drain();
    assert_eq!(tale(&harness, &session).join(", "), "busy, idle completed");
    let stored = harness.sessions.get(&session.id).await.unwrap().continuation.unwrap();
    assert_eq!(stored.stopped, Some(StopReason::Blocked), "a summary does not start an episode");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_is_not_asked_again_and_again() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    harness.always(Arc::new(|_| async { TurnEnd::Error(MessageError::unknown("overloaded")) }.boxed()));
    assert_eq!(turn(&mut harness, &session).await, "busy, on 1, stopped Error after 1, idle error");
}

#[tokio::test(start_paused = true)]
async fn children_are_not_continued() {
    let (mut harness, session) = harness(policy()).await;
    harness.script(|turn| async move {
        let spec = ChildSpec { title: "child".into(), prompt: "go".into(), ..ChildSpec::default() };
        let child = turn.start_child(spec).await.unwrap();
        child.wait().await.unwrap();
        say(turn, "ok").await
    });
    harness.script(|turn| async move { list(turn, &["pending"]).await });
    assert_eq!(turn(&mut harness, &session).await, "busy, idle completed");
    let child = harness.sessions.children(&session.id).await.unwrap().remove(0);
    assert_eq!(tale(&harness, &child).join(", "), "busy, idle completed");
}

/// A plugin that continues every turn, or never answers.
struct InsistentPlugin(bool);

impl Hooks for InsistentPlugin {
    fn wants(&self, point: HookPoint) -> bool {
        point == HookPoint::TurnEnd
    }

    fn call<'a>(&'a self, call: HookCall<'a>) -> Hooked<'a> {
        if self.0 {
            return future::pending().boxed();
        }
        let (ending, next) = call.typed::<Next>().unwrap();
        next.text = Some(format!("again, after {}", ending.continued));
        future::ready(Ok(())).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_continue_a_turn_within_the_same_limits() {
    let (mut harness, session) =
        harness(ContinuationPolicy { todos: false, rounds: 2, ..ContinuationPolicy::default() }).await;
    harness.hook(InsistentPlugin(false));
    assert_eq!(
        turn(&mut harness, &session).await,
        "busy, on 1, on 2, stopped Rounds after 2, idle completed"
    );
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    let told =
        messages.iter().filter(|message| is_continuation(message)).map(|it| it.parts[0].text().unwrap());
    assert_eq!(told.collect::<Vec<_>>(), ["again, after 0", "again, after 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_never_answers_does_not_hold_the_end_of_a_turn() {
    let (mut harness, session) = harness(policy()).await;
    harness.hook(InsistentPlugin(true));
    let began = tokio::time::Instant::now();
    assert_eq!(turn(&mut harness, &session).await, "busy, idle completed");
    assert!(began.elapsed() <= Duration::from_secs(61), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_abort_does_not_wait_for_a_hook_at_the_end_of_a_turn() {
    let (mut harness, session) = harness(policy()).await;
    harness.hook(InsistentPlugin(true));
    harness.submit(&session, "do it").await;
    harness.until(|body| matches!(body, EventBody::MessageUpdated(it) if is_done(&it.info))).await;
    let began = tokio::time::Instant::now();
    harness.sessions.abort(&session.id).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1));
    harness.drain();
    assert_eq!(tale(&harness, &session).join(", "), "busy, idle aborted");
}

fn is_done(message: &Message) -> bool {
    matches!(message, Message::Assistant(answer) if answer.time.completed.is_some())
}
