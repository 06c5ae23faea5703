//! Real receivers on this machine, and a log in memory that survives a restart.

use std::{collections::VecDeque, sync::Mutex};

use engine::{
    memory::Memory,
    ports::{Alone, Commit, Encoded, Fence, Fleet, Log, SystemClock},
};
use protocol::{Event, SessionId};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
};

use super::*;

/// One call, as a receiver got it.
#[derive(Debug, Clone)]
struct ReceivedCall {
    headers: String,
    body: String,
}

impl ReceivedCall {
    fn header(&self, name: &str) -> &str {
        let line = self.headers.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}:")));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim()).unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A receiver that answers with a list of statuses and then with 200.
struct FakeReceiver {
    address: std::net::SocketAddr,
    heard: watch::Receiver<Vec<ReceivedCall>>,
}

const SILENCE: &str = "";

impl FakeReceiver {
    async fn new(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Mutex::new(answers.iter().map(|answer| (*answer).to_owned()).collect::<VecDeque<_>>());
        let (tell, heard) = watch::channel(Vec::new());
        let (answers, tell) = (Arc::new(answers), Arc::new(tell));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(listen(socket, answers.clone(), tell.clone()));
            }
        });
        Self { address, heard }
    }

    async fn until(&mut self, count: usize) -> Vec<ReceivedCall> {
        let waited = self.heard.wait_for(|heard| heard.len() >= count);
        tokio::time::timeout(Duration::from_secs(30), waited)
            .await
            .expect("it received too few calls")
            .unwrap()
            .clone()
    }
}

async fn listen(
    mut socket: tokio::net::TcpStream,
    answers: Arc<Mutex<VecDeque<String>>>,
    tell: Arc<watch::Sender<Vec<ReceivedCall>>>,
) {
    let mut bytes = Vec::new();
    let (headers, length) = loop {
        let mut chunk = [0; 1024];
        let read = socket.read(&mut chunk).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((headers, body)) = text.split_once("\r\n\r\n") {
            let heard = ReceivedCall { headers: headers.to_owned(), body: body.to_owned() };
            let length: usize = heard.header("content-length").parse().unwrap_or(0);
            if heard.body.len() >= length {
                break (heard, length);
            }
        }
    };
    assert_eq!(headers.body.len(), length);
    let answer = answers.lock().unwrap().pop_front().unwrap_or_else(|| "200 OK".to_owned());
    tell.send_modify(|heard| heard.push(headers));
    if answer == SILENCE {
        std::future::pending::<()>().await;
    }
    let _ = socket
        .write_all(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes())
        .await;
}

/// A server's log with webhooks.
struct Harness {
    memory: Arc<Memory>,
    watch: Watch,
    heads: std::collections::HashMap<String, u64>,
    number: u64,
}

impl Harness {
    fn new() -> Self {
        let watch = Watch::new(Arc::default());
        let memory =
            Arc::new(Memory::new(Arc::new(Watch { bus: watch.bus.clone(), wake: watch.wake.clone() })));
        Self { memory, watch, heads: std::collections::HashMap::new(), number: 0 }
    }

    fn restarted(self) -> Self {
        let watch = Watch::new(Arc::default());
        let observer = Arc::new(Watch { bus: watch.bus.clone(), wake: watch.wake.clone() });
        Self { memory: Arc::new(self.memory.reopen(observer)), watch, ..self }
    }

    fn start(&self, receivers: Vec<Receiver>) -> Webhooks {
        let ports =
            Ports { reads: self.memory.clone(), outbox: self.memory.clone(), clock: Arc::new(SystemClock) };
        let timeouts = Timeouts {
            answer: Duration::from_millis(500),
            first: Duration::from_millis(20),
            longest: Duration::from_millis(100),
            age: Duration::from_hours(1),
        };
        Webhooks::start(receivers, &self.watch, ports, timeouts)
    }

    /// Waits until the log was read.
    async fn followed(&self) {
        while self.memory.read_upto().await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    }

    async fn emptied(&self, receiver: &str) {
        while !self.memory.heads(receiver, 9).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    async fn say(&mut self, session: &str, kind: &str, mut properties: Value) {
        let expected = self.heads.get(session).copied().unwrap_or(0);
        let mut events = Vec::new();
        if expected == 0 {
            let mut info = json!({
                "id": session, "slug": "s", "projectID": "global", "directory": "/project", "title": "Tidy up",
                "version": "1", "time": { "created": 1, "updated": 1 },
            });
            if session == "ses_child" {
                info["parentID"] = "ses_1".into();
            }
            let properties = json!({ "sessionID": session, "info": info });
            events.push(json!({ "type": "session.created", "properties": properties }));
        }
        properties["sessionID"] = session.into();
        events.push(json!({ "type": kind, "properties": properties }));
        let count = events.len() as u64;
        let encoded = events.into_iter().map(|mut event| {
            self.number += 1;
            event["id"] = format!("evt_{}", self.number).into();
            let event: Event = serde_json::from_value(event).unwrap();
            Encoded { json: serde_json::to_vec(&event).unwrap().into(), event }
        });
        let commit = Commit {
            session: session.parse::<SessionId>().unwrap(),
            fence: Fence { workspace: Alone.workspace("/project"), epoch: Alone::EPOCH },
            directory: "/project".into(),
            project: "global".into(),
            expected,
            events: encoded.collect(),
            flush: false,
        };
        self.memory.append(commit).await.unwrap();
        self.heads.insert(session.to_owned(), expected + count);
    }

    async fn idle(&mut self, session: &str, reason: &str) {
        self.say(session, "session.status", json!({ "status": { "type": "idle", "reason": reason } })).await;
    }
}

fn receiver(name: &str, config: Value) -> Receiver {
    Receiver::new(name, &serde_json::from_value(config).unwrap()).unwrap().unwrap()
}

fn hook(ear: &FakeReceiver) -> Receiver {
    let url = format!("http://{}/in?token=t", ear.address);
    receiver("chat", json!({ "url": url, "secret": "s3cret", "private_addresses": true }))
}

fn reasons(heard: &[ReceivedCall]) -> Vec<String> {
    heard.iter().map(|call| call.json()["data"]["reason"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_receiver_gets_a_valid_signature() {
    let (mut ear, mut harness) = (FakeReceiver::new(&[]).await, Harness::new());
    harness.idle("ses_1", "aborted").await;
    let webhooks = harness.start(vec![hook(&ear)]);
    harness.followed().await;
    harness.say("ses_1", "session.status", json!({ "status": { "type": "busy" } })).await;
    harness.idle("ses_child", "completed").await;
    harness.idle("ses_1", "completed").await;
    let heard = ear.until(1).await;
    assert_eq!(heard.len(), 1, "neither earlier events, nor a child's end, nor busy");
    let (call, id) = (&heard[0], "evt_6");
    assert_eq!((call.header("webhook-id"), call.header("content-type")), (id, "application/json"));
    let at: i64 = call.header("webhook-timestamp").parse().unwrap();
    assert_eq!(call.header("webhook-signature"), Key::new("s3cret").unwrap().sign(id, at, &call.body));
    let mut told = call.json();
    assert!(told["timestamp"].take().as_str().unwrap().ends_with('Z'));
    assert_eq!(
        told,
        json!({ "type": "turn.end", "timestamp": null, "data": {
            "reason": "completed", "sessionID": "ses_1", "title": "Tidy up", "directory": "/project" } })
    );
    harness.emptied("chat").await;
    webhooks.close().await;
}

#[tokio::test]
async fn requests_and_errors_go_to_receivers_that_want_them() {
    let (mut all, mut some, mut harness) =
        (FakeReceiver::new(&[]).await, FakeReceiver::new(&[]).await, Harness::new());
    let url = format!("http://{}/", some.address);
    let picky = json!({ "url": url, "secret": "x", "private_addresses": true, "events": ["session.error"] });
    let webhooks = harness.start(vec![hook(&all), receiver("picky", picky)]);
    harness.followed().await;
    let asked =
        json!({ "id": "per_1", "permission": "bash", "patterns": ["make"], "metadata": {}, "always": [] });
    harness.say("ses_1", "permission.asked", asked).await;
    let questions = json!([{ "question": "Which?", "header": "Which", "options": [] }]);
    harness.say("ses_1", "question.asked", json!({ "id": "que_1", "questions": questions })).await;
    let aborted = json!({ "name": "MessageAbortedError", "data": { "message": "Aborted" } });
    harness.say("ses_1", "session.error", json!({ "error": aborted })).await;
    let failed = json!({ "name": "UnknownError", "data": { "message": "no such model" } });
    harness.say("ses_1", "session.error", json!({ "error": failed })).await;
    let heard: Vec<Value> = all.until(3).await.iter().map(ReceivedCall::json).collect();
    assert_eq!(heard[0]["data"]["requestID"], "per_1");
    assert_eq!(
        (&heard[0]["type"], &heard[0]["data"]["patterns"]),
        (&json!("permission.asked"), &json!(["make"]))
    );
    assert_eq!(
        (&heard[1]["type"], &heard[1]["data"]["questions"][0]["question"]),
        (&json!("question.asked"), &json!("Which?"))
    );
    assert_eq!(
        (&heard[2]["type"], &heard[2]["data"]["message"]),
        (&json!("session.error"), &json!("no such model"))
    );
    assert_eq!(some.until(1).await.len(), 1);
    harness.emptied("chat").await;
    webhooks.close().await;
}

#[tokio::test]
async fn a_refused_notice_is_repeated_with_the_same_id_and_in_order() {
    let (mut ear, mut harness) =
        (FakeReceiver::new(&["500 Oh no", "302 Found", SILENCE]).await, Harness::new());
    let webhooks = harness.start(vec![hook(&ear)]);
    harness.followed().await;
    for reason in ["completed", "error", "budget"] {
        harness.idle("ses_1", reason).await;
    }
    let heard = ear.until(6).await;
    assert_eq!(reasons(&heard), ["completed", "completed", "completed", "completed", "error", "budget"]);
    let ids: BTreeSet<&str> = heard.iter().take(4).map(|call| call.header("webhook-id")).collect();
    assert_eq!(ids.len(), 1);
    harness.emptied("chat").await;
    webhooks.close().await;
}

#[tokio::test]
async fn a_slow_receiver_holds_up_neither_other_sessions_nor_other_receivers() {
    let (mut slow, mut quick, mut harness) =
        (FakeReceiver::new(&[SILENCE]).await, FakeReceiver::new(&[]).await, Harness::new());
    let url = format!("http://{}/", quick.address);
    let other = receiver("quick", json!({ "url": url, "secret": "x", "private_addresses": true }));
    let webhooks = harness.start(vec![hook(&slow), other]);
    harness.followed().await;
    harness.idle("ses_1", "completed").await;
    slow.until(1).await;
    harness.idle("ses_2", "completed").await;
    let heard = slow.until(2).await;
    assert_eq!(heard[1].json()["data"]["sessionID"], "ses_2", "the first one still hangs");
    quick.until(2).await;
    webhooks.close().await;
}

#[tokio::test]
async fn an_unreachable_receiver_gets_its_notices_after_a_restart() {
    let (mut ear, mut harness) = (FakeReceiver::new(&["500 Away"; 9]).await, Harness::new());
    let webhooks = harness.start(vec![hook(&ear)]);
    harness.followed().await;
    harness.idle("ses_1", "completed").await;
    ear.until(1).await;
    webhooks.close().await;
    // The end of another turn is stored, and the server dies before the notice is in the outbox.
    harness.idle("ses_2", "error").await;
    let harness = harness.restarted();
    let mut back = FakeReceiver::new(&[]).await;
    let webhooks = harness.start(vec![hook(&back)]);
    let mut reasons = reasons(&back.until(2).await);
    reasons.sort();
    assert_eq!(reasons, ["completed", "error"]);
    harness.emptied("chat").await;
    webhooks.close().await;
}

#[tokio::test]
async fn private_addresses_are_refused_unless_allowed_and_redirects_are_not_followed() {
    let (inside, mut harness) = (FakeReceiver::new(&[]).await, Harness::new());
    let moved = format!("307 Moved\r\nLocation: http://{}/", inside.address);
    let mut outside = FakeReceiver::new(&[&moved, &moved]).await;
    let url = format!("http://{}/", inside.address);
    let refused = receiver("refused", json!({ "url": url, "secret": "x" }));
    let webhooks = harness.start(vec![hook(&outside), refused]);
    harness.followed().await;
    harness.idle("ses_1", "completed").await;
    outside.until(3).await;
    let waiting = loop {
        let waiting = harness.memory.heads("refused", 1).await.unwrap();
        if waiting.first().is_some_and(|notice| notice.attempts > 0) {
            break waiting;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(waiting.len(), 1, "the refused notice stays in the outbox");
    assert!(inside.heard.borrow().is_empty());
    webhooks.close().await;
}

#[tokio::test]
async fn a_notice_answered_with_gone_is_dropped_and_a_removed_receiver_is_forgotten() {
    let (mut ear, mut harness) = (FakeReceiver::new(&["410 Gone"]).await, Harness::new());
    let webhooks = harness.start(vec![hook(&ear)]);
    harness.followed().await;
    harness.idle("ses_1", "completed").await;
    ear.until(1).await;
    harness.emptied("chat").await;
    webhooks.close().await;
    let mut harness = harness.restarted();
    let mut none = harness.start(Vec::new());
    none.tasks.join_next().await.unwrap().unwrap();
    assert_eq!(harness.memory.read_upto().await.unwrap(), None);
    harness.idle("ses_1", "error").await;
    let harness = harness.restarted();
    let webhooks = harness.start(vec![hook(&ear)]);
    harness.followed().await;
    assert_eq!(
        harness.memory.heads("chat", 9).await.unwrap(),
        [],
        "events without a receiver are not stored"
    );
    webhooks.close().await;
}

#[test]
fn an_invalid_receiver_is_refused_without_showing_secrets() {
    let refused =
        |config: Value| Receiver::new("chat", &serde_json::from_value(config).unwrap()).unwrap_err();
    assert_eq!(refused(json!({ "url": "https://a.test" })), "the webhook chat has no `secret` to sign with");
    let odd = refused(json!({ "url": "sk-1", "secret": "x" }));
    assert!(
        odd.starts_with("the `url` of the webhook chat is not a valid address") && !odd.contains("sk-1"),
        "{odd}"
    );
    let scheme = refused(json!({ "url": "file:///a", "secret": "x" }));
    assert!(scheme.ends_with("must begin with http:// or https://"), "{scheme}");
    let base = refused(json!({ "url": "https://a.test", "secret": "whsec_sk-1!" }));
    assert!(base.ends_with("the rest is not base64") && !base.contains("sk-1"), "{base}");
    let off = json!({ "url": "https://a.test", "enabled": false });
    assert!(Receiver::new("chat", &serde_json::from_value(off).unwrap()).unwrap().is_none());
}
