//! Both ends of a connection, also when the remote end misbehaves.

use std::time::Duration;

use futures::StreamExt;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::codec;
use crate::{
    Dialect, Error, ErrorObject, INTERNAL_ERROR, Id, Inbox, Incoming, Line, MAX_ASKED, MAX_PENDING,
    METHOD_NOT_FOUND, Message, Options, Peer,
};

/// Long enough that it passes only when nothing else can happen: the clock is paused.
const DEADLINE: Duration = Duration::from_secs(30);

/// The remote end of the transport, which the test plays.
struct Other {
    send: mpsc::Sender<Vec<u8>>,
    receive: mpsc::Receiver<Line>,
}

impl Other {
    async fn say(&self, message: Value) {
        self.send.send(message.to_string().into_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        self.receive.recv().await.unwrap().value()
    }
}

fn start() -> (Peer, Inbox, Other) {
    start_with(None)
}

fn start_with(cancel: Option<&'static str>) -> (Peer, Inbox, Other) {
    let (send, mut lines) = mpsc::channel(4096);
    let (transport, receive) = mpsc::channel(4096);
    let lines = futures::stream::poll_fn(move |context| lines.poll_recv(context));
    let lines = lines.map(|line: Vec<u8>| Message::parse(&line));
    let options = Options { dialect: Dialect::Bare, methods: &["may/i", "which"], cancel };
    let (peer, inbox) = Peer::start(options, lines, transport);
    (peer, inbox, Other { send, receive })
}

fn told(incoming: Option<Incoming>) -> String {
    match incoming {
        Some(Incoming::Told { method, .. }) => method,
        other => panic!("expected something told, got {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn answers_find_their_requests_in_any_order() {
    let (peer, _inbox, mut other) = start();
    let (first, second, ()) = tokio::join!(
        peer.request("first", json!({"n": 1}), DEADLINE),
        peer.request("second", Value::Null, DEADLINE),
        async {
            let (one, two) = (other.hear().await, other.hear().await);
            assert_eq!(one, json!({"id": 1, "method": "first", "params": {"n": 1}}));
            assert_eq!(two, json!({"id": 2, "method": "second"}));
            other.say(json!({"id": 2, "result": "two"})).await;
            other.say(json!({"id": 1, "error": {"code": 5, "message": "no"}})).await;
        }
    );
    let refused = Error::Refused { method: "first".into(), fault: ErrorObject::new(5, "no").into() };
    assert_eq!(first, Err(refused.clone()));
    assert_eq!(refused.to_string(), "first was refused: no (code 5)");
    assert_eq!(second, Ok(json!("two")));
}

#[tokio::test(start_paused = true)]
async fn messages_before_an_answer_are_in_the_inbox() {
    let (peer, mut inbox, mut other) = start();
    let (answer, ()) = tokio::join!(peer.request("prompt", Value::Null, DEADLINE), async {
        other.hear().await;
        other.say(json!({"method": "one"})).await;
        other.say(json!({"method": "two"})).await;
        other.say(json!({"id": 1, "result": null})).await;
    });
    assert_eq!(answer, Ok(Value::Null));
    assert_eq!([told(inbox.waiting()), told(inbox.waiting())], ["one", "two"]);
    assert!(inbox.waiting().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_answered_ends_with_its_deadline_and_a_late_answer_is_ignored() {
    let (peer, mut inbox, mut other) = start();
    let late = peer.request("slow", Value::Null, DEADLINE).await.unwrap_err();
    assert_eq!(late.to_string(), "slow was not answered within 30s");
    other.hear().await;
    other.say(json!({"id": 1, "result": 1})).await;
    other.say(json!({"method": "still/here"})).await;
    assert_eq!(told(inbox.next().await), "still/here");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_its_caller_gives_up_is_withdrawn_once() {
    let (peer, _inbox, mut other) = start_with(Some("cancel"));
    let late = peer.request("slow", Value::Null, DEADLINE).await.unwrap_err();
    assert_eq!(late, Error::Late { method: "slow".into(), after: DEADLINE });
    assert_eq!(other.hear().await, json!({"id": 1, "method": "slow"}));
    assert_eq!(other.hear().await, json!({"method": "cancel", "params": {"id": 1}}));
    // A request that is answered is not withdrawn.
    let (answer, ()) = tokio::join!(peer.request("quick", Value::Null, DEADLINE), async {
        other.hear().await;
        other.say(json!({"id": 2, "result": true})).await;
    });
    assert_eq!(answer, Ok(json!(true)));
    peer.post("next", &json!([]));
    assert_eq!(other.hear().await, json!({"method": "next", "params": []}));
}

#[tokio::test(start_paused = true)]
async fn unexpected_answers_are_ignored() {
    let (peer, _inbox, mut other) = start();
    let (answer, ()) = tokio::join!(peer.request("ask", Value::Null, DEADLINE), async {
        other.hear().await;
        for strange in [
            json!({"id": 99, "result": "unknown"}),
            json!({"id": "1", "result": "a text is not the number"}),
            json!({"id": null, "error": {"code": -32700, "message": "parse error"}}),
            json!({"id": 1, "result": "mine"}),
            json!({"id": 1, "result": "again"}),
        ] {
            other.say(strange).await;
        }
    });
    assert_eq!(answer, Ok(json!("mine")));
}

#[tokio::test(start_paused = true)]
async fn when_the_transport_ends_pending_and_later_requests_fail() {
    let (peer, mut inbox, mut other) = start();
    let (one, two, ()) = tokio::join!(
        peer.request("one", Value::Null, DEADLINE),
        peer.request("two", Value::Null, DEADLINE),
        async {
            other.hear().await;
            other.hear().await;
            drop(other);
        }
    );
    assert_eq!(one, Err(Error::Ended { method: "one".into() }));
    assert_eq!(two, Err(Error::Ended { method: "two".into() }));
    assert!(inbox.next().await.is_none());
    let after = peer.request("three", Value::Null, DEADLINE).await.unwrap_err();
    assert_eq!(after.to_string(), "three was not answered before the conversation ended");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_inbox_ends_the_conversation() {
    let (peer, inbox, mut other) = start();
    let waits = peer.request("one", Value::Null, DEADLINE);
    let (answer, ()) = tokio::join!(waits, async {
        other.hear().await;
        drop(inbox);
    });
    assert_eq!(answer, Err(Error::Ended { method: "one".into() }));
    assert!(other.receive.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn remote_requests_are_answered_even_if_they_are_dropped() {
    let (_peer, mut inbox, mut other) = start();
    other.say(json!({"id": "a", "method": "may/i", "params": {"x": 1}})).await;
    other.say(json!({"id": "b", "method": "which"})).await;
    other.say(json!({"id": "c", "method": "item/new/thing"})).await;
    let unknown = other.hear().await;
    assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!("c"), &json!(METHOD_NOT_FOUND)));

    let (Some(Incoming::Asked(first)), Some(Incoming::Asked(second))) =
        (inbox.next().await, inbox.next().await)
    else {
        panic!("two requests");
    };
    assert_eq!((&first.id, first.method.as_str()), (&Id::Text("a".into()), "may/i"));
    drop(second);
    let dropped = other.hear().await;
    assert_eq!((&dropped["id"], &dropped["error"]["code"]), (&json!("b"), &json!(INTERNAL_ERROR)));
    first.answer(Ok(json!({"decision": "accept"})));
    assert_eq!(other.hear().await, json!({"id": "a", "result": {"decision": "accept"}}));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_reuses_an_open_id_is_ignored() {
    let (_peer, mut inbox, mut other) = start();
    other.say(json!({"id": 0, "method": "may/i"})).await;
    other.say(json!({"id": 0, "method": "may/i"})).await;
    other.say(json!({"method": "end"})).await;
    let Some(Incoming::Asked(asked)) = inbox.next().await else { panic!("a request") };
    assert_eq!(told(inbox.next().await), "end");
    asked.answer(Ok(json!(1)));
    assert_eq!(other.hear().await, json!({"id": 0, "result": 1}));
    // Once it is answered, the id is free.
    other.say(json!({"id": 0, "method": "may/i"})).await;
    assert!(matches!(inbox.next().await, Some(Incoming::Asked(_))));
}

#[tokio::test(start_paused = true)]
async fn unreadable_lines_are_reported_in_order() {
    let (_peer, mut inbox, other) = start();
    for line in [&b"\xff\xfe"[..], b"{}"] {
        other.send.send(line.to_vec()).await.unwrap();
    }
    other.say(json!({"method": "end"})).await;
    assert!(matches!(inbox.next().await, Some(Incoming::Malformed(_))));
    assert!(matches!(inbox.next().await, Some(Incoming::Malformed(_))));
    assert_eq!(told(inbox.next().await), "end");
}

#[tokio::test(start_paused = true)]
async fn both_directions_are_bounded() {
    let (peer, mut inbox, mut other) = start();
    let asks: Vec<_> =
        (0..=MAX_PENDING).map(|_| Box::pin(peer.request("ask", Value::Null, DEADLINE))).collect();
    let answers = futures::future::join_all(asks).await;
    let crowded = Err(Error::Crowded { method: "ask".into() });
    assert_eq!(answers.iter().filter(|answer| **answer == crowded).count(), 1);
    // The requests have ended, so there is room again.
    assert!(matches!(peer.request("ask", Value::Null, DEADLINE).await, Err(Error::Late { .. })));
    for _ in 0..=MAX_PENDING {
        other.hear().await;
    }

    let mut open = Vec::new();
    for id in 0..=MAX_ASKED {
        other.say(json!({"id": id, "method": "may/i"})).await;
    }
    for _ in 0..MAX_ASKED {
        open.push(inbox.next().await.unwrap());
    }
    assert_eq!(other.hear().await["id"], json!(MAX_ASKED));
}

/// The messages that a peer receives from bytes that arrive in chunks.
fn heard(bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut write, read) = tokio::io::duplex(64);
        let lines = Box::pin(futures::stream::unfold(BufReader::new(read), |mut read| async {
            let mut line = Vec::new();
            (read.read_until(b'\n', &mut line).await.ok()? > 0)
                .then_some((Message::<Value>::parse(&line), read))
        }));
        let (transport, _kept) = mpsc::channel(4096);
        let (_peer, mut inbox) = Peer::start(Options::default(), lines, transport);
        let writing = async {
            let mut from = 0;
            for cut in cuts {
                let to = from.max(cut % (bytes.len() + 1));
                write.write_all(&bytes[from..to]).await.unwrap();
                tokio::task::yield_now().await;
                from = to;
            }
            write.write_all(&bytes[from..]).await.unwrap();
            drop(write);
        };
        let mut all = Vec::new();
        let hearing = async {
            while let Some(incoming) = inbox.next().await {
                all.push(format!("{incoming:?}"));
            }
        };
        tokio::join!(writing, hearing);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn the_split_of_the_bytes_makes_no_difference(
        messages in prop::collection::vec(codec::message(), 0..6),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.extend(message.value(Dialect::Standard).to_string().into_bytes());
            bytes.push(b'\n');
        }
        prop_assert_eq!(heard(&bytes, &cuts), heard(&bytes, &[]));
        let told = bytes.split(|byte| *byte == b'\n')
            .filter(|line| matches!(Message::<Value>::parse(line), Ok(Message::Notification { .. })))
            .count();
        prop_assert_eq!(heard(&bytes, &cuts).len(), told);
    }
}
