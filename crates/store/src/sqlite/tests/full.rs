//! The engine on a database without free space: `max_page_count` causes the same error as a full disk,
//! `SQLITE_FULL`.

use std::{future::Future, pin::Pin, time::Duration};

use engine::{
    Error, Home, Parts, Sessions, StreamItem,
    bus::{Bus, Scope},
    limits::Limits,
    ports::{NoUndo, Resolved, Runner, Runners, SystemRandom, Unresolved, Wanted},
    session::Turn,
};
use protocol::{
    AgentEvent, Event, EventBody, TurnEnd,
    message::ModelRef,
    prompt::{Delivery, PromptInput, SessionInput},
};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::*;

/// Far more than any test needs; one that waits this long has failed.
const PATIENCE: Duration = Duration::from_mins(2);

/// A runner that begins a message, waits for a permit, and then emits a megabyte.
struct Talker(Arc<Semaphore>);

impl Runner for Talker {
    fn run(&self, turn: Turn) -> Pin<Box<dyn Future<Output = TurnEnd> + Send>> {
        let leave = Arc::clone(&self.0);
        Box::pin(async move {
            turn.emit(AgentEvent::step_started()).await;
            leave.acquire().await.unwrap().forget();
            turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
            let delta = "0123456789".repeat(100_000);
            turn.emit(AgentEvent::TextDelta { key: "0".into(), delta }).await;
            turn.emit(AgentEvent::TextEnded { key: "0".into() }).await;
            TurnEnd::Completed
        })
    }
}

struct OneRunner(Arc<Talker>);

impl Runners for OneRunner {
    fn resolve<'a>(
        &'a self,
        _: Wanted<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Resolved, Unresolved>> + Send + 'a>> {
        Box::pin(async move { Ok(Resolved::new("build", ModelRef::new("test", "model"), self.0.clone())) })
    }
}

struct Harness {
    store: Arc<Sqlite>,
    sessions: Sessions,
    leave: Arc<Semaphore>,
}

fn harness(place: &TestDatabase) -> Harness {
    let (bus, leave) = (Arc::new(Bus::default()), Arc::new(Semaphore::new(0)));
    let store = place.open_with(bus.clone());
    let sessions = Sessions::new(Parts {
        log: store.clone(),
        reads: store.clone(),
        runners: Arc::new(OneRunner(Arc::new(Talker(Arc::clone(&leave))))),
        undo: Arc::new(NoUndo),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        bus,
        limits: Limits { store_retry: Duration::from_millis(5), ..Limits::default() },
        version: "0.0.0".into(),
    });
    Harness { store, sessions, leave }
}

/// Keeps the database from growing any more.
async fn fill(store: &Sqlite, place: &TestDatabase) {
    let pages: u32 = {
        let connection = Connection::open(place.path()).unwrap();
        connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap()
    };
    store.ask(|reply| Work::LimitPages { pages, reply }).await.unwrap();
}

async fn empty(store: &Sqlite) {
    store.ask(|reply| Work::LimitPages { pages: 1_000_000, reply }).await.unwrap();
}

/// Reads events until one matches; returns all that were read.
async fn until(stream: &mut engine::Stream, fits: impl Fn(&EventBody) -> bool) -> Vec<EventBody> {
    let mut seen = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, stream.next()).await.expect("nothing happens any more");
        let StreamItem::Frames(frames) = next.unwrap() else { panic!("the stream ended") };
        for frame in frames {
            seen.push(serde_json::from_slice::<Event>(frame.json()).unwrap().body);
        }
        if seen.iter().any(&fits) {
            return seen;
        }
    }
}

#[tokio::test]
async fn sessions_on_a_full_disk_are_repaired_when_there_is_space() {
    let place = TestDatabase::new();
    let Harness { store, sessions, leave } = harness(&place);
    let home = Home { directory: "/project".into(), project: "global".into(), path: String::new() };
    let id = sessions.create(home, SessionInput::default()).await.unwrap().id;
    let mut stream = sessions.subscribe(Scope::default(), Some(0)).await.unwrap();
    let queued = |text: &str| PromptInput { delivery: Some(Delivery::Queue), ..PromptInput::text(text) };
    sessions.submit(&id, queued("one")).await.unwrap();
    sessions.submit(&id, queued("two")).await.unwrap();
    let mut seen = until(&mut stream, |body| matches!(body, EventBody::PromptStarted(_))).await;

    fill(&store, &place).await;
    leave.add_permits(1);
    seen.extend(until(&mut stream, |body| matches!(body, EventBody::SessionError(_))).await);
    let refused = sessions.submit(&id, PromptInput::text("x".repeat(1_000_000))).await;
    assert!(
        matches!(&refused, Err(Error::Store(error)) if error.failure == StoreFailure::Full),
        "{:?}",
        refused.err()
    );

    empty(&store).await;
    leave.add_permits(10);
    let ends = |seen: &[EventBody]| seen.iter().filter(|it| matches!(it, EventBody::PromptEnded(_))).count();
    while ends(&seen) < 2 {
        seen.extend(until(&mut stream, |body| matches!(body, EventBody::PromptEnded(_))).await);
    }
    if !matches!(seen.last(), Some(EventBody::SessionIdle(_))) {
        seen.extend(until(&mut stream, |body| matches!(body, EventBody::SessionIdle(_))).await);
    }
    sessions.wait(&id).await.unwrap();
    let mut busy = false;
    for body in &seen {
        if let EventBody::SessionStatus(it) = body {
            assert_ne!(busy, !it.status.is_idle(), "busy and idle alternate");
            busy = !it.status.is_idle();
        }
    }
    assert!(!busy, "the stream says idle");
    assert!(sessions.statuses(None).await.unwrap().is_empty(), "and so does the status");
    assert_eq!((ends(&seen), sessions.stats().unfinished), (2, 0));
}
