//! Prompts: accepted, answered in order, never lost, never answered twice.

use std::time::Duration;

use engine::{Error, memory::faults::Fault, ports::Page};
use protocol::{
    EndReason, EventBody, Message, MessageId, SessionStatus, TurnEnd,
    message::Finish,
    prompt::{Delivery, PromptInput},
};
use tokio::sync::oneshot;

use crate::harness::{Harness, say, step};

#[tokio::test(start_paused = true)]
async fn a_simple_turn_has_its_events_in_order() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| say_owned(turn, "hello there"));
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("hi")).await.unwrap();
    assert_eq!(answer.parts[1].text(), Some("hello there"));
    harness.drain();
    insta::assert_snapshot!(harness.story(&session.id).join(" · "), @"session.created · user · text · prompt.queued · session.updated · BUSY · prompt.started · assistant[-] · step-start · text · message.part.delta · message.part.delta · text · step-finish · assistant[finish] · session.updated · assistant[finish,done] · prompt.ended(completed) · IDLE(completed) · session.idle");
    let session = harness.sessions.get(&session.id).await.unwrap();
    assert_eq!(session.cost.map(|cost| cost.0), Some(0.5));
    assert_eq!(session.tokens.unwrap().input, 10);
}

#[tokio::test(start_paused = true)]
async fn an_accepted_prompt_is_never_read_as_idle() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    harness.memory.faults().pass(1); // the prompt
    harness.memory.faults().next(1, Fault::Delay(Duration::from_secs(5)));
    harness.sessions.submit(&session.id, PromptInput::text("hi")).await.unwrap();
    let status = harness.sessions.statuses(None).await.unwrap().remove(&session.id);
    assert_eq!(status, Some(SessionStatus::BUSY), "the turn has not ended");
}

async fn say_owned(turn: engine::session::Turn, text: &'static str) -> TurnEnd {
    say(turn, text).await
}

#[tokio::test(start_paused = true)]
async fn a_prompt_during_the_final_answer_is_answered_next_before_idle() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let (go, wait) = oneshot::channel::<()>();
    harness.script(|turn| async move {
        wait.await.unwrap();
        say(turn, "first").await
    });
    let first = harness.submit(&session, "one").await;
    let second = harness.submit(&session, "two").await;
    let third = harness.submit(&session, "three").await;
    go.send(()).unwrap();
    for submitted in [first.end, second.end, third.end] {
        submitted.unwrap().await.unwrap();
    }
    harness.drain();
    let story = harness.story(&session.id);
    assert_eq!(story.iter().filter(|word| *word == "session.idle").count(), 1, "{story:?}");
    assert_eq!(story.iter().filter(|word| *word == "BUSY").count(), 1, "{story:?}");
    assert_eq!(parents(&harness, &session.id).await, [0, 1, 2], "each was answered on its own, in order");
}

/// The index of the user message that each assistant message answers.
async fn parents(harness: &Harness, id: &protocol::SessionId) -> Vec<usize> {
    let messages = harness.sessions.messages(id, Page::default()).await.unwrap();
    let users: Vec<&MessageId> = messages
        .iter()
        .filter_map(|message| match &message.info {
            Message::User(user) => Some(&user.id),
            Message::Assistant(_) => None,
        })
        .collect();
    messages
        .iter()
        .filter_map(|message| match &message.info {
            Message::Assistant(it) => users.iter().position(|user| **user == it.parent_id),
            Message::User(_) => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_prompt_between_steps_joins_the_next_step_and_a_queued_one_waits() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let (go, wait) = oneshot::channel::<()>();
    harness.script(|turn| async move {
        step(&turn, "looking", Finish::ToolCalls).await;
        wait.await.unwrap();
        let joined = turn.join().await;
        assert_eq!(joined.len(), 1, "the steered prompt joins, the queued one does not");
        let seen = turn.history().await.unwrap();
        let users = seen.iter().filter(|message| matches!(message.info, Message::User(_))).count();
        assert_eq!(users, 2, "what still waits is not in the history yet");
        say(turn, "done").await
    });
    harness.script(|turn| say_owned(turn, "third"));
    let first = harness.submit(&session, "one").await;
    let queued = PromptInput { delivery: Some(Delivery::Queue), ..PromptInput::text("later") };
    let queued = harness.sessions.submit(&session.id, queued).await.unwrap();
    let steered = harness.submit(&session, "now").await;
    go.send(()).unwrap();
    for submitted in [first.end, queued.end, steered.end] {
        submitted.unwrap().await.unwrap();
    }
    assert_eq!(parents(&harness, &session.id).await, [0, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn the_same_message_id_is_accepted_once() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let id: MessageId = "msg_chosen".parse().unwrap();
    let prompt = PromptInput { message_id: Some(id.clone()), ..PromptInput::text("once") };
    let first = harness.sessions.prompt(&session.id, prompt.clone()).await.unwrap();
    let again = harness.sessions.prompt(&session.id, prompt).await.unwrap();
    assert_eq!(first, again);
    harness.drain();
    let story = harness.story(&session.id);
    assert_eq!(story.iter().filter(|word| *word == "user").count(), 1);
    assert_eq!(story.iter().filter(|word| *word == "session.idle").count(), 1);
    let stored = harness.sessions.message(&session.id, &id).await.unwrap();
    assert_eq!(stored.parts.len(), 1, "its part was not added again");
}

#[tokio::test(start_paused = true)]
async fn the_same_message_id_while_it_runs_waits_for_the_same_answer() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let (go, wait) = oneshot::channel::<()>();
    harness.script(|turn| async move {
        wait.await.unwrap();
        say(turn, "slow").await
    });
    let prompt = PromptInput { message_id: Some("msg_same".parse().unwrap()), ..PromptInput::text("x") };
    let first = harness.sessions.submit(&session.id, prompt.clone()).await.unwrap();
    let again = harness.sessions.submit(&session.id, prompt).await.unwrap();
    go.send(()).unwrap();
    assert_eq!(first.end.unwrap().await, again.end.unwrap().await);
}

#[tokio::test(start_paused = true)]
async fn no_reply_stores_the_message_and_runs_nothing() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let prompt = PromptInput { no_reply: Some(true), ..PromptInput::text("note") };
    let stored = harness.sessions.prompt(&session.id, prompt).await.unwrap();
    assert!(matches!(stored.info, Message::User(_)));
    harness.drain();
    assert!(!harness.story(&session.id).contains(&"BUSY".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_agent_is_refused_before_anything_is_stored() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let prompt = PromptInput { agent: Some("nobody".into()), ..PromptInput::text("x") };
    let refused = harness.sessions.submit(&session.id, prompt).await;
    assert!(matches!(refused, Err(Error::Unresolved(_))), "{refused:?}");
    harness.drain();
    assert_eq!(harness.story(&session.id), ["session.created"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_session_is_not_found() {
    let harness = Harness::new().await;
    let id = "ses_nothing".parse().unwrap();
    let refused = harness.sessions.submit(&id, PromptInput::text("x")).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_runner_ends_the_turn_as_an_error_and_nothing_else() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        step(&turn, "before", Finish::ToolCalls).await;
        panic!("planted");
    });
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("boom")).await.unwrap();
    let Message::Assistant(answer) = answer.info else { panic!("an assistant message was expected") };
    assert!(answer.error.unwrap().message().contains("planted"));
    harness.drain();
    let story = harness.story(&session.id).join(" · ");
    assert!(story.ends_with("session.error · prompt.ended(error) · IDLE(error) · session.idle"), "{story}");
    let fine = harness.sessions.prompt(&session.id, PromptInput::text("again")).await.unwrap();
    assert_eq!(fine.parts[1].text(), Some("ok"));
}

#[tokio::test(start_paused = true)]
async fn retry_is_shown_and_left_again() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        use protocol::AgentEvent::{AttemptWithdrawn, Resumed, Retrying, TextDelta, TextStarted};
        turn.emit(protocol::AgentEvent::step_started()).await;
        turn.emit(TextStarted { key: "a".into() }).await;
        turn.emit(TextDelta { key: "a".into(), delta: "half".into() }).await;
        turn.emit(AttemptWithdrawn).await;
        turn.emit(Retrying { attempt: 1, limit: None, message: "rate limit".into(), next: 5 }).await;
        turn.emit(Resumed).await;
        turn.emit(TextStarted { key: "b".into() }).await;
        turn.emit(TextDelta { key: "b".into(), delta: "whole".into() }).await;
        turn.emit(crate::harness::finish(Finish::Stop)).await;
        TurnEnd::Completed
    });
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    let texts: Vec<_> = answer.parts.iter().filter_map(protocol::Part::text).collect();
    assert_eq!(texts, ["whole"], "what the failed attempt said was taken back");
    harness.drain();
    let story = harness.story(&session.id);
    let status: Vec<_> =
        story.iter().filter(|word| word.starts_with(['B', 'R', 'I'])).map(String::as_str).collect();
    assert_eq!(status, ["BUSY", "RETRY1", "BUSY", "IDLE(completed)"]);
    assert!(story.contains(&"message.part.removed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn messages_are_ordered_by_time_even_when_ids_are_not() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    for id in ["msg_zzz", "msg_aaa"] {
        let prompt = PromptInput { message_id: Some(id.parse().unwrap()), ..PromptInput::text(id) };
        harness.sessions.prompt(&session.id, prompt).await.unwrap();
    }
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    let roles: Vec<_> = messages.iter().map(|message| matches!(message.info, Message::User(_))).collect();
    assert_eq!(roles, [true, false, true, false]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_has_no_actor() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    harness.until(|body| matches!(body, EventBody::SessionIdle(_))).await;
    while harness.sessions.stats().live > 0 {
        tokio::task::yield_now().await;
    }
    let stats = harness.sessions.stats();
    assert_eq!((stats.prompts, stats.waiting), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_finished_step_is_published_once() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        let error = protocol::MessageError::unknown("filtered");
        turn.emit(protocol::AgentEvent::step_started()).await;
        let protocol::AgentEvent::StepFinished { reason, tokens, cost, snapshot, patch, .. } =
            crate::harness::finish(Finish::ContentFilter)
        else {
            unreachable!("finish makes a StepFinished")
        };
        let error_told = Some(error.clone());
        turn.emit(protocol::AgentEvent::StepFinished {
            reason,
            tokens,
            cost,
            snapshot,
            patch,
            error: error_told,
        })
        .await;
        TurnEnd::Error(error)
    });
    harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    harness.drain();
    let story = harness.story(&session.id).join(" · ");
    assert!(
        story.ends_with(
            "assistant[finish,done,error] · session.error · prompt.ended(error) · IDLE(error) · session.idle"
        ),
        "{story}"
    );
    assert_eq!(harness.sessions.messages(&session.id, Page::default()).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_cannot_leave_a_part_open() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let mut prompt = PromptInput::text("x");
    let protocol::prompt::PartInputBody::Text(text) = &mut prompt.parts[0].body else {
        panic!("a text part")
    };
    text.time = Some(protocol::part::PartTime::started(1));
    let stored = harness.submit(&session, "first").await;
    let open = harness.sessions.submit(&session.id, prompt).await.unwrap();
    assert!(!open.message.parts[0].is_open());
    let mut part = stored.message.parts[0].clone();
    part.body = protocol::PartBody::Text(protocol::part::TextPart {
        time: Some(protocol::part::PartTime::started(1)),
        ..protocol::part::TextPart::default()
    });
    let refused = harness.sessions.update_part(&session.id, part).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_for_an_unknown_agent_is_refused() {
    let harness = Harness::new().await;
    let home = engine::Home { directory: "/project".into(), project: "global".into(), path: String::new() };
    let input = protocol::prompt::SessionInput { agent: Some("nobody".into()), ..Default::default() };
    let refused = harness.sessions.create(home, input).await;
    assert!(matches!(refused, Err(Error::Unresolved(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_arrives_while_the_history_is_read_is_not_in_it() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    let (reading, read) = oneshot::channel::<()>();
    let memory = harness.memory.clone();
    harness.script(|turn| async move {
        memory.faults().slow_reads(Duration::from_millis(10));
        reading.send(()).unwrap();
        let seen = turn.history().await.unwrap();
        let users = seen.iter().filter(|message| matches!(message.info, Message::User(_))).count();
        assert_eq!(users, 1, "the second prompt has not joined this run");
        say(turn, "done").await
    });
    let first = harness.submit(&session, "one").await;
    read.await.unwrap();
    // The first of the two reads is in progress and is answered only when the clock moves.
    tokio::task::yield_now().await;
    harness.memory.faults().slow_reads(Duration::ZERO);
    let second = harness.submit(&session, "two").await;
    for submitted in [first.end, second.end] {
        assert_eq!(submitted.unwrap().await.unwrap(), EndReason::Completed);
    }
    assert_eq!(parents(&harness, &session.id).await, [0, 1]);
}
