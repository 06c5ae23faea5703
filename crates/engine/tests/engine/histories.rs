//! The history that a run reads, which the engine keeps decoded between steps and turns.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use engine::{
    limits::HISTORY_CACHE_IDLE,
    ports::{Page, Reads as _},
    session::Turn,
};
use futures::FutureExt as _;
use proptest::prelude::*;
use protocol::{
    AgentEvent, Extra, Message, MessageWithParts, Part, PartBody, Session, TurnEnd, message::Finish,
    part::TextPart, prompt::PromptInput,
};
use tokio::time::Instant;

use crate::harness::{Harness, finish, step};

/// A change of a session between two turns, or a way in which its next turn is different.
#[derive(Debug, Clone)]
enum Change {
    None,
    /// Changes the text of a part of this message.
    EditPart(usize),
    RemovePart(usize),
    RemoveMessage(usize),
    /// Reverts everything from this message on; the next prompt makes it final.
    Revert(usize),
    Unrevert,
    /// Continues in a fork of the session.
    Fork,
    Crash,
    /// Waits until decoded messages are dropped.
    Rest,
    /// The store loses the acknowledgement of a commit of the turn, so a repair ends it.
    LoseAcknowledgement,
    /// Other sessions have turns.
    Others(usize),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => Just(Change::None),
        1 => (0..9_usize).prop_map(Change::EditPart),
        1 => (0..9_usize).prop_map(Change::RemovePart),
        1 => (0..9_usize).prop_map(Change::RemoveMessage),
        2 => (0..9_usize).prop_map(Change::Revert),
        1 => Just(Change::Unrevert),
        1 => Just(Change::Fork),
        1 => Just(Change::Crash),
        1 => Just(Change::Rest),
        1 => Just(Change::LoseAcknowledgement),
        1 => (1..4_usize).prop_map(Change::Others),
    ]
}

/// The histories that a run has read, each with the messages that were stored then.
type Histories = Arc<Mutex<Vec<(Vec<MessageWithParts>, Vec<MessageWithParts>)>>>;

async fn tool(turn: &Turn, call: &str) {
    let (call, tool) = (call.to_owned(), "bash".to_owned());
    turn.emit(AgentEvent::ToolPending { call: call.clone(), tool: tool.clone() }).await;
    let input = Extra::from_iter([("command".to_owned(), "ls".into())]);
    turn.emit(AgentEvent::ToolRunning { call: call.clone(), tool, input, title: None, metadata: None }).await;
    let (output, title) = ("a\nb\n".to_owned(), "ls".to_owned());
    let metadata = Extra::from_iter([("exit".to_owned(), 0.into())]);
    turn.emit(AgentEvent::ToolCompleted { call, output, title, metadata, attachments: Vec::new() }).await;
}

async fn compare(turn: &Turn, memory: &engine::memory::Memory, seen: &Histories) {
    let Ok(history) = turn.history().await else { return };
    let stored = memory.messages(&turn.session.id, Page::default()).await.unwrap();
    let history: Vec<_> = history.iter().map(|message| message.as_ref().clone()).collect();
    let mut each = Vec::new();
    turn.each(|message| each.insert(0, message.clone())).await.unwrap();
    seen.lock().unwrap().push((each, history.clone()));
    seen.lock().unwrap().push((history, stored));
}

/// Lets every run read its history before and between its steps.
fn watch(harness: &Harness) -> Histories {
    let seen = Histories::default();
    let (memory, kept) = (harness.memory.clone(), Arc::clone(&seen));
    harness.always(Arc::new(move |turn| {
        let (memory, seen) = (memory.clone(), Arc::clone(&kept));
        async move {
            compare(&turn, &memory, &seen).await;
            turn.emit(AgentEvent::step_started()).await;
            tool(&turn, "call_1").await;
            compare(&turn, &memory, &seen).await;
            turn.emit(finish(Finish::ToolCalls)).await;
            compare(&turn, &memory, &seen).await;
            step(&turn, "a text", Finish::Stop).await;
            compare(&turn, &memory, &seen).await;
            TurnEnd::Completed
        }
        .boxed()
    }));
    seen
}

async fn apply(mut harness: Harness, session: &mut Session, seen: &mut Histories, change: Change) -> Harness {
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    let at = |index: usize| messages.get(index % messages.len().max(1));
    match change {
        Change::None => {}
        Change::EditPart(index) => {
            if let Some(part) = at(index).and_then(|message| message.parts.first()) {
                let text = TextPart { text: "edited".to_owned(), ..TextPart::default() };
                let part = Part { body: PartBody::Text(text), ..part.clone() };
                harness.sessions.update_part(&session.id, part).await.unwrap();
            }
        }
        Change::RemovePart(index) => {
            if let Some(part) = at(index).and_then(|message| message.parts.last()) {
                harness.sessions.delete_part(&session.id, &part.message_id, &part.id).await.unwrap();
            }
        }
        Change::RemoveMessage(index) => {
            if let Some(message) = at(index) {
                harness.sessions.delete_message(&session.id, message.info.id()).await.unwrap();
            }
        }
        Change::Revert(index) => {
            let prompt = messages.iter().skip(index).find(|it| matches!(it.info, Message::User(_)));
            if let Some(prompt) = prompt {
                harness.sessions.revert(&session.id, prompt.info.id().clone(), None).await.unwrap();
            }
        }
        Change::Unrevert => drop(harness.sessions.unrevert(&session.id).await),
        Change::Fork => *session = harness.sessions.fork(&session.id, None).await.unwrap(),
        Change::Crash => {
            harness = harness.crash().await;
            *seen = watch(&harness);
        }
        Change::Rest => tokio::time::sleep(HISTORY_CACHE_IDLE * 2).await,
        Change::LoseAcknowledgement => {
            harness.memory.faults().pass(2);
            harness.memory.faults().next(1, engine::memory::Fault::LoseAcknowledgement);
        }
        Change::Others(count) => {
            for _ in 0..count {
                let other = harness.session().await;
                harness.sessions.prompt(&other.id, PromptInput::text("go")).await.unwrap();
            }
        }
    }
    harness
}

async fn run(changes: Vec<Change>) {
    let mut harness = Harness::new().await;
    let mut session = harness.session().await;
    let mut seen = watch(&harness);
    for change in changes {
        harness = apply(harness, &mut session, &mut seen, change.clone()).await;
        // Fails if the store loses an acknowledgement.
        let _ = harness.sessions.prompt(&session.id, PromptInput::text("go")).await;
        harness.memory.faults().clear();
        harness.sessions.wait(&session.id).await.unwrap();
        for (history, stored) in std::mem::take(&mut *seen.lock().unwrap()) {
            assert_eq!(history, stored, "after {change:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_history_is_what_is_stored(changes in prop::collection::vec(change(), 1..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(changes));
    }
}

/// Runs a turn in which every read of the store takes a second, and returns the time that its histories took.
async fn reading(harness: &Harness, session: &Session) -> Duration {
    let spent = Arc::new(Mutex::new(Duration::ZERO));
    let times = Arc::clone(&spent);
    harness.script(move |turn| async move {
        for _ in 0..3 {
            let begun = Instant::now();
            turn.history().await.unwrap();
            *times.lock().unwrap() += begun.elapsed();
            step(&turn, "a text", Finish::ToolCalls).await;
        }
        TurnEnd::Completed
    });
    harness.memory.faults().slow_reads(Duration::from_secs(1));
    harness.sessions.prompt(&session.id, PromptInput::text("go")).await.unwrap();
    harness.memory.faults().slow_reads(Duration::ZERO);
    *spent.lock().unwrap()
}

#[tokio::test(start_paused = true)]
async fn steps_and_turns_of_a_session_read_its_history_once() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    assert_eq!(reading(&harness, &session).await, Duration::ZERO, "a new session has no history");
    assert_eq!(reading(&harness, &session).await, Duration::ZERO);
    let harness = harness.crash().await;
    assert!(reading(&harness, &session).await > Duration::ZERO, "nothing is known after a start");
    assert_eq!(reading(&harness, &session).await, Duration::ZERO);
    tokio::time::sleep(HISTORY_CACHE_IDLE * 2).await;
    assert!(reading(&harness, &session).await > Duration::ZERO, "an unused history is dropped");
}
