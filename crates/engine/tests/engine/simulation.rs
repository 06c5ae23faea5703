//! A seeded simulation: many sessions, runners that do anything, a plugin that continues turns, a log that fails, a
//! process that dies.
//!
//! The rules are checked on the log afterwards, as a client with a cursor would read it. A failing seed is printed;
//! seeds are plain numbers in the range below.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use engine::{
    Error, StreamItem,
    bus::Scope,
    lifecycle::continuation::ContinuationPolicy,
    limits::MAX_REPAIR_PAUSE,
    memory::faults::Fault,
    ports::{
        ChildSpec, StoreFailure,
        hooks::{HookCall, HookPoint, Hooked, Hooks, Next},
    },
    session::Turn,
};
use futures::FutureExt;
use protocol::{
    AgentEvent, EndReason, Event, EventBody, Extra, Message, MessageError, MessageId, Session, SessionId,
    SessionStatus, Todo, TurnEnd,
    agent_event::Ask,
    continuation::{ContinuationAction, Source},
    message::Finish,
    part::TextPart,
    prompt::{Delivery, PartInput, PartInputBody, PromptInput, Sender},
    queue::QueuePatch,
    request::PermissionReply,
};
use serde_json::json;

use crate::harness::{Harness, step};

const SEEDS: std::ops::Range<u64> = 0..150;
const ACTIONS: usize = 60;
/// Maximum number of continuations of an episode.
const ROUNDS: u32 = 3;

/// A small pseudo-random generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// One run of an agent that may do anything a runner can do.
async fn anything(turn: Turn, seed: u64) -> TurnEnd {
    let mut dice = Dice(seed);
    for _ in 0..=dice.roll(3) {
        match dice.roll(11) {
            0 => {
                turn.emit(AgentEvent::step_started()).await;
                turn.emit(AgentEvent::TextStarted { key: "half".into() }).await;
                turn.emit(AgentEvent::TextDelta { key: "half".into(), delta: "half ".into() }).await;
                return TurnEnd::Error(MessageError::unknown("planned"));
            }
            1 => panic!("planned"),
            2 => {
                let (call, tool) = ("t".to_owned(), "bash".to_owned());
                turn.emit(AgentEvent::ToolRunning {
                    call,
                    tool,
                    input: Extra::new(),
                    title: None,
                    metadata: None,
                })
                .await;
                turn.cancelled().await;
                return TurnEnd::Cancelled;
            }
            3 => {
                turn.emit(AgentEvent::Retrying { attempt: 1, limit: None, message: "wait".into(), next: 0 })
                    .await;
                tokio::time::sleep(Duration::from_millis(dice.roll(2_000))).await;
                turn.emit(AgentEvent::Resumed).await;
            }
            4 => {
                let (permission, patterns) = ("edit".to_owned(), vec!["*".to_owned()]);
                let ask = Ask::Permission {
                    permission,
                    patterns,
                    metadata: Extra::new(),
                    always: Vec::new(),
                    call: None,
                };
                if turn.ask(ask).await == protocol::agent_event::Answer::Withdrawn {
                    return TurnEnd::Blocked;
                }
            }
            5 if turn.session.parent_id.is_none() => {
                let spec = ChildSpec { title: "child".into(), prompt: "go".into(), ..ChildSpec::default() };
                if let Ok(child) = turn.start_child(spec).await
                    && dice.roll(3) > 0
                {
                    child.wait().await;
                }
            }
            6 => {
                turn.join().await;
            }
            7 | 8 => turn.emit(AgentEvent::Todos(todos(&mut dice))).await,
            _ => {
                tokio::time::sleep(Duration::from_millis(dice.roll(300))).await;
                step(&turn, "one two three", Finish::ToolCalls).await;
            }
        }
    }
    step(&turn, "that is all", Finish::Stop).await;
    TurnEnd::Completed
}

/// A todo list that is rarely finished.
fn todos(dice: &mut Dice) -> Vec<Todo> {
    let statuses = ["pending", "in_progress", "completed", "blocked", "pending"];
    let one = |_| {
        let status = statuses[usize::try_from(dice.roll(5)).unwrap()];
        serde_json::from_value(json!({ "content": "x", "status": status, "priority": "low" })).unwrap()
    };
    (0..3).map(one).collect()
}

/// A plugin that sometimes continues a turn, after a delay.
struct RandomPlugin(AtomicU64);

impl Hooks for RandomPlugin {
    fn wants(&self, point: HookPoint) -> bool {
        point == HookPoint::TurnEnd
    }

    fn call<'a>(&'a self, call: HookCall<'a>) -> Hooked<'a> {
        let mut dice = Dice(self.0.fetch_add(1, Ordering::Relaxed));
        async move {
            tokio::time::sleep(Duration::from_millis(dice.roll(500))).await;
            let (_, next) = call.typed::<Next>().unwrap();
            next.text = (dice.roll(2) == 0).then(|| "and now the rest".to_owned());
            Ok(())
        }
        .boxed()
    }
}

fn busy_agents(harness: &Harness, seed: u64) {
    let countdown = Duration::from_millis(seed % 3 * 200);
    harness.policy(ContinuationPolicy {
        todos: true,
        rounds: ROUNDS,
        countdown,
        ..ContinuationPolicy::default()
    });
    harness.hook(RandomPlugin(AtomicU64::new(seed << 30)));
    let runs = Arc::new(AtomicU64::new(seed << 20));
    harness.always(Arc::new(move |turn| anything(turn, runs.fetch_add(1, Ordering::Relaxed)).boxed()));
}

/// Plays one seed. Returns the source of each continuation, or the rule that the log breaks.
async fn play(seed: u64) -> Result<Vec<Source>, String> {
    let mut dice = Dice(seed);
    // Odd seeds run one process to the end, followed by a client; even ones crash now and then.
    let crashes = seed.is_multiple_of(2);
    let mut harness = Harness::new().await;
    busy_agents(&harness, seed);
    let mut sessions: Vec<Session> = Vec::new();
    for _ in 0..3 {
        sessions.push(harness.session().await);
    }
    let mut accepted: BTreeSet<MessageId> = BTreeSet::new();
    for _ in 0..ACTIONS {
        let session = &sessions[usize::try_from(dice.roll(3)).unwrap()];
        match dice.roll(16) {
            0..=5 => {
                let delivery = if dice.roll(2) == 0 { Delivery::Steer } else { Delivery::Queue };
                let prompt = PromptInput { delivery: Some(delivery), ..prompt(&mut dice) };
                if let Ok(submitted) = harness.sessions.submit(&session.id, prompt).await {
                    accepted.insert(submitted.message.info.id().clone());
                }
            }
            // Only a store that cannot write may fail an abort.
            6 | 7 => match harness.sessions.abort(&session.id).await {
                Ok(()) | Err(Error::Store(_)) => {}
                Err(error) => return Err(error.to_string()),
            },
            8 => {
                for request in harness.sessions.permissions(None).await.unwrap() {
                    let _ = harness.sessions.reply_permission(&request.id, PermissionReply::Once, None).await;
                }
            }
            9 => {
                let fault = match dice.roll(3) {
                    0 => Fault::Refuse(StoreFailure::Full),
                    1 => Fault::Refuse(StoreFailure::Unavailable),
                    _ => Fault::LoseAcknowledgement,
                };
                harness.memory.faults().next(usize::try_from(1 + dice.roll(6)).unwrap(), fault);
            }
            13 => {
                if let Some(prompt) = waiting(&harness, &session.id, &mut dice).await {
                    let _ = harness.sessions.withdraw(&session.id, prompt).await;
                }
            }
            14 => {
                if let Some(prompt) = waiting(&harness, &session.id, &mut dice).await {
                    let parts = (dice.roll(2) == 0).then(|| self::prompt(&mut dice).parts);
                    let delivery = (dice.roll(2) == 0).then_some(Delivery::Steer);
                    let patch = QueuePatch { parts, delivery, position: Some(0), ..QueuePatch::default() };
                    let _ = harness.sessions.requeue(&session.id, prompt, patch).await;
                }
            }
            12 => {
                let _ = harness.sessions.continuation(&session.id, ContinuationAction::Stop).await;
            }
            11 if dice.roll(2) == 0 => {
                let failure = if dice.roll(3) == 0 { StoreFailure::Unavailable } else { StoreFailure::Full };
                harness.memory.faults().begin_outage(failure);
                tokio::time::sleep(Duration::from_millis(dice.roll(20_000))).await;
                if dice.roll(2) == 0 {
                    harness.memory.faults().end_outage();
                }
            }
            10 if crashes && dice.roll(3) == 0 => {
                harness = harness.crash().await;
                busy_agents(&harness, seed + dice.roll(1 << 30));
                if dice.roll(3) == 0 {
                    harness.memory.faults().begin_outage(StoreFailure::Full);
                }
                harness.sessions.recover().await.unwrap();
            }
            _ => tokio::time::sleep(Duration::from_millis(dice.roll(1_500))).await,
        }
        harness.drain();
    }
    harness.memory.faults().clear();
    if crashes {
        // A last crash closes everything that is still open; nothing new starts afterwards.
        harness = harness.crash().await;
        harness.sessions.recover().await.unwrap();
    } else {
        settle(&harness).await?;
    }
    while !harness.sessions.statuses(None).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    if !crashes {
        harness.drain();
        judge(&harness.seen, &accepted).map_err(|rule| format!("as a client has heard it: {rule}"))?;
    }
    judge(&history(&harness).await, &accepted)
}

/// One of the prompts that wait.
async fn waiting(harness: &Harness, session: &SessionId, dice: &mut Dice) -> Option<MessageId> {
    let queue = harness.sessions.queue(session).await.unwrap();
    let chosen = usize::try_from(dice.roll(u64::try_from(queue.len()).unwrap().max(1))).unwrap();
    queue.into_iter().nth(chosen).map(|prompt| prompt.message_id)
}

/// A prompt of the user, or one of a plugin, which may want to continue the session.
fn prompt(dice: &mut Dice) -> PromptInput {
    let sender = if dice.roll(4) == 0 { Sender::Plugin } else { Sender::Client };
    let synthetic = (dice.roll(2) == 0).then_some(true);
    let text = TextPart { text: "do".into(), synthetic, ..TextPart::default() };
    let part = PartInput { id: None, body: PartInputBody::Text(text) };
    PromptInput { sender, parts: vec![part], ..PromptInput::text("") }
}

/// Without a crash, only the end of the outage triggers the repairs. Turns that do not end by themselves are
/// aborted, which works now.
async fn settle(harness: &Harness) -> Result<(), String> {
    tokio::time::sleep(MAX_REPAIR_PAUSE * 2).await;
    match harness.sessions.stats().unfinished {
        0 => {}
        left => return Err(format!("{left} sessions were not repaired")),
    }
    for busy in harness.sessions.statuses(None).await.unwrap().into_keys() {
        harness.sessions.abort(&busy).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn history(harness: &Harness) -> Vec<Event> {
    let mut stream = harness.sessions.subscribe(Scope::default(), Some(0)).await.unwrap();
    let mut events = Vec::new();
    while let Some(Ok(StreamItem::Frames(frames))) = stream.next().now_or_never() {
        events.extend(frames.iter().map(|frame| serde_json::from_slice::<Event>(frame.json()).unwrap()));
    }
    events
}

#[derive(Default)]
struct Track {
    busy: bool,
    pair: bool,
    open_messages: BTreeSet<MessageId>,
    open_parts: BTreeSet<protocol::PartId>,
    requests: BTreeSet<String>,
    withdrawn: BTreeSet<MessageId>,
    /// Continuations by episode and number, with their source.
    rounds: BTreeMap<(MessageId, u32), Source>,
}

fn judge(events: &[Event], accepted: &BTreeSet<MessageId>) -> Result<Vec<Source>, String> {
    let mut sessions: BTreeMap<SessionId, Track> = BTreeMap::new();
    let mut ended: BTreeMap<MessageId, u32> = BTreeMap::new();
    for event in events {
        let Some(id) = event.body.session_id() else { continue };
        let track = sessions.entry(id.clone()).or_default();
        if let EventBody::PromptEnded(it) = &event.body {
            *ended.entry(it.message_id.clone()).or_default() += 1;
        }
        track.observe(&event.body).map_err(|rule| format!("{rule}: {} of {id}", event.body.kind()))?;
    }
    if let Some((id, _)) = sessions.iter().find(|(_, track)| track.busy) {
        return Err(format!("{id} was never released"));
    }
    match accepted.iter().find(|prompt| ended.get(*prompt) != Some(&1)) {
        Some(prompt) => Err(format!("{prompt} ended {:?} times", ended.get(prompt))),
        None => Ok(sessions.values().flat_map(|track| track.rounds.values().copied()).collect()),
    }
}

impl Track {
    fn observe(&mut self, body: &EventBody) -> Result<(), String> {
        let pair_expected = std::mem::take(&mut self.pair);
        if pair_expected != matches!(body, EventBody::SessionIdle(_)) {
            return Err("the idle pair was torn".into());
        }
        match body {
            EventBody::SessionStatus(it) => match &it.status {
                SessionStatus::Idle { .. } if !self.busy => return Err("idle twice".into()),
                SessionStatus::Idle { .. } if !self.is_closed() => {
                    return Err("idle with something open".into());
                }
                SessionStatus::Idle { .. } => (self.busy, self.pair) = (false, true),
                _ => self.busy = true,
            },
            EventBody::MessageUpdated(it) => {
                if let Message::Assistant(message) = &it.info {
                    self.in_turn()?;
                    if message.time.completed.is_some() {
                        self.open_messages.remove(&message.id);
                    } else {
                        self.open_messages.insert(message.id.clone());
                    }
                }
            }
            EventBody::PartUpdated(it) if it.part.is_open() => {
                self.in_turn()?;
                self.open_parts.insert(it.part.id.clone());
            }
            EventBody::PartUpdated(it) => {
                self.open_parts.remove(&it.part.id);
            }
            EventBody::PartRemoved(it) => {
                self.open_parts.remove(&it.part_id);
            }
            EventBody::PermissionAsked(it) => {
                self.in_turn()?;
                self.requests.insert(it.id.to_string());
            }
            EventBody::PermissionReplied(it) => {
                self.requests.remove(it.request_id.as_str());
            }
            EventBody::ContinuationStarted(it) => {
                self.in_turn()?;
                if it.n > ROUNDS || self.rounds.insert((it.episode.clone(), it.n), it.source).is_some() {
                    return Err(format!("round {} is one too many", it.n));
                }
            }
            EventBody::PromptEnded(it) if it.reason == EndReason::Withdrawn => {
                self.in_turn()?;
                self.withdrawn.insert(it.message_id.clone());
            }
            EventBody::PromptStarted(it) if self.withdrawn.contains(&it.message_id) => {
                return Err("a withdrawn prompt was started".into());
            }
            EventBody::SessionError(_) | EventBody::PromptStarted(_) | EventBody::QueueUpdated(_) => {
                self.in_turn()?;
            }
            _ => {}
        }
        Ok(())
    }

    fn in_turn(&self) -> Result<(), String> {
        if self.busy { Ok(()) } else { Err("outside a turn".into()) }
    }

    fn is_closed(&self) -> bool {
        self.open_messages.is_empty() && self.open_parts.is_empty() && self.requests.is_empty()
    }
}

#[test]
fn every_turn_ends_once_and_every_prompt_is_accounted_for() {
    std::panic::set_hook(Box::new(|info| {
        // Runners panic on purpose in this simulation.
        if info.payload().downcast_ref::<&str>() != Some(&"planned") {
            eprintln!("{info}");
        }
    }));
    let mut continued = Vec::new();
    for seed in SEEDS {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        match runtime.block_on(play(seed)) {
            Ok(rounds) => continued.extend(rounds),
            Err(rule) => panic!("seed {seed}: {rule}"),
        }
    }
    for source in [Source::Todo, Source::Hook] {
        let count = continued.iter().filter(|it| **it == source).count();
        assert!(
            count > 50,
            "turns went on {count} times because of a {source:?}: too rarely to prove anything"
        );
    }
}
