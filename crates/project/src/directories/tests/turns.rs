//! Turns of the engine on a project, with sessions in memory.

use std::sync::Arc;

use engine::{
    Home, Parts, Sessions, StreamItem,
    bus::Scope,
    limits::Limits,
    memory::Memory,
    ports::{NoUndo, SystemClock, SystemRandom},
};
use protocol::{
    Event, EventBody, Message, Session,
    prompt::{PromptInput, SessionInput},
};
use serde_json::json;

use super::harness::{CONFIG, Harness, write};

fn sessions(harness: &Harness) -> Sessions {
    let memory = Arc::new(Memory::new(harness.bus.clone()));
    Sessions::new(Parts {
        log: memory.clone(),
        reads: memory,
        runners: harness.directories.clone(),
        undo: Arc::new(NoUndo),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        bus: harness.bus.clone(),
        limits: Limits::default(),
        version: "0.0.0".into(),
    })
}

async fn session(sessions: &Sessions, directory: &str) -> Session {
    let home = Home { directory: directory.to_owned(), project: "global".into(), path: String::new() };
    sessions.create(home, SessionInput::default()).await.unwrap()
}

#[tokio::test]
async fn a_changed_configuration_counts_from_the_next_prompt_on() {
    let harness = Harness::new();
    let directory = harness.project("p", &json!({ "default_agent": "build" }));
    let sessions = sessions(&harness);
    let session = session(&sessions, &directory).await;
    let answering = async || {
        let answer = sessions.prompt(&session.id, PromptInput::text("hi")).await.unwrap();
        let Message::Assistant(info) = answer.info else { panic!("{answer:?}") };
        info.agent
    };
    assert_eq!(answering().await, "build");
    write(&directory, CONFIG, r#"{ "default_agent": "poet", "agent": { "poet": { "prompt": "Rhyme." } } }"#);
    assert_eq!(answering().await, "poet");
    sessions.shutdown().await;
}

#[tokio::test]
async fn a_turn_holds_a_lease_until_it_has_ended() {
    let harness = Harness::new();
    let directory = harness.project("p", &json!({ "model": "demo/stall" }));
    let sessions = sessions(&harness);
    let session = session(&sessions, &directory).await;
    let mut events = sessions.subscribe(Scope::default(), None).await.unwrap();
    let mut until = async |fits: fn(&EventBody) -> bool| loop {
        let StreamItem::Frames(frames) = events.next().await.unwrap() else { panic!("the stream ended") };
        let mut seen = frames.iter().map(|frame| serde_json::from_slice::<Event>(frame.json()).unwrap());
        if seen.any(|event| fits(&event.body)) {
            return;
        }
    };
    let is_busy = || harness.directories.entry(&directory).is_busy();

    sessions.submit(&session.id, PromptInput::text("go")).await.unwrap();
    until(|body| matches!(body, EventBody::PartDelta(_))).await;
    assert!(is_busy());
    sessions.abort(&session.id).await.unwrap();
    until(|body| matches!(body, EventBody::SessionIdle(_))).await;
    sessions.shutdown().await;
    assert!(!is_busy());
}
