//! A fake OpenCode server that is controlled by a script.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::ports::{SystemClock, SystemRandom};
use futures::stream::{self, StreamExt};
use protocol::config::PermissionMode;
use protocol::request::Rule;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tokio::time::timeout;

use crate::external::{Driver, Options};
use crate::opencode::status_checks::Pace;
use crate::opencode::{ABILITIES, OpenCode, Remote, Timeouts};
use crate::roster::{About, Program};

/// A timeout that must not expire, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// The id of the session at the fake server.
pub(super) const SESSION: &str = "ses_there";

fn driver(agent: OpenCode) -> Driver<OpenCode> {
    Driver::new(agent, Arc::new(SystemClock), Arc::new(|_, _| {}))
}

/// One action of the server.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// Waits for the next prompt.
    Prompted,
    /// Waits until so many calls contain this text.
    Called(&'static str, usize),
    /// Sends an event to every open stream.
    Say(Value),
    /// Sends these bytes.
    Raw(Vec<u8>),
    /// Sends a line of so many megabytes.
    Flood(usize),
    /// Closes every event stream.
    Cut,
    /// Answers status calls with this value.
    Statuses(Value),
    /// Answers calls for messages with this value.
    Messages(Value),
    /// Answers calls that contain this text with this status and body from now on.
    Answer(&'static str, u16, &'static str),
    /// Never answers calls that contain this text.
    Hang(&'static str),
}

#[derive(Debug, Clone)]
enum Frame {
    Bytes(Bytes),
    End,
}

#[derive(Debug)]
struct Shared {
    frames: broadcast::Sender<Frame>,
    calls: watch::Sender<Vec<String>>,
    prompts: watch::Sender<Vec<String>>,
    statuses: Mutex<Value>,
    messages: Mutex<Value>,
    answers: Mutex<HashMap<&'static str, Option<(u16, &'static str)>>>,
}

#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) address: String,
    shared: Arc<Shared>,
    serving: tokio::task::JoinHandle<()>,
}

impl Fake {
    pub(crate) async fn new() -> Self {
        let shared = Arc::new(Shared {
            frames: broadcast::channel(4_096).0,
            calls: watch::Sender::default(),
            prompts: watch::Sender::default(),
            statuses: Mutex::new(json!({})),
            messages: Mutex::new(json!([])),
            answers: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(call).with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, serving }
    }

    /// A runner that calls this server.
    pub(crate) fn runner(&self) -> Driver<OpenCode> {
        driver(self.agent())
    }

    fn agent(&self) -> OpenCode {
        let remote = Remote { address: self.address.clone(), user: None, password: None };
        self.agent_of(self.program(Vec::new()), Some(remote))
    }

    pub(crate) fn program(&self, command: Vec<String>) -> Program {
        Program {
            command,
            environment: [("FAKE_URL".to_owned(), self.address.clone())].into(),
            hidden: Vec::new(),
            rules: Vec::new(),
            mode: PermissionMode::Ask,
            idle: Duration::from_hours(1),
        }
    }

    pub(super) fn runner_of(&self, program: Program, remote: Option<Remote>) -> Driver<OpenCode> {
        driver(self.agent_of(program, remote))
    }

    #[expect(clippy::unused_self, reason = "agents in tests are made by the server they talk to")]
    pub(super) fn agent_of(&self, program: Program, remote: Option<Remote>) -> OpenCode {
        let about = About {
            id: "opencode-agent".into(),
            name: "OpenCode".into(),
            description: String::new(),
            models: vec!["default".into()],
            has_providers: true,
            abilities: ABILITIES,
        };
        let options = Options::new(about, program);
        OpenCode::new(options, remote, Arc::new(SystemClock), Arc::new(SystemRandom))
    }

    /// A runner that calls this server and does not wait long for an answer.
    pub(super) fn hasty_runner(&self) -> Driver<OpenCode> {
        let timeouts = Timeouts { call: Duration::from_secs(2), ..Timeouts::default() };
        driver(OpenCode { timeouts, ..self.agent() })
    }

    /// A runner with these settings, which soon gives up a server that it cannot reach any more.
    pub(crate) fn tuned_runner(&self, options: Options) -> Driver<OpenCode> {
        let timeouts = Timeouts { lost: Duration::from_secs(1), ..Timeouts::default() };
        driver(OpenCode { options, timeouts, ..self.agent() })
    }

    /// A runner that calls this server and checks its status with these delays.
    pub(super) fn paced_runner(&self, pace: Pace) -> Driver<OpenCode> {
        driver(OpenCode { timeouts: Timeouts { pace, ..Timeouts::default() }, ..self.agent() })
    }

    /// A runner that calls this server and has permission rules.
    pub(super) fn ruled_runner(&self, rules: Vec<Rule>) -> Driver<OpenCode> {
        let mut agent = self.agent();
        agent.options.program.rules = rules;
        driver(agent)
    }

    /// Plays a script. In events `$P` is the last prompt, and `$A`, `$B`, … are messages that answer it.
    pub(super) async fn play(&self, script: Vec<Act>) {
        let mut prompts = 0;
        for act in script {
            match act {
                Act::Prompted => {
                    prompts += 1;
                    self.prompted(prompts).await;
                }
                Act::Called(part, count) => self.called(part, count).await,
                Act::Say(event) => self.say(&self.filled(&event.to_string())),
                Act::Raw(bytes) => self.send(Frame::Bytes(bytes.into())),
                Act::Flood(megabytes) => {
                    self.send(Frame::Bytes("data: ".into()));
                    let megabyte = Bytes::from(vec![b'a'; 1 << 20]);
                    (0..megabytes).for_each(|_| self.send(Frame::Bytes(megabyte.clone())));
                }
                Act::Cut => self.send(Frame::End),
                Act::Statuses(statuses) => *self.shared.statuses.lock().unwrap() = statuses,
                Act::Messages(messages) => {
                    let filled = serde_json::from_str(&self.filled(&messages.to_string())).unwrap();
                    *self.shared.messages.lock().unwrap() = filled;
                }
                Act::Answer(part, status, body) => {
                    self.shared.answers.lock().unwrap().insert(part, Some((status, body)));
                }
                Act::Hang(part) => {
                    self.shared.answers.lock().unwrap().insert(part, None);
                }
            }
        }
    }

    /// Answers calls that contain this text with an error from now on.
    pub(crate) fn refuse(&self, part: &'static str, status: u16) {
        self.shared.answers.lock().unwrap().insert(part, Some((status, "{}")));
    }

    /// Answers every call as usual from now on.
    pub(crate) fn refuse_nothing(&self) {
        self.shared.answers.lock().unwrap().clear();
    }

    /// Sets the status of the session.
    pub(super) fn set_busy(&self, is_busy: bool) {
        let statuses = if is_busy { json!({ SESSION: { "type": "busy" } }) } else { json!({}) };
        *self.shared.statuses.lock().unwrap() = statuses;
    }

    /// Closes every event stream, serves these messages afterwards, and waits until the runner has read them.
    pub(super) async fn cut(&self, messages: Value) {
        *self.shared.messages.lock().unwrap() = messages;
        let listened = self.calls().iter().filter(|call| call.starts_with("GET /event")).count();
        let asked = self.calls().iter().filter(|call| call.starts_with("GET /session/status")).count();
        self.send(Frame::End);
        self.called("GET /event", listened + 1).await;
        self.called("GET /session/status", asked + 1).await;
    }

    /// Sends an event, as JSON, to every open stream.
    pub(super) fn say(&self, event: &str) {
        self.send(Frame::Bytes(format!("data: {event}\n\n").into()));
    }

    fn send(&self, frame: Frame) {
        // There may be no open stream.
        let _ = self.shared.frames.send(frame);
    }

    /// Waits for so many prompts and returns the id of the last one.
    pub(super) async fn prompted(&self, count: usize) -> String {
        let mut prompts = self.shared.prompts.subscribe();
        let waited = timeout(PATIENCE, prompts.wait_for(|prompts| prompts.len() >= count)).await;
        waited.expect("a prompt").unwrap()[count - 1].clone()
    }

    /// Waits until `count` calls contain this text.
    pub(super) async fn called(&self, part: &str, count: usize) {
        let mut calls = self.shared.calls.subscribe();
        let enough = |calls: &Vec<String>| calls.iter().filter(|call| call.contains(part)).count() >= count;
        let waited = timeout(PATIENCE, calls.wait_for(enough)).await;
        assert!(waited.is_ok(), "no {part} among {:?}", self.calls());
    }

    /// All calls so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.shared.calls.borrow().clone()
    }

    fn filled(&self, text: &str) -> String {
        let prompts = self.shared.prompts.borrow();
        let prompt = prompts.last().map_or("msg_none", String::as_str);
        let mut text = text.replace("$P", prompt);
        for letter in 'A'..='E' {
            text = text.replace(&format!("${letter}"), &format!("{prompt}{}", letter.to_ascii_lowercase()));
        }
        text
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn call(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let body = to_bytes(body, 1 << 20).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let name = format!("{} {path} {body}", head.method);
    shared.calls.send_modify(|calls| calls.push(name.clone()));
    let ordered = {
        let answers = shared.answers.lock().unwrap();
        answers.iter().find(|(part, _)| name.contains(**part)).map(|(_, answer)| *answer)
    };
    match ordered {
        Some(Some((status, text))) => return (StatusCode::from_u16(status).unwrap(), text).into_response(),
        Some(None) => std::future::pending::<()>().await,
        None => {}
    }
    let get = head.method == Method::GET;
    match path.as_str() {
        "/event" => events(&shared),
        "/session/status" => json_of(&shared.statuses.lock().unwrap()),
        "/permission" | "/question" if get => json_of(&json!([])),
        "/session" => json_of(&session()),
        path if path.ends_with("/prompt_async") => {
            let id = body["messageID"].as_str().unwrap_or_default().to_owned();
            shared.prompts.send_modify(|prompts| prompts.push(id));
            StatusCode::NO_CONTENT.into_response()
        }
        path if path.ends_with("/message") => json_of(&shared.messages.lock().unwrap()),
        path if path.ends_with("/todo") => json_of(&json!([])),
        path if get && path.starts_with("/session/") => json_of(&session()),
        _ => json_of(&json!(true)),
    }
}

fn events(shared: &Shared) -> Response {
    let listening = shared.frames.subscribe();
    let connected =
        Frame::Bytes("data: {\"id\":\"evt_1\",\"type\":\"server.connected\",\"properties\":{}}\n\n".into());
    let rest = stream::unfold(listening, |mut listening| async move {
        match listening.recv().await {
            Ok(Frame::Bytes(bytes)) => Some((Frame::Bytes(bytes), listening)),
            _ => None,
        }
    });
    let frames = stream::iter([connected]).chain(rest).filter_map(|frame| async move {
        match frame {
            Frame::Bytes(bytes) => Some(Ok::<_, Infallible>(bytes)),
            Frame::End => None,
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response()
}

fn json_of(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn session() -> Value {
    json!({
        "id": SESSION, "slug": "s", "projectID": "global", "directory": "/", "title": "New session - 1",
        "version": "1.18.33", "time": { "created": 1, "updated": 1 },
    })
}
