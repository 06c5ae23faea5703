//! Checks that any sequence of reports gives a well-formed transcript that leaves nothing open.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use proptest::prelude::*;
use protocol::{
    AgentEvent, EndReason, EventBody, Extra, Message, MessageId, Millis, Part, PartBody, PartId, Session,
    ToolState,
    agent_event::Speaker,
    message::{Finish, ModelRef},
    number::Number,
    part::TextPart,
    session::Tokens,
};

use super::Transcript;
use crate::{
    mint::Mint,
    ports::{Clock, Random},
};

struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Millis {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

struct Zero;

impl Random for Zero {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn mint() -> Mint {
    Mint::new(Arc::new(Ticking(AtomicI64::new(1_794_724_000_000))), Arc::new(Zero))
}

fn session(mint: &Mint) -> Session {
    serde_json::from_value(serde_json::json!({
        "id": mint.id::<protocol::SessionId>(), "slug": "tidy-comet", "projectID": "global",
        "directory": "/project/crates/one", "path": "crates/one", "title": "t", "version": "0",
        "time": { "created": 1, "updated": 1 },
    }))
    .unwrap()
}

/// A client's state after applying events.
#[derive(Default)]
struct Replica {
    messages: BTreeMap<MessageId, Message>,
    parts: BTreeMap<PartId, Part>,
    text: BTreeMap<PartId, String>,
}

impl Replica {
    fn apply(&mut self, events: Vec<EventBody>) -> Result<(), String> {
        for event in events {
            match event {
                EventBody::MessageUpdated(it) => {
                    self.messages.insert(it.info.id().clone(), it.info);
                }
                EventBody::PartUpdated(it) => self.part(&it.part)?,
                EventBody::PartDelta(it) => {
                    let known = self.parts.get(&it.part_id).is_some_and(Part::is_open);
                    if !known {
                        return Err(format!("a delta for {}, which is not open", it.part_id));
                    }
                    let text = self.text.entry(it.part_id).or_default();
                    if it.offset != Some(text.encode_utf16().count() as u64) {
                        return Err(format!("a delta at {:?} after {text:?}", it.offset));
                    }
                    text.push_str(&it.delta);
                }
                EventBody::PartRemoved(it) => {
                    self.parts.remove(&it.part_id).ok_or("an unknown part was removed")?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn part(&mut self, part: &Part) -> Result<(), String> {
        if !self.messages.contains_key(&part.message_id) {
            return Err("a part came before its message".into());
        }
        let newest = self.parts.keys().next_back().cloned();
        let before = self.parts.insert(part.id.clone(), part.clone());
        match before {
            Some(before) if !before.is_open() && !only_adds_snapshot(&before, part) => {
                return Err(format!("{} changed after it was closed", part.id));
            }
            None if newest.is_some_and(|newest| newest > part.id) => {
                return Err("part ids are not in order".into());
            }
            _ => {}
        }
        if !part.is_open()
            && let (Some(streamed), Some(text)) = (self.text.get(&part.id), part.text())
            && streamed != text
        {
            return Err(format!("streamed {streamed:?}, stored {text:?}"));
        }
        Ok(())
    }

    fn is_closed(&self) -> bool {
        let closed = |message: &Message| match message {
            Message::Assistant(message) => message.time.completed.is_some(),
            Message::User(_) => true,
        };
        self.messages.values().all(closed) && !self.parts.values().any(Part::is_open)
    }
}

/// The one change of a part that is not open.
fn only_adds_snapshot(before: &Part, after: &Part) -> bool {
    match (&before.body, &after.body) {
        (PartBody::StepStart(before), PartBody::StepStart(after)) => {
            before.snapshot.is_none() && after.snapshot.is_some()
        }
        _ => false,
    }
}

fn report() -> impl Strategy<Value = AgentEvent> {
    let key = prop_oneof![Just("a".to_owned()), Just("b".to_owned())];
    let call = prop_oneof![Just("x".to_owned()), Just("y".to_owned())];
    let words = prop_oneof![Just("one ".to_owned()), Just("🙂é ".to_owned())];
    prop_oneof![
        2 => Just(AgentEvent::step_started()),
        3 => key.clone().prop_map(|key| AgentEvent::TextStarted { key }),
        6 => (key.clone(), words.clone()).prop_map(|(key, delta)| AgentEvent::TextDelta { key, delta }),
        3 => key.clone().prop_map(|key| AgentEvent::TextEnded { key }),
        2 => key.clone().prop_map(|key| AgentEvent::ReasoningStarted { key }),
        3 => (key.clone(), words).prop_map(|(key, delta)| AgentEvent::ReasoningDelta { key, delta }),
        2 => key.prop_map(|key| AgentEvent::ReasoningEnded { key, metadata: None }),
        2 => call.clone().prop_map(|call| AgentEvent::ToolPending { call, tool: "read".into() }),
        3 => call.clone().prop_map(|call| AgentEvent::ToolRunning {
            call, tool: "read".into(), input: Extra::new(), title: None, metadata: None,
        }),
        2 => call.clone().prop_map(|call| AgentEvent::ToolCompleted {
            call, output: "o".into(), title: "t".into(), metadata: Extra::new(), attachments: Vec::new(),
        }),
        2 => call.prop_map(|call| AgentEvent::ToolFailed { call, error: "e".into(), metadata: None }),
        2 => Just(finished()),
        1 => Just(AgentEvent::AttemptWithdrawn),
        1 => Just(AgentEvent::Titled("better".into())),
        1 => Just(AgentEvent::Spent { tokens: Tokens::default(), cost: Number(0.1) }),
        1 => Just(AgentEvent::Continued(vec![PartBody::Text(TextPart { text: "go on".into(), ..TextPart::default() })])),
        1 => Just(AgentEvent::Structured(serde_json::json!({ "answer": 1 }))),
        1 => Just(AgentEvent::Compacted),
        1 => Just(AgentEvent::StepStarted { snapshot: None, speaker: Some(summariser()) }),
    ]
}

fn summariser() -> Speaker {
    Speaker { agent: "compaction".into(), model: ModelRef::new("p", "small"), summary: true, answers: None }
}

fn finished() -> AgentEvent {
    AgentEvent::StepFinished {
        reason: Finish::Stop,
        tokens: Tokens { input: 1, ..Tokens::default() },
        cost: Number(0.25),
        snapshot: None,
        patch: None,
        error: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn any_reports_make_a_well_formed_transcript_that_closes(
        reports in proptest::collection::vec(report(), 0..60),
        reason in proptest::sample::select(&EndReason::ALL[..]),
    ) {
        let mint = mint();
        let mut session = session(&mint);
        let mut transcript =
            Transcript::new(&session, "build".into(), ModelRef::new("p", "m"), mint.id(), 0);
        let mut replica = Replica::default();
        let steps = reports.iter().filter(|report| matches!(report, AgentEvent::StepFinished { .. })).count();
        for report in reports {
            let applied = replica.apply(transcript.apply(report, &mut session, &mint));
            prop_assert!(applied.is_ok(), "{:?}", applied);
        }
        let closed = replica.apply(transcript.close(reason, None, &session, &mint));
        prop_assert!(closed.is_ok(), "{:?}", closed);
        prop_assert!(replica.is_closed());
        let answers: Vec<&MessageId> = replica.messages.values().filter_map(|message| match message {
            Message::Assistant(answer) => Some(&answer.parent_id),
            Message::User(_) => None,
        }).collect();
        prop_assert!(!answers.is_empty(), "a prompt that was taken up has an answer");
        let newest = replica.messages.values().filter(|message| matches!(message, Message::User(_)))
            .max_by_key(|message| message.order());
        prop_assert!(newest.is_none_or(|newest| answers.contains(&newest.id())), "and so has what continues it");
        let finished = replica.parts.values().filter(|part| matches!(part.body, PartBody::StepFinish(_))).count();
        prop_assert_eq!(finished, steps);
        prop_assert_eq!(session.tokens.map_or(0, |tokens| tokens.input), steps as u64);
    }
}

#[test]
fn an_assistant_message_has_its_directory_and_root() {
    let mint = mint();
    let mut session = session(&mint);
    let mut transcript = Transcript::new(&session, "build".into(), ModelRef::new("p", "m"), mint.id(), 0);
    let events = transcript.apply(AgentEvent::step_started(), &mut session, &mint);
    let EventBody::MessageUpdated(it) = &events[0] else { panic!("{events:?}") };
    let Message::Assistant(message) = &it.info else { panic!("{it:?}") };
    assert_eq!((message.path.cwd.as_str(), message.path.root.as_str()), ("/project/crates/one", "/project"));
}

#[test]
fn a_snapshot_taken_later_completes_the_part_that_the_step_began_with() {
    let mint = mint();
    let mut session = session(&mint);
    let mut transcript = Transcript::new(&session, "build".into(), ModelRef::new("p", "m"), mint.id(), 0);
    let taken = || AgentEvent::SnapshotTaken { snapshot: "a1".into() };
    assert!(transcript.apply(taken(), &mut session, &mint).is_empty(), "it opens no step");
    let started = transcript.apply(AgentEvent::step_started(), &mut session, &mint);
    let completed = transcript.apply(taken(), &mut session, &mint);
    let (Some(EventBody::PartUpdated(start)), [EventBody::PartUpdated(same)]) =
        (started.last(), &completed[..])
    else {
        panic!("{started:?} {completed:?}")
    };
    assert_eq!(start.part.id, same.part.id);
    assert!(only_adds_snapshot(&start.part, &same.part));
    transcript.apply(finished(), &mut session, &mint);
    assert!(transcript.apply(taken(), &mut session, &mint).is_empty());
}

#[test]
fn message_times_increase_even_if_the_clock_goes_back() {
    let mint = mint();
    let mut session = session(&mint);
    let future = 9_999_999_999_999;
    let mut transcript =
        Transcript::new(&session, "build".into(), ModelRef::new("p", "m"), mint.id(), future);
    transcript.apply(AgentEvent::step_started(), &mut session, &mint);
    assert_eq!(transcript.latest(), future + 1);
}

#[test]
fn a_message_names_its_speaker_and_marks_a_summary() {
    let mint = mint();
    let mut session = session(&mint);
    let mut transcript = Transcript::new(&session, "build".into(), ModelRef::new("p", "m"), mint.id(), 0);
    let started = AgentEvent::StepStarted { snapshot: None, speaker: Some(summariser()) };
    let events = transcript.apply(started, &mut session, &mint);
    let EventBody::MessageUpdated(it) = &events[0] else { panic!("{events:?}") };
    let Message::Assistant(message) = &it.info else { panic!("{it:?}") };
    assert_eq!((message.agent.as_str(), message.mode.as_str()), ("compaction", "compaction"));
    assert_eq!((message.model_id.as_str(), message.summary), ("small", Some(true)));
}

#[test]
fn a_running_call_has_a_title_made_from_its_input() {
    let mint = mint();
    let mut session = session(&mint);
    let mut transcript = Transcript::new(&session, "build".into(), ModelRef::new("p", "m"), mint.id(), 0);
    let mut title = |tool: &str, own: Option<&str>| {
        let input = serde_json::from_value(serde_json::json!({ "filePath": "/project/README.md" })).unwrap();
        let (call, tool, title) = (tool.to_owned(), tool.to_owned(), own.map(str::to_owned));
        let running = AgentEvent::ToolRunning { call, tool, input, title, metadata: None };
        let events = transcript.apply(running, &mut session, &mint);
        let Some(EventBody::PartUpdated(it)) = events.last() else { panic!("{events:?}") };
        let PartBody::Tool(tool) = &it.part.body else { panic!("{it:?}") };
        let ToolState::Running(running) = &tool.state else { panic!("{tool:?}") };
        running.title.clone()
    };
    assert_eq!(title("read", None).as_deref(), Some("Reading README.md"));
    assert_eq!(title("edit", Some("README.md")).as_deref(), Some("Editing README.md"));
    assert_eq!(title("acme_deploy", Some("Deploying")).as_deref(), Some("Deploying"));
    assert_eq!(title("acme_other", None), None);
}

#[test]
fn a_title_set_by_the_user_meanwhile_stays() {
    let mint = mint();
    let mut session = session(&mint);
    let mut transcript = Transcript::new(&session, "build".into(), ModelRef::new("p", "m"), mint.id(), 0);
    transcript.apply(AgentEvent::Titled("the model's".into()), &mut session, &mint);
    transcript.apply(AgentEvent::Titled("the model's second".into()), &mut session, &mint);
    assert_eq!(session.title, "the model's second");
    session.title = "mine".into();
    assert!(transcript.apply(AgentEvent::Titled("late".into()), &mut session, &mint).is_empty());
    assert_eq!(session.title, "mine");
}

#[test]
fn parts_of_the_open_step_and_of_other_sessions_are_not_revised() {
    let mint = mint();
    let mut session = session(&mint);
    let mut transcript = Transcript::new(&session, "build".into(), ModelRef::new("p", "m"), mint.id(), 0);
    transcript.apply(AgentEvent::step_started(), &mut session, &mint);
    let part = |session: &Session, message_id: MessageId| {
        let body = PartBody::Text(TextPart::default());
        AgentEvent::Revised(Box::new(Part {
            id: mint.id(),
            session_id: session.id.clone(),
            message_id,
            body,
        }))
    };
    let open = transcript.message_id().unwrap().clone();
    assert!(transcript.apply(part(&session, open), &mut session, &mint).is_empty());
    let other = Session { id: mint.id(), ..session.clone() };
    assert!(transcript.apply(part(&other, mint.id()), &mut session, &mint).is_empty());
    assert_eq!(transcript.apply(part(&session.clone(), mint.id()), &mut session, &mint).len(), 1);
}
