//! A prompt and its reports, with events from the test and a server that answers by path.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use client::{
    Client, Error, Received,
    streaming::{Ending, Pace, Progress, PromptResult, PromptStream},
    view::{Activity, Request},
};
use futures::{StreamExt, channel::mpsc};
use protocol::{EndReason, Event, MessageId, SessionId, prompt::PromptInput};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const PROMPT: &str = "msg_5";

/// The server's answers by the beginning of a call, and the calls it received.
#[derive(Clone, Default)]
struct Facts {
    answers: Arc<Mutex<Vec<(String, Value)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Facts {
    fn set(&self, call: &str, answer: Value) {
        let mut answers = self.answers.lock().unwrap();
        answers.retain(|(known, _)| known != call);
        answers.push((call.to_owned(), answer));
    }

    fn answer(&self, line: &str) -> Value {
        self.asked.lock().unwrap().push(line.to_owned());
        let answers = self.answers.lock().unwrap();
        answers.iter().find(|(call, _)| line == call).map_or(Value::Null, |(_, answer)| answer.clone())
    }

    fn was_asked(&self, line: &str) -> bool {
        self.asked.lock().unwrap().iter().any(|asked| asked == line)
    }
}

/// A prompt in progress.
struct Scene {
    facts: Facts,
    events: mpsc::UnboundedSender<Result<Received, Error>>,
    prompt: PromptStream,
}

impl Scene {
    async fn new(pace: Pace) -> Self {
        let facts = Facts::default();
        facts.set("GET /session/ses_1/message", json!([]));
        let scene = Self::with(facts, pace, false).await;
        assert!(scene.was_sent());
        scene
    }

    /// A prompt that another process may have sent.
    async fn taken_up(facts: Facts) -> Self {
        Self::with(facts, Pace::default(), true).await
    }

    fn was_sent(&self) -> bool {
        self.facts.was_asked("POST /session/ses_1/prompt_async")
    }

    async fn with(facts: Facts, pace: Pace, take_up: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let served = facts.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, served.clone()));
            }
        });
        let (events, received) = mpsc::unbounded();
        events.unbounded_send(Ok(received_event("server.connected", &json!({})))).unwrap();
        let id: SessionId = "ses_1".parse().unwrap();
        let input = PromptInput { message_id: Some(PROMPT.parse().unwrap()), ..PromptInput::text("hi") };
        let received = received.boxed();
        let prompt = if take_up {
            client.take_up_streaming_on(received, &id, input, pace).await.unwrap()
        } else {
            client.prompt_streaming_on(received, &id, input, pace).await.unwrap()
        };
        Self { facts, events, prompt }
    }

    fn say(&self, kind: &str, properties: &Value) {
        self.events.unbounded_send(Ok(received_event(kind, properties))).unwrap();
    }

    fn status(&self, status: &Value) {
        self.say("session.status", &json!({ "sessionID": "ses_1", "status": status }));
    }

    fn busy(&self) {
        self.status(&json!({ "type": "busy" }));
    }

    fn step(&self, id: &str) {
        self.say("message.updated", &json!({ "sessionID": "ses_1", "info": step(id, PROMPT) }));
    }

    fn part(&self, part: &Value) {
        self.say("message.part.updated", &json!({ "sessionID": "ses_1", "part": part, "time": 1 }));
    }

    fn delta(&self, message: &str, part: &str, delta: &str) {
        let delta = json!({ "sessionID": "ses_1", "messageID": message, "partID": part, "field": "text", "delta": delta });
        self.say("message.part.delta", &delta);
    }

    async fn next(&mut self) -> Progress {
        self.prompt.next().await.unwrap()
    }

    async fn outcome(&mut self) -> PromptResult {
        loop {
            if let Progress::Done(outcome) = self.next().await {
                assert_eq!(self.prompt.next().await, None, "nothing follows");
                return outcome;
            }
        }
    }
}

async fn serve(mut socket: TcpStream, facts: Facts) {
    let mut text = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let Ok(count) = socket.read(&mut chunk).await else { return };
        if count == 0 {
            return;
        }
        text.extend_from_slice(&chunk[..count]);
        let all = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = all.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() < length.unwrap_or(0) {
            continue;
        }
        let line: Vec<&str> = head.split(' ').take(2).collect();
        let answer = facts.answer(&line.join(" "));
        let status = if answer == 404 { "404 Not Found" } else { "200 OK" };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if socket.write_all(format!("{head}{answer}").as_bytes()).await.is_err() {
            return;
        }
        text.clear();
    }
}

fn received_event(kind: &str, properties: &Value) -> Received {
    let event = json!({ "id": "evt_1", "type": kind, "properties": properties });
    let event: Event = serde_json::from_value(event).unwrap();
    Received { cursor: None, directory: None, event }
}

fn step(id: &str, parent: &str) -> Value {
    json!({
        "id": id, "sessionID": "ses_1", "role": "assistant", "parentID": parent, "time": { "created": 9 },
        "modelID": "demo", "providerID": "demo", "mode": "build", "agent": "build",
        "path": { "cwd": "/", "root": "/" }, "cost": 0, "tokens": {},
    })
}

fn text(id: &str, message: &str, text: &str) -> Value {
    json!({ "id": id, "sessionID": "ses_1", "messageID": message, "type": "text", "text": text })
}

fn tool(call: &str, status: &str) -> Value {
    let state = match status {
        "running" => {
            json!({ "status": "running", "input": {}, "title": format!("Reading {call}"), "time": { "start": 1 } })
        }
        _ => json!({
            "status": "completed", "input": {}, "output": "", "title": "", "metadata": {}, "time": { "start": 1, "end": 2 },
        }),
    };
    json!({
        "id": format!("prt_{call}"), "sessionID": "ses_1", "messageID": "msg_6", "type": "tool", "callID": call,
        "tool": "read", "state": state,
    })
}

fn permission(session: &str) -> Value {
    json!({ "id": "per_1", "sessionID": session, "permission": "bash", "patterns": ["ls"], "metadata": {}, "always": [] })
}

#[tokio::test]
async fn an_answer_is_its_words_in_order() {
    let mut scene = Scene::new(Pace::default()).await;
    let echo = json!({
        "id": PROMPT, "sessionID": "ses_1", "role": "user", "time": { "created": 1 }, "agent": "build",
        "model": { "providerID": "demo", "modelID": "demo" },
    });
    scene.say("message.updated", &json!({ "sessionID": "ses_1", "info": echo }));
    scene.part(&text("prt_0", PROMPT, "hi"));
    scene.busy();
    scene.step("msg_6");
    scene.part(&json!({
        "id": "prt_1", "sessionID": "ses_1", "messageID": "msg_6", "type": "reasoning", "text": "hmm", "time": { "start": 1 },
    }));
    scene.delta("msg_6", "prt_1", " let me see");
    scene.part(&text("prt_2", "msg_6", ""));
    scene.delta("msg_6", "prt_2", "Hel");
    assert_eq!(scene.next().await, Progress::Text("Hel".into()));
    scene.delta("msg_6", "prt_2", "lo");
    assert_eq!(scene.next().await, Progress::Text("Hello".into()));
    scene.part(&text("prt_2", "msg_6", "Hello"));
    scene.step("msg_7");
    scene.part(&text("prt_3", "msg_7", "Done."));
    assert_eq!(scene.next().await, Progress::Text("Hello\n\nDone.".into()));
    scene.status(&json!({ "type": "idle" }));
    let expected = PromptResult {
        text: "Hello\n\nDone.".into(),
        steps: 2,
        ending: Ending::Complete,
        is_cut_off: false,
        left: None,
    };
    assert_eq!(scene.next().await, Progress::Done(expected));
    assert_eq!(scene.prompt.next().await, None);
}

#[tokio::test]
async fn the_stored_message_decides_in_the_end() {
    let mut scene = Scene::new(Pace::default()).await;
    let stored =
        json!([{ "info": step("msg_6", PROMPT), "parts": [text("prt_2", "msg_6", "Hello, all of it.")] }]);
    scene.facts.set("GET /session/ses_1/message", stored);
    scene.busy();
    scene.step("msg_6");
    scene.part(&text("prt_2", "msg_6", "Hello,"));
    scene.status(&json!({ "type": "idle" }));
    assert_eq!(scene.outcome().await.text, "Hello, all of it.");
}

#[tokio::test]
async fn an_idle_of_the_turn_before_is_not_this_ones() {
    let mut scene = Scene::new(Pace::default()).await;
    scene.status(&json!({ "type": "idle" }));
    scene.say("session.idle", &json!({ "sessionID": "ses_1" }));
    scene.busy();
    scene.step("msg_6");
    scene.part(&text("prt_2", "msg_6", "Hi"));
    scene.status(&json!({ "type": "idle" }));
    assert_eq!(scene.outcome().await.text, "Hi");
}

#[tokio::test]
async fn a_queued_prompt_ends_when_it_is_answered_and_others_still_wait() {
    let mut scene = Scene::new(Pace::default()).await;
    scene.busy();
    scene.say("message.updated", &json!({ "sessionID": "ses_1", "info": step("msg_3", "msg_2") }));
    scene.part(&text("prt_1", "msg_3", "for somebody else"));
    scene.say("prompt.started", &json!({ "sessionID": "ses_1", "messageID": PROMPT }));
    scene.step("msg_6");
    scene.part(&text("prt_2", "msg_6", "for you"));
    scene.say("prompt.ended", &json!({ "sessionID": "ses_1", "messageID": PROMPT, "reason": "completed" }));
    assert_eq!(scene.outcome().await.text, "for you");
}

#[tokio::test]
async fn each_tool_call_is_reported_once_and_not_too_often() {
    let mut scene = Scene::new(Pace::default()).await;
    tokio::time::pause();
    scene.busy();
    scene.step("msg_6");
    for part in
        [tool("one", "running"), tool("one", "running"), tool("two", "running"), tool("one", "completed")]
    {
        scene.part(&part);
    }
    assert_eq!(scene.next().await, Progress::Tool { tool: "read".into(), title: "Reading one".into() });
    scene.delta("msg_6", "prt_none", "nothing");
    assert_eq!(scene.next().await, Progress::Heartbeat, "the second came too early, and nothing else did");
    scene.part(&tool("two", "running"));
    assert_eq!(scene.next().await, Progress::Tool { tool: "read".into(), title: "Reading two".into() });
}

#[tokio::test]
async fn silence_leads_to_a_heartbeat() {
    let mut scene = Scene::new(Pace { heartbeat: Duration::from_secs(10), ..Pace::default() }).await;
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    scene.busy();
    assert_eq!(scene.next().await, Progress::Heartbeat);
    assert_eq!(scene.next().await, Progress::Heartbeat);
    assert!(begun.elapsed() >= Duration::from_secs(19), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn text_that_the_user_does_not_see_delays_no_heartbeat() {
    let pace = Pace { heartbeat: Duration::from_secs(10), shows_text: false, ..Pace::default() };
    let mut scene = Scene::new(pace).await;
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    scene.busy();
    scene.step("msg_6");
    scene.part(&text("prt_2", "msg_6", "One"));
    assert_eq!(scene.next().await, Progress::Text("One".into()));
    tokio::time::advance(Duration::from_secs(6)).await;
    scene.delta("msg_6", "prt_2", " two");
    assert_eq!(scene.next().await, Progress::Text("One two".into()));
    assert_eq!(scene.next().await, Progress::Heartbeat);
    assert!(begun.elapsed() < Duration::from_secs(11), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn there_is_no_heartbeat_while_a_request_is_open() {
    let mut scene = Scene::new(Pace { heartbeat: Duration::from_secs(10), ..Pace::default() }).await;
    scene.busy();
    scene.say("permission.asked", &permission("ses_1"));
    assert!(matches!(scene.next().await, Progress::Asked(_)));
    tokio::time::pause();
    let waited = tokio::time::timeout(Duration::from_mins(5), scene.next()).await;
    assert!(waited.is_err(), "{waited:?}");
    let replied = json!({ "sessionID": "ses_1", "requestID": permission("ses_1")["id"], "reply": "once" });
    scene.say("permission.replied", &replied);
    assert!(matches!(scene.next().await, Progress::Settled { .. }));
    assert_eq!(scene.next().await, Progress::Heartbeat);
}

#[tokio::test]
async fn an_answer_cut_off_by_the_models_limit_is_marked() {
    let mut scene = Scene::new(Pace::default()).await;
    scene.busy();
    let mut info = step("msg_6", PROMPT);
    info["finish"] = "length".into();
    scene.say("message.updated", &json!({ "sessionID": "ses_1", "info": info }));
    scene.part(&text("prt_2", "msg_6", "In the mid"));
    scene.status(&json!({ "type": "idle" }));
    let outcome = scene.outcome().await;
    assert!(outcome.is_cut_off && outcome.ending == Ending::Complete, "{outcome:?}");
}

#[tokio::test]
async fn a_turn_that_a_killed_server_left_behind_is_interrupted() {
    let facts = known();
    let mut info = step("msg_6", PROMPT);
    info["error"] = serde_json::to_value(protocol::MessageError::interrupted()).unwrap();
    let answer = json!({ "info": info, "parts": [text("prt_1", "msg_6", "Half")] });
    facts.set("GET /session/ses_1/message", json!([{ "info": user(), "parts": [] }, answer]));
    let mut scene = Scene::taken_up(facts).await;
    assert_eq!(scene.outcome().await.ending, Ending::Ended(EndReason::Interrupted));
}

#[tokio::test]
async fn a_turn_that_is_silent_for_too_long_is_aborted() {
    let mut scene = Scene::new(Pace { timeout: Duration::from_millis(20), ..Pace::default() }).await;
    scene.busy();
    scene.step("msg_6");
    scene.part(&text("prt_2", "msg_6", "So far"));
    let outcome = scene.outcome().await;
    assert_eq!((outcome.text.as_str(), outcome.ending), ("So far", Ending::TimedOut));
    assert!(scene.facts.was_asked("POST /session/ses_1/abort"));
}

#[tokio::test]
async fn a_long_turn_continues_while_events_arrive() {
    let pace =
        Pace { timeout: Duration::from_secs(10), heartbeat: Duration::from_hours(1), ..Pace::default() };
    let mut scene = Scene::new(pace).await;
    tokio::time::pause();
    scene.busy();
    scene.step("msg_6");
    let begun = tokio::time::Instant::now();
    let mut said = String::new();
    for number in 0..10 {
        tokio::time::advance(Duration::from_secs(9)).await;
        said = format!("{said} {number}");
        scene.part(&text("prt_2", "msg_6", &said));
        assert_eq!(scene.next().await, Progress::Text(said.trim().into()));
    }
    assert!(begun.elapsed() > Duration::from_secs(80), "{:?}", begun.elapsed());
    tokio::time::resume();
    scene.status(&json!({ "type": "idle", "reason": "completed" }));
    assert_eq!(scene.outcome().await.ending, Ending::Complete);
}

#[tokio::test]
async fn waiting_for_a_retry_is_not_silence() {
    let pace =
        Pace { timeout: Duration::from_secs(10), heartbeat: Duration::from_hours(1), ..Pace::default() };
    let mut scene = Scene::new(pace).await;
    tokio::time::pause();
    scene.busy();
    scene.status(&json!({ "type": "retry", "attempt": 1, "message": "overloaded", "next": 1 }));
    assert!(matches!(scene.next().await, Progress::Activity(Activity::Retrying { .. })));
    let waited = tokio::time::timeout(Duration::from_mins(5), scene.next()).await;
    assert!(waited.is_err(), "{waited:?}");
    scene.busy();
    assert_eq!(scene.next().await, Progress::Activity(Activity::Working));
    tokio::time::resume();
    scene.status(&json!({ "type": "idle", "reason": "completed" }));
    assert_eq!(scene.outcome().await.ending, Ending::Complete);
}

#[tokio::test]
async fn waiting_for_an_answer_does_not_count_as_time() {
    let mut scene = Scene::new(Pace { timeout: Duration::from_secs(10), ..Pace::default() }).await;
    tokio::time::pause();
    scene.busy();
    scene.say("permission.asked", &permission("ses_1"));
    assert!(matches!(scene.next().await, Progress::Asked(Request::Permission(_))));
    let waited = tokio::time::timeout(Duration::from_mins(5), scene.next()).await;
    assert!(waited.is_err(), "{waited:?}");
    scene.say("permission.replied", &json!({ "sessionID": "ses_1", "requestID": "per_1", "reply": "once" }));
    assert_eq!(scene.next().await, Progress::Settled { id: "per_1".into() });
    tokio::time::resume();
    scene.status(&json!({ "type": "idle", "reason": "completed" }));
    assert_eq!(scene.outcome().await.ending, Ending::Complete);
}

#[tokio::test]
async fn a_childs_request_is_reported_even_if_its_start_was_missed() {
    let mut scene = Scene::new(Pace::default()).await;
    let child = |id: &str, parent: &str| {
        json!({
            "id": id, "parentID": parent, "slug": "s", "projectID": "p", "directory": "/", "title": "t", "version": "1",
            "time": { "created": 1, "updated": 1 },
        })
    };
    scene.facts.set("GET /session/ses_3", child("ses_3", "ses_2"));
    scene.facts.set("GET /session/ses_2", child("ses_2", "ses_1"));
    scene.busy();
    scene.say("permission.asked", &permission("ses_3"));
    let Progress::Asked(Request::Permission(asked)) = scene.next().await else { panic!("the permission") };
    assert_eq!(asked.session_id.as_str(), "ses_3");
}

#[tokio::test]
async fn a_retry_is_reported_and_ends_nothing() {
    let mut scene = Scene::new(Pace::default()).await;
    scene.busy();
    scene.status(&json!({ "type": "retry", "attempt": 1, "message": "overloaded", "next": 5 }));
    let waiting = Activity::Retrying { attempt: 1, message: "overloaded".into(), next: 5, action: None };
    assert_eq!(scene.next().await, Progress::Activity(waiting));
    scene.busy();
    assert_eq!(scene.next().await, Progress::Activity(Activity::Working));
    scene.status(&json!({ "type": "idle", "reason": "aborted" }));
    assert_eq!(scene.outcome().await.ending, Ending::Ended(EndReason::Aborted));
}

#[tokio::test]
async fn a_failure_names_its_cause() {
    let mut scene = Scene::new(Pace::default()).await;
    scene.busy();
    let error = json!({ "name": "UnknownError", "data": { "message": "no such model" } });
    scene.say("session.error", &json!({ "sessionID": "ses_1", "error": error }));
    scene.status(&json!({ "type": "idle" }));
    let Ending::Failed(error) = scene.outcome().await.ending else { panic!("it failed") };
    assert_eq!(serde_json::to_value(error).unwrap()["data"]["message"], "no such model");
}

#[tokio::test]
async fn an_end_missed_during_a_disconnection_is_found() {
    let mut scene = Scene::new(Pace::default()).await;
    scene.busy();
    let stored = json!([{ "info": step("msg_6", PROMPT), "parts": [text("prt_2", "msg_6", "Meanwhile.")] }]);
    scene.facts.set("GET /session/ses_1/message", stored);
    scene.facts.set("GET /session/status", json!({}));
    scene.facts.set("GET /permission", json!([]));
    scene.facts.set("GET /question", json!([]));
    scene.say("server.connected", &json!({}));
    let outcome = scene.outcome().await;
    assert_eq!((outcome.text.as_str(), outcome.ending), ("Meanwhile.", Ending::Complete));
}

#[tokio::test]
async fn a_lost_stream_keeps_the_received_text() {
    let mut scene = Scene::new(Pace::default()).await;
    scene.busy();
    scene.step("msg_6");
    scene.part(&text("prt_2", "msg_6", "Half of"));
    scene.events.unbounded_send(Err(Error::Timeout)).unwrap();
    let outcome = scene.outcome().await;
    assert_eq!(outcome.text, "Half of");
    assert!(matches!(outcome.ending, Ending::Lost(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_prompt_without_an_id_gets_one() {
    let (first, second): (MessageId, MessageId) = (client::id::message(), client::id::message());
    assert!(first < second);
}

/// The answers of a server that has the prompt and is idle.
fn known() -> Facts {
    let facts = Facts::default();
    facts.set("GET /session/ses_1/message/msg_5", json!({ "info": user(), "parts": [] }));
    facts.set("GET /session/ses_1/message", json!([{ "info": user(), "parts": [] }]));
    facts.set("GET /session/status", json!({}));
    facts.set("GET /permission", json!([]));
    facts.set("GET /question", json!([]));
    facts.set("GET /session/ses_1/turn", json!(404));
    facts
}

fn user() -> Value {
    json!({
        "id": PROMPT, "sessionID": "ses_1", "role": "user", "time": { "created": 1 }, "agent": "build",
        "model": { "providerID": "demo", "modelID": "demo" },
    })
}

#[tokio::test]
async fn a_prompt_that_never_arrived_is_sent_on_resumption() {
    let facts = known();
    facts.set("GET /session/ses_1/message/msg_5", json!(404));
    assert!(Scene::taken_up(facts).await.was_sent());
}

#[tokio::test]
async fn a_prompt_that_was_answered_meanwhile_is_reported_and_not_sent_again() {
    let facts = known();
    let answer = json!({ "info": step("msg_6", PROMPT), "parts": [text("prt_1", "msg_6", "Done.")] });
    facts.set("GET /session/ses_1/message", json!([{ "info": user(), "parts": [] }, answer]));
    let mut scene = Scene::taken_up(facts).await;
    let outcome = scene.outcome().await;
    assert_eq!((outcome.text.as_str(), outcome.ending), ("Done.", Ending::Complete));
    assert!(!scene.was_sent());
}

#[tokio::test]
async fn a_running_prompt_is_followed_with_the_requests_of_its_children() {
    let facts = known();
    facts.set("GET /session/status", json!({ "ses_1": { "type": "busy" } }));
    facts.set("GET /permission", json!([permission("ses_2")]));
    let child = json!({
        "id": "ses_2", "parentID": "ses_1", "slug": "s", "projectID": "p", "directory": "/", "title": "t",
        "version": "1", "time": { "created": 1, "updated": 1 },
    });
    facts.set("GET /session/ses_2", child);
    let mut scene = Scene::taken_up(facts).await;
    assert!(matches!(scene.next().await, Progress::Asked(Request::Permission(_))));
    scene.step("msg_6");
    scene.part(&text("prt_1", "msg_6", "Now."));
    scene.status(&json!({ "type": "idle" }));
    assert_eq!(scene.outcome().await.ending, Ending::Complete);
    assert!(!scene.was_sent());
}

#[tokio::test]
async fn a_prompt_whose_turn_ended_without_a_step_has_ended() {
    let facts = known();
    let turn = json!({
        "sessionID": "ses_1", "messageID": PROMPT, "prompt": "hi", "answer": "", "messages": [], "steps": 0,
        "tools": [], "tokens": {}, "cost": 0, "continued": 0, "end": "aborted",
    });
    facts.set("GET /session/ses_1/turn", turn);
    let mut scene = Scene::taken_up(facts).await;
    assert_eq!(scene.outcome().await.ending, Ending::Ended(EndReason::Aborted));
    assert!(!scene.was_sent());
}

#[tokio::test]
async fn a_prompt_that_the_server_has_forgotten_to_run_is_sent_again() {
    assert!(Scene::taken_up(known()).await.was_sent());
}
