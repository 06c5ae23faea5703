//! Five hundred reconnects at seeded moments; the pieces must form the uninterrupted stream.

use std::collections::HashMap;

use protocol::{EventBody, PartId};
use testkit::{
    calls::Calls,
    dice::Dice,
    process::Home,
    watch::{Seen, Watch},
};
use tokio::sync::watch;

const SEED: u64 = 7;
const RECONNECTS: u32 = 500;
const SCENARIOS: [&str; 4] = ["slow:60@5", "simple", "reasoning", "slow:20@10"];

/// Collects streamed text and checks it whenever a part closes.
#[derive(Default)]
struct Words {
    parts: HashMap<PartId, Text>,
    checked: u32,
}

#[derive(Default)]
struct Text {
    words: String,
    /// A delta or a snapshot announced the text so far, so it must be complete at the end. A part that was only
    /// replayed from the log, opened and closed, is not checked.
    followed: bool,
}

impl Words {
    fn observe(&mut self, seen: &Seen) {
        match &seen.event.body {
            EventBody::PartUpdated(it) => {
                let Some(text) = it.part.text() else { return };
                if it.part.is_open() {
                    let followed = seen.cursor.is_none();
                    self.parts.insert(it.part.id.clone(), Text { words: text.to_owned(), followed });
                } else if let Some(known) = self.parts.remove(&it.part.id)
                    && known.followed
                {
                    assert_eq!(known.words, text, "the words of {} do not add up", it.part.id);
                    self.checked += 1;
                }
            }
            EventBody::PartDelta(it) => {
                if let Some(known) = self.parts.get_mut(&it.part_id) {
                    known.words.push_str(&it.delta);
                    known.followed = true;
                }
            }
            _ => {}
        }
    }

    /// After a lost connection, deltas may have been missed.
    fn lost(&mut self) {
        for text in self.parts.values_mut() {
            text.followed = false;
        }
    }
}

/// Submits prompts to a few sessions until `done`, then waits until the queues are empty.
async fn keep_busy(calls: Calls, mut done: watch::Receiver<bool>) {
    let mut dice = Dice::new(SEED + 1);
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(calls.session().await.unwrap());
    }
    while !*done.borrow_and_update() {
        let rounds = sessions.iter().map(|session| {
            let scenario = SCENARIOS[usize::try_from(dice.roll(4)).unwrap()];
            let body = serde_json::json!({
                "model": { "providerID": "demo", "modelID": scenario },
                "parts": [{ "type": "text", "text": "go" }],
            });
            let calls = calls.clone();
            let path = format!("/session/{session}/message");
            async move { calls.post(&path, &body).await.unwrap() }
        });
        futures::future::join_all(rounds).await;
    }
    calls.post("/session", &serde_json::json!({ "title": "the end" })).await.unwrap();
}

fn is_the_end(seen: &Seen) -> bool {
    matches!(&seen.event.body, EventBody::SessionCreated(it) if it.info.title == "the end")
}

async fn uninterrupted(url: String) -> Vec<Seen> {
    let mut watch = Watch::connect(&url, "/event", Some(0)).await.unwrap();
    let (mut words, mut durable) = (Words::default(), Vec::new());
    while let Some(seen) = watch.next().await.unwrap() {
        words.observe(&seen);
        let end = is_the_end(&seen);
        if seen.cursor.is_some() {
            durable.push(seen);
        }
        if end {
            break;
        }
    }
    assert!(words.checked > 0);
    durable
}

async fn interrupted(url: String, done: watch::Sender<bool>) -> Vec<Seen> {
    let mut dice = Dice::new(SEED);
    let (mut words, mut durable): (_, Vec<Seen>) = (Words::default(), Vec::new());
    for connection in 0u32.. {
        let after = durable.last().and_then(|seen| seen.cursor).unwrap_or(0);
        let mut watch = Watch::connect(&url, "/event", Some(after)).await.unwrap();
        // The last connection stays open until the end of the stream.
        let frames = if connection < RECONNECTS { 1 + dice.roll(30) } else { u64::MAX };
        if connection == RECONNECTS {
            done.send(true).unwrap();
        }
        for _ in 0..frames {
            let seen = watch.next().await.unwrap().expect("the server is alive");
            words.observe(&seen);
            let end = is_the_end(&seen);
            if seen.cursor.is_some() {
                durable.push(seen);
            }
            if end {
                eprintln!(
                    "{connection} reconnects, {} durable events, {} texts",
                    durable.len(),
                    words.checked
                );
                return durable;
            }
        }
        words.lost();
    }
    unreachable!("the stream has an end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_reconnects_piece_together_the_uninterrupted_stream() {
    let home = Home::new(env!("CARGO_BIN_EXE_baton")).unwrap();
    let server = home.start().await.unwrap();
    let (done, stop) = watch::channel(false);
    let whole = tokio::spawn(uninterrupted(server.url.clone()));
    let pieces = tokio::spawn(interrupted(server.url.clone(), done));
    keep_busy(Calls::new(&server.url), stop).await;
    let (whole, pieces) = (whole.await.unwrap(), pieces.await.unwrap());
    assert_eq!(whole.len(), pieces.len());
    for (one, other) in whole.iter().zip(&pieces) {
        assert_eq!((one.cursor, &one.event), (other.cursor, &other.event));
    }
    server.terminate().await.unwrap();
}
