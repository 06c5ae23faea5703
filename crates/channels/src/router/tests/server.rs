//! A scripted OpenCode-compatible server that records its calls.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse, Response},
};
use client::Client;
use futures::StreamExt;
use http::{Method, StatusCode, Uri, header};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// A received prompt.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    pub(super) session: String,
    pub(super) id: String,
    pub(super) body: Value,
}

impl Prompt {
    pub(super) fn text(&self) -> &str {
        self.body["parts"][0]["text"].as_str().unwrap()
    }
}

#[derive(Default)]
struct Facts {
    sessions: Vec<Value>,
    /// Messages by session.
    messages: BTreeMap<String, Vec<Value>>,
    statuses: BTreeMap<String, Value>,
    permissions: Vec<Value>,
    questions: Vec<Value>,
    prompts: Vec<Prompt>,
    /// Calls that changed something: `POST /session/ses_1/abort`, with the body if there is one.
    calls: Vec<String>,
    /// All events in order.
    events: Vec<String>,
    /// Path endings whose calls fail, with the status and the number of failures.
    faults: Vec<(String, u16, usize)>,
    /// Path ending whose calls are not answered for now.
    held: Option<String>,
    /// Number of opened event streams, and the number of the first that is not broken.
    streams: usize,
    unbroken: usize,
    steps: u64,
    /// Number of created sessions.
    made: u64,
}

#[derive(Clone)]
pub(super) struct Server {
    facts: Arc<Mutex<Facts>>,
    changes: watch::Sender<u64>,
    address: String,
    _task: Arc<Task>,
}

struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Clone)]
struct Shared {
    facts: Arc<Mutex<Facts>>,
    changes: watch::Sender<u64>,
}

impl Server {
    pub(super) async fn start() -> Self {
        let shared = Shared { facts: Arc::default(), changes: watch::Sender::new(0) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(serve).with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let Shared { facts, changes } = shared;
        Self { facts, changes, address, _task: Arc::new(Task(task)) }
    }

    pub(super) fn client(&self) -> Client {
        Client::new(&self.address).unwrap()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Facts) -> T) -> T {
        let result = change(&mut self.facts.lock().unwrap());
        self.changes.send_modify(|count| *count += 1);
        result
    }

    async fn wait<T>(&self, what: &str, found: impl Fn(&Facts) -> Option<T>) -> T {
        let mut changes = self.changes.subscribe();
        let waiting = async {
            loop {
                let now = found(&self.facts.lock().unwrap());
                if let Some(found) = now {
                    return found;
                }
                changes.changed().await.unwrap();
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        found.unwrap_or_else(|_| panic!("{what} did not happen: {:#?}", self.facts.lock().unwrap().calls))
    }

    /// Waits for the prompt with this number, counted from 0.
    pub(super) async fn prompt(&self, number: usize) -> Prompt {
        self.wait(&format!("prompt {number}"), |facts| facts.prompts.get(number).cloned()).await
    }

    pub(super) fn prompts(&self) -> Vec<Prompt> {
        self.facts.lock().unwrap().prompts.clone()
    }

    /// Waits for a call that changes something and begins like this.
    pub(super) async fn called(&self, beginning: &str) -> String {
        let found = |facts: &Facts| facts.calls.iter().find(|call| call.starts_with(beginning)).cloned();
        self.wait(beginning, found).await
    }

    pub(super) fn calls(&self, beginning: &str) -> usize {
        self.facts.lock().unwrap().calls.iter().filter(|call| call.starts_with(beginning)).count()
    }

    /// Makes the next `times` calls to a path with this ending fail.
    pub(super) fn fail(&self, ending: &str, status: u16, times: usize) {
        self.change(|facts| facts.faults.push((ending.to_owned(), status, times)));
    }

    /// Stops answering calls to a path with this ending.
    pub(super) fn hold(&self, ending: &str) {
        self.change(|facts| facts.held = Some(ending.to_owned()));
    }

    pub(super) fn let_go(&self) {
        self.change(|facts| facts.held = None);
    }

    /// Ends every open event stream.
    pub(super) fn break_streams(&self) {
        self.change(|facts| facts.unbroken = facts.streams);
    }

    /// Waits until `count` event streams were opened.
    pub(super) async fn connected(&self, count: usize) {
        self.wait("a connection", |facts| (facts.streams >= count).then_some(())).await;
    }

    pub(super) fn forget_session(&self, id: &str) {
        self.change(|facts| facts.sessions.retain(|session| session["id"] != id));
    }

    /// Updates a session's time.
    pub(super) fn touch(&self, id: &str, now: u64) {
        self.change(|facts| {
            for session in facts.sessions.iter_mut().filter(|session| session["id"] == id) {
                session["time"]["updated"] = now.into();
            }
        });
    }

    pub(super) fn publish(&self, kind: &str, properties: &Value) {
        self.change(|facts| facts.publish(kind, properties));
    }

    pub(super) fn status(&self, session: &str, status: &Value) {
        self.change(|facts| facts.status(session, status));
    }

    pub(super) fn busy(&self, session: &str) {
        self.status(session, &json!({ "type": "busy" }));
    }

    pub(super) fn idle(&self, session: &str) {
        self.status(session, &json!({ "type": "idle" }));
    }

    /// Adds a complete step with these parts to the answer, and returns the message's id.
    pub(super) fn step(&self, prompt: &Prompt, parts: &[Value]) -> String {
        self.change(|facts| facts.step(prompt, parts, None))
    }

    /// Sends the whole answer to a prompt, from busy to idle.
    pub(super) fn answer(&self, prompt: &Prompt, text: &str) {
        self.busy(&prompt.session);
        self.step(prompt, &[json!({ "type": "text", "text": text })]);
        self.idle(&prompt.session);
    }

    /// Lets a turn fail.
    pub(super) fn fail_turn(&self, prompt: &Prompt, error: &Value) {
        self.busy(&prompt.session);
        self.change(|facts| facts.step(prompt, &[], Some(error)));
        self.publish("session.error", &json!({ "sessionID": prompt.session, "error": error }));
        self.idle(&prompt.session);
    }

    /// Adds a child of a session.
    pub(super) fn child(&self, parent: &str, id: &str) {
        self.change(|facts| {
            let info = session(id, Some(parent));
            facts.sessions.push(info.clone());
            facts.publish("session.created", &json!({ "sessionID": id, "info": info }));
        });
    }

    pub(super) fn ask_permission(&self, id: &str, session: &str, command: &str) {
        let request = json!({
            "id": id, "sessionID": session, "permission": "bash", "patterns": [command],
            "metadata": { "command": command }, "always": ["cargo *"],
        });
        self.change(|facts| {
            facts.permissions.push(request.clone());
            facts.publish("permission.asked", &request);
        });
    }

    pub(super) fn ask_question(&self, id: &str, session: &str, questions: &Value) {
        let request = json!({ "id": id, "sessionID": session, "questions": questions });
        self.change(|facts| {
            facts.questions.push(request.clone());
            facts.publish("question.asked", &request);
        });
    }

    /// Answers a question as another client.
    pub(super) fn settle_question(&self, id: &str, session: &str) {
        self.change(|facts| {
            facts.questions.retain(|it| it["id"] != id);
            let replied = json!({ "sessionID": session, "requestID": id, "answers": [] });
            facts.publish("question.replied", &replied);
        });
    }

    /// Removes a request without an event.
    pub(super) fn lose_request(&self, id: &str) {
        self.change(|facts| {
            facts.questions.retain(|it| it["id"] != id);
            facts.permissions.retain(|it| it["id"] != id);
        });
    }
}

fn session(id: &str, parent: Option<&str>) -> Value {
    let mut session = json!({
        "id": id, "slug": "s", "projectID": "p", "directory": "/home/ada/project", "title": format!("Title of {id}"),
        "version": "1", "time": { "created": 1, "updated": 1 }, "model": { "id": "small", "providerID": "demo" },
        "tokens": { "input": 10, "output": 20, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
    });
    if let Some(parent) = parent {
        session["parentID"] = parent.into();
    }
    session
}

impl Facts {
    fn publish(&mut self, kind: &str, properties: &Value) {
        let id = format!("evt_{}", self.events.len());
        self.events.push(json!({ "id": id, "type": kind, "properties": properties }).to_string());
    }

    fn status(&mut self, session: &str, status: &Value) {
        if status["type"] == "idle" {
            self.statuses.remove(session);
        } else {
            self.statuses.insert(session.to_owned(), status.clone());
        }
        self.publish("session.status", &json!({ "sessionID": session, "status": status }));
        if status["type"] == "idle" {
            self.publish("session.idle", &json!({ "sessionID": session }));
        }
    }

    fn step(&mut self, prompt: &Prompt, parts: &[Value], error: Option<&Value>) -> String {
        self.steps += 1;
        let (id, steps) = (format!("msg_z{}", self.steps), self.steps);
        let mut info = json!({
            "id": id, "sessionID": prompt.session, "role": "assistant", "parentID": prompt.id,
            "time": { "created": steps, "completed": steps }, "modelID": "small", "providerID": "demo", "mode": "build",
            "agent": "build", "path": { "cwd": "/", "root": "/" }, "cost": 0,
            "tokens": { "input": 1, "output": 1, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
        });
        if let Some(error) = error {
            info["error"] = error.clone();
        }
        self.publish("message.updated", &json!({ "sessionID": prompt.session, "info": info }));
        let mut stored = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let mut part = part.clone();
            part["id"] = format!("prt_{steps}_{index}").into();
            part["messageID"] = id.clone().into();
            part["sessionID"] = prompt.session.clone().into();
            let updated = json!({ "sessionID": prompt.session, "part": part, "time": steps });
            self.publish("message.part.updated", &updated);
            stored.push(part);
        }
        let message = json!({ "info": info, "parts": stored });
        self.messages.entry(prompt.session.clone()).or_default().push(message);
        id
    }

    fn user(&mut self, prompt: &Prompt) {
        let info = json!({
            "id": prompt.id, "sessionID": prompt.session, "role": "user", "time": { "created": 1 },
            "agent": "build", "model": { "providerID": "demo", "modelID": "small" },
        });
        let text = json!({
            "id": format!("prt_{}", prompt.id), "messageID": prompt.id, "sessionID": prompt.session,
            "type": "text", "text": prompt.body["parts"][0]["text"],
        });
        self.publish("message.updated", &json!({ "sessionID": prompt.session, "info": info }));
        let updated = json!({ "sessionID": prompt.session, "part": text, "time": 1 });
        self.publish("message.part.updated", &updated);
        let message = json!({ "info": info, "parts": [text] });
        self.messages.entry(prompt.session.clone()).or_default().push(message);
    }

    fn fault(&mut self, path: &str) -> Option<StatusCode> {
        let (_, status, times) =
            self.faults.iter_mut().find(|(it, _, left)| path.ends_with(it) && *left > 0)?;
        *times -= 1;
        StatusCode::from_u16(*status).ok()
    }

    fn get(&self, path: &[&str]) -> Option<Value> {
        let found = |id: &str| self.sessions.iter().find(|session| session["id"] == id).cloned();
        Some(match path {
            ["session"] => json!(self.sessions),
            ["session", "status"] => json!(self.statuses),
            ["session", id] => found(id)?,
            ["session", id, "message"] => json!(self.messages.get(*id).cloned().unwrap_or_default()),
            ["session", id, "message", message] => {
                let messages = self.messages.get(*id)?;
                messages.iter().find(|it| it["info"]["id"] == *message)?.clone()
            }
            ["session", _, "todo"] => json!([
                { "id": "1", "content": "a", "status": "completed", "priority": "high" },
                { "id": "2", "content": "b", "status": "pending", "priority": "high" },
            ]),
            ["session", _, "diff"] => {
                json!([{ "file": "a.rs", "patch": "--- a.rs\n+++ a.rs", "additions": 1, "deletions": 0 }])
            }
            ["permission"] => json!(self.permissions),
            ["question"] => json!(self.questions),
            ["agent"] => json!([
                { "name": "build", "mode": "primary", "description": "Does things", "permission": [], "options": {} },
                { "name": "explore", "mode": "subagent", "permission": [], "options": {} },
            ]),
            ["config", "providers"] => {
                json!({ "providers": [{ "id": "demo", "models": { "small": {}, "large": {} } }], "default": {} })
            }
            _ => return None,
        })
    }

    fn post(&mut self, path: &[&str], body: Value) -> Option<Value> {
        match path {
            ["session"] => {
                self.made += 1;
                let id = format!("ses_{}", self.made);
                self.sessions.push(session(&id, None));
                self.sessions.last().cloned()
            }
            ["session", id, "prompt_async"] => {
                let known = self.sessions.iter().any(|session| session["id"] == *id);
                let prompt =
                    Prompt { session: (*id).to_owned(), id: body["messageID"].as_str()?.to_owned(), body };
                if !known {
                    return None;
                }
                self.user(&prompt);
                self.prompts.push(prompt);
                Some(Value::Null)
            }
            ["session", id, "abort"] => {
                self.abort(id);
                Some(json!(true))
            }
            ["permission", id, "reply"] => {
                let index = self.permissions.iter().position(|it| it["id"] == *id)?;
                let request = self.permissions.remove(index);
                let replied = json!({
                    "sessionID": request["sessionID"], "requestID": id, "reply": body["reply"],
                });
                self.publish("permission.replied", &replied);
                Some(json!(true))
            }
            ["question", id, verb] => {
                let index = self.questions.iter().position(|it| it["id"] == *id)?;
                let request = self.questions.remove(index);
                let mut replied = json!({ "sessionID": request["sessionID"], "requestID": id });
                if *verb == "reply" {
                    replied["answers"] = body["answers"].clone();
                }
                let kind = if *verb == "reply" { "question.replied" } else { "question.rejected" };
                self.publish(kind, &replied);
                Some(json!(true))
            }
            _ => None,
        }
    }

    /// Aborts a running turn as OpenCode does: the answer carries the error.
    fn abort(&mut self, session: &str) {
        if !self.statuses.contains_key(session) {
            return;
        }
        let last = self.prompts.iter().rfind(|prompt| prompt.session == session).cloned();
        if let Some(prompt) = last {
            let error = json!({ "name": "MessageAbortedError", "data": { "message": "aborted" } });
            self.step(&prompt, &[], Some(&error));
        }
        self.questions.retain(|it| it["sessionID"] != session);
        self.status(session, &json!({ "type": "idle" }));
    }
}

async fn serve(State(shared): State<Shared>, method: Method, uri: Uri, body: Bytes) -> Response {
    let segments: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    if segments == ["event"] {
        return events(shared);
    }
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if method != Method::GET {
        let told = if body.is_null() { String::new() } else { format!(" {body}") };
        shared.facts.lock().unwrap().calls.push(format!("{method} {}{told}", uri.path()));
        shared.changes.send_modify(|count| *count += 1);
    }
    let is_held = || shared.facts.lock().unwrap().held.as_ref().is_some_and(|it| uri.path().ends_with(it));
    let mut changes = shared.changes.subscribe();
    while is_held() {
        changes.changed().await.unwrap();
    }
    let answer = {
        let mut facts = shared.facts.lock().unwrap();
        match facts.fault(uri.path()) {
            Some(status) => Err(status),
            None if method == Method::GET => facts.get(&segments).ok_or(StatusCode::NOT_FOUND),
            None => facts.post(&segments, body).ok_or(StatusCode::NOT_FOUND),
        }
    };
    shared.changes.send_modify(|count| *count += 1);
    match answer {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(status) => {
            let error = json!({ "name": "NotFoundError", "data": { "message": "not to be had" } });
            (status, axum::Json(error)).into_response()
        }
    }
}

/// Streams all further events until the client disconnects or the test breaks the stream.
fn events(shared: Shared) -> Response {
    let (seen, number) = {
        let mut facts = shared.facts.lock().unwrap();
        facts.streams += 1;
        (facts.events.len(), facts.streams)
    };
    shared.changes.send_modify(|count| *count += 1);
    let changes = shared.changes.subscribe();
    let connected =
        json!({ "id": "evt_connected", "type": "server.connected", "properties": {} }).to_string();
    let later = futures::stream::unfold((shared, changes, seen, number), next_event);
    let frames = futures::stream::iter([connected]).chain(later);
    let frames = frames.map(|event| Ok::<_, std::io::Error>(format!("data: {event}\n\n")));
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(frames)).into_response()
}

type Listening = (Shared, watch::Receiver<u64>, usize, usize);

async fn next_event((shared, mut changes, seen, number): Listening) -> Option<(String, Listening)> {
    loop {
        let (next, is_broken) = {
            let facts = shared.facts.lock().unwrap();
            (facts.events.get(seen).cloned(), number <= facts.unbroken)
        };
        match next {
            _ if is_broken => return None,
            Some(event) => return Some((event, (shared, changes, seen + 1, number))),
            None => changes.changed().await.ok()?,
        }
    }
}
