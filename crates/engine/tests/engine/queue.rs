//! Waiting prompts: clients list, change and withdraw them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use engine::{Error, limits::MAX_PARTS, memory::faults::Fault, ports::StoreFailure, session::Turn};
use futures::FutureExt;
use protocol::{
    EndReason, EventBody, MessageId, Session,
    prompt::{Delivery, PromptInput},
    queue::{QueuePatch, QueuedPrompt},
};
use tokio::sync::{Notify, watch};

use crate::harness::{Harness, say};

/// The texts that the model was given, one entry for each run or join.
type Asked = Arc<Mutex<Vec<String>>>;

async fn text_of(turn: &Turn, prompt: &MessageId) -> String {
    let history = turn.history().await.unwrap();
    let message = history.iter().find(|message| message.info.id() == prompt).unwrap();
    message.parts.iter().filter_map(|part| part.text()).collect()
}

/// Records the prompts that turns take up. The first turn waits until the gate opens, and then takes up the prompts
/// that join it.
fn gated(harness: &Harness) -> (watch::Sender<bool>, Asked) {
    let (open, gate) = watch::channel(false);
    let asked = Asked::default();
    let heard = asked.clone();
    harness.always(Arc::new(move |turn: Turn| {
        let (mut gate, heard) = (gate.clone(), heard.clone());
        async move {
            let text = text_of(&turn, &turn.prompt).await;
            heard.lock().unwrap().push(text);
            gate.wait_for(|open| *open).await.unwrap();
            for joined in turn.join().await {
                let text = text_of(&turn, &joined).await;
                heard.lock().unwrap().push(text);
            }
            say(turn, "ok").await
        }
        .boxed()
    }));
    (open, asked)
}

fn queued(text: &str) -> PromptInput {
    PromptInput { delivery: Some(Delivery::Queue), ..PromptInput::text(text) }
}

async fn submit(harness: &Harness, session: &Session, text: &str) -> MessageId {
    harness.sessions.submit(&session.id, queued(text)).await.unwrap().message.info.id().clone()
}

fn texts(queue: &[QueuedPrompt]) -> Vec<String> {
    queue.iter().map(|it| it.parts.iter().filter_map(|part| part.text()).collect()).collect()
}

fn moved(position: usize) -> QueuePatch {
    QueuePatch { position: Some(position), ..QueuePatch::default() }
}

fn edited(text: &str) -> QueuePatch {
    QueuePatch { parts: Some(PromptInput::text(text).parts), ..QueuePatch::default() }
}

/// A busy session with the waiting prompts `one`, `two` and `three`.
async fn busy(harness: &Harness) -> (Session, [MessageId; 3]) {
    let session = harness.session().await;
    submit(harness, &session, "zero").await;
    let [mut one, mut two, mut three] = [None, None, None];
    for (place, text) in [(&mut one, "one"), (&mut two, "two"), (&mut three, "three")] {
        *place = Some(submit(harness, &session, text).await);
    }
    (session, [one.unwrap(), two.unwrap(), three.unwrap()])
}

#[tokio::test(start_paused = true)]
async fn waiting_prompts_are_listed_in_order_and_without_the_running_one() {
    let harness = Harness::new().await;
    let (open, _) = gated(&harness);
    let (session, ids) = busy(&harness).await;
    let queue = harness.sessions.queue(&session.id).await.unwrap();
    assert_eq!(texts(&queue), ["one", "two", "three"]);
    assert_eq!(queue.iter().map(|it| it.message_id.clone()).collect::<Vec<_>>(), ids);
    assert!(queue.iter().all(|it| it.delivery == Delivery::Queue && it.agent == "build"));
    open.send(true).unwrap();
    harness.sessions.abort(&session.id).await.unwrap();
    assert_eq!(harness.sessions.queue(&session.id).await.unwrap(), []);
    let unknown = harness.sessions.queue(&"ses_nothing".parse().unwrap()).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_prompt_ends_once_and_no_model_reads_it() {
    let mut harness = Harness::new().await;
    let (open, asked) = gated(&harness);
    let (session, [one, two, _]) = busy(&harness).await;
    let again = PromptInput { message_id: Some(one.clone()), ..PromptInput::text("one") };
    let waiter = harness.sessions.submit(&session.id, again.clone()).await.unwrap().end.unwrap();
    let withdrawn = harness.sessions.withdraw(&session.id, one.clone()).await.unwrap();
    assert_eq!(texts(&[withdrawn]), ["one"]);
    assert_eq!(waiter.await.unwrap(), EndReason::Withdrawn);
    let twice = harness.sessions.withdraw(&session.id, one.clone()).await;
    assert!(matches!(twice, Err(Error::NotFound { kind: "Prompt", .. })), "{twice:?}");
    let late = harness.sessions.submit(&session.id, again).await;
    assert!(matches!(&late, Err(Error::Withdrawn(id)) if *id == one), "{late:?}");
    open.send(true).unwrap();
    harness.until_idle(&session).await;
    assert_eq!(*asked.lock().unwrap(), ["zero", "two", "three"]);
    let ends = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::PromptEnded(it) => Some((it.message_id == one, it.reason)),
        _ => None,
    });
    assert_eq!(ends.filter(|(is_one, _)| *is_one).collect::<Vec<_>>(), [(true, EndReason::Withdrawn)]);
    assert!(harness.sessions.message(&session.id, &one).await.is_err());
    let over = harness.sessions.withdraw(&session.id, two).await;
    assert!(matches!(over, Err(Error::Started(_))), "{over:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_the_answer_learns_that_its_prompt_was_withdrawn() {
    let harness = Harness::new().await;
    let (_open, _) = gated(&harness);
    let session = harness.session().await;
    submit(&harness, &session, "zero").await;
    let id: MessageId = "msg_mine".parse().unwrap();
    let prompt = PromptInput { message_id: Some(id.clone()), ..queued("one") };
    let answer = harness.sessions.prompt(&session.id, prompt);
    let withdrawal = async {
        while harness.sessions.queue(&session.id).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        harness.sessions.withdraw(&session.id, id.clone()).await
    };
    let (answer, withdrawn) = tokio::join!(answer, withdrawal);
    withdrawn.unwrap();
    assert!(matches!(&answer, Err(Error::Withdrawn(it)) if *it == id), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn an_edited_prompt_is_answered_as_edited() {
    let mut harness = Harness::new().await;
    let (open, asked) = gated(&harness);
    let (session, [one, two, three]) = busy(&harness).await;
    let changed = harness.sessions.requeue(&session.id, one.clone(), edited("ONE")).await.unwrap();
    assert_eq!(texts(&[changed]), ["ONE"]);
    harness.sessions.requeue(&session.id, three, moved(0)).await.unwrap();
    harness.sessions.requeue(&session.id, two.clone(), moved(99)).await.unwrap();
    let empty = harness.sessions.requeue(&session.id, two.clone(), edited_parts(0)).await;
    let full = harness.sessions.requeue(&session.id, two, edited_parts(MAX_PARTS + 1)).await;
    assert!(
        matches!((&empty, &full), (Err(Error::Invalid(_)), Err(Error::Invalid(_)))),
        "{empty:?} {full:?}"
    );
    assert_eq!(texts(&harness.sessions.queue(&session.id).await.unwrap()), ["three", "ONE", "two"]);
    open.send(true).unwrap();
    harness.until_idle(&session).await;
    assert_eq!(*asked.lock().unwrap(), ["zero", "three", "ONE", "two"]);
    let message = harness.sessions.message(&session.id, &one).await.unwrap();
    assert_eq!(message.parts.len(), 1, "the old parts are gone");
    let orders = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::QueueUpdated(it) => Some(it.queue.len()),
        _ => None,
    });
    assert_eq!(orders.collect::<Vec<_>>(), [3], "only a new order is an event of its own");
}

fn edited_parts(count: usize) -> QueuePatch {
    let parts = vec![PromptInput::text("x").parts.remove(0); count];
    QueuePatch { parts: Some(parts), ..QueuePatch::default() }
}

#[tokio::test(start_paused = true)]
async fn a_queued_prompt_that_is_steered_joins_the_running_turn() {
    let mut harness = Harness::new().await;
    let (open, asked) = gated(&harness);
    let (session, [_, two, _]) = busy(&harness).await;
    let steer = QueuePatch { delivery: Some(Delivery::Steer), ..QueuePatch::default() };
    let changed = harness.sessions.requeue(&session.id, two.clone(), steer.clone()).await.unwrap();
    assert_eq!(changed.delivery, Delivery::Steer);
    open.send(true).unwrap();
    harness.until_idle(&session).await;
    assert_eq!(*asked.lock().unwrap(), ["zero", "two", "one", "three"]);
    let late = harness.sessions.requeue(&session.id, two, steer).await;
    assert!(matches!(late, Err(Error::Started(_))), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn the_queue_survives_a_crash_as_clients_have_left_it() {
    let harness = Harness::new().await;
    let (_open, _) = gated(&harness);
    let (session, [one, two, three]) = busy(&harness).await;
    harness.sessions.requeue(&session.id, three.clone(), moved(0)).await.unwrap();
    harness.sessions.requeue(&session.id, three, edited("THREE")).await.unwrap();
    harness.sessions.withdraw(&session.id, one.clone()).await.unwrap();
    let mut harness = harness.crash().await;
    let (open, asked) = gated(&harness);
    open.send(true).unwrap();
    harness.sessions.recover().await.unwrap();
    harness.until_idle(&session).await;
    assert_eq!(*asked.lock().unwrap(), ["THREE", "two"]);
    assert!(harness.sessions.message(&session.id, &two).await.is_ok());
    let late = PromptInput { message_id: Some(one), ..PromptInput::text("one") };
    let late = harness.sessions.submit(&session.id, late).await;
    assert!(matches!(late, Err(Error::Withdrawn(_))), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_cannot_be_stored_does_not_happen() {
    let mut harness = Harness::new().await;
    let (open, asked) = gated(&harness);
    let (session, [one, _, three]) = busy(&harness).await;
    harness.memory.faults().next(1, Fault::Refuse(StoreFailure::Full));
    assert!(harness.sessions.withdraw(&session.id, one).await.is_err());
    harness.memory.faults().next(1, Fault::Refuse(StoreFailure::Full));
    assert!(harness.sessions.requeue(&session.id, three, moved(0)).await.is_err());
    assert_eq!(texts(&harness.sessions.queue(&session.id).await.unwrap()), ["one", "two", "three"]);
    open.send(true).unwrap();
    harness.until_idle(&session).await;
    assert_eq!(*asked.lock().unwrap(), ["zero", "one", "two", "three"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_summary_has_no_content_to_change() {
    let harness = Harness::new().await;
    let (_open, _) = gated(&harness);
    let session = harness.session().await;
    submit(&harness, &session, "zero").await;
    let summary = harness.sessions.submit(&session.id, PromptInput::compaction(false)).await.unwrap();
    let id = summary.message.info.id().clone();
    let refused = harness.sessions.requeue(&session.id, id.clone(), edited("x")).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    harness.sessions.withdraw(&session.id, id).await.unwrap();
}

/// A small pseudo-random generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// The changes that clients made and the server accepted.
#[derive(Default)]
struct Done {
    texts: BTreeMap<MessageId, Vec<String>>,
    withdrawn: Vec<MessageId>,
}

/// Changes the queue at random until the turn that holds it up may end.
async fn meddle(harness: &Harness, session: &Session, ids: &[MessageId], mut dice: Dice, done: &Mutex<Done>) {
    for number in 0..12 {
        let id = &ids[dice.roll(ids.len())];
        match dice.roll(4) {
            0 => {
                if harness.sessions.withdraw(&session.id, id.clone()).await.is_ok() {
                    done.lock().unwrap().withdrawn.push(id.clone());
                }
            }
            1 => {
                let text = format!("{id} {} {number}", dice.0);
                if harness.sessions.requeue(&session.id, id.clone(), edited(&text)).await.is_ok() {
                    done.lock().unwrap().texts.entry(id.clone()).or_default().push(text);
                }
            }
            2 => {
                let delivery = if dice.roll(2) == 0 { Delivery::Steer } else { Delivery::Queue };
                let patch = QueuePatch { delivery: Some(delivery), ..moved(dice.roll(6)) };
                let _ = harness.sessions.requeue(&session.id, id.clone(), patch).await;
            }
            _ => tokio::task::yield_now().await,
        }
    }
}

/// The last content of a prompt in the log. Only the log knows the order of two changes at once.
fn last_text(harness: &Harness, message: &MessageId) -> String {
    let texts = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::PartUpdated(it) if it.part.message_id == *message => it.part.text(),
        _ => None,
    });
    texts.last().unwrap().to_owned()
}

async fn two_clients(seed: u64) {
    let mut harness = Harness::new().await;
    let (open, asked) = gated(&harness);
    let session = harness.session().await;
    submit(&harness, &session, "zero").await;
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(submit(&harness, &session, &format!("original {number}")).await);
    }
    let done = Mutex::new(Done::default());
    let start = Notify::new();
    let release = async {
        // The gate opens in the middle of the changes, so that they meet the start of prompts.
        for _ in 0..seed % 23 {
            tokio::task::yield_now().await;
        }
        open.send(true).unwrap();
        start.notify_one();
    };
    tokio::join!(
        meddle(&harness, &session, &ids, Dice(seed), &done),
        meddle(&harness, &session, &ids, Dice(seed ^ 0xffff), &done),
        release,
    );
    start.notified().await;
    harness.until_idle(&session).await;
    let (done, asked) = (done.into_inner().unwrap(), asked.lock().unwrap().clone());
    let mut expected = vec!["zero".to_owned()];
    for (number, id) in ids.iter().enumerate() {
        let withdrawals = done.withdrawn.iter().filter(|it| *it == id).count();
        assert!(withdrawals <= 1, "seed {seed}: {id} was withdrawn {withdrawals} times");
        if withdrawals == 0 {
            let last = last_text(&harness, id);
            let mine = done.texts.get(id).into_iter().flatten().any(|text| *text == last);
            assert!(mine || last == format!("original {number}"), "seed {seed}: {id} says {last}");
            expected.push(last);
        }
    }
    let mut answered = asked.clone();
    answered.sort();
    expected.sort();
    assert_eq!(answered, expected, "seed {seed}: each prompt that stayed is asked once, as last changed");
    assert_eq!(harness.sessions.queue(&session.id).await.unwrap(), []);
}

#[test]
fn two_clients_that_change_the_queue_at_once_neither_lose_nor_double_a_prompt() {
    for seed in 0..200 {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(two_clients(seed));
    }
}
