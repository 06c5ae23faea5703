//! A complete server for tests.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request};
use engine::{
    Parts, Sessions,
    bus::Bus,
    limits::Limits,
    memory::{Faults, Memory},
    ports::{Log, NoUndo, Reads, SystemClock, SystemRandom},
};
use http::{HeaderMap, StatusCode, header};
use protocol::agent::{Agent, AgentMode};
use serde_json::{Value, json};
use server::{App, Facts, Instance, Instances, instance::Everywhere, terminals::Terminals};
use store::sqlite::{Options, Sqlite};
use tempfile::TempDir;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower::ServiceExt;
use workspace::files::Closed;
use workspace::process::{self, Exit, Spec};

use crate::{mcp::Pretended, script::ScriptedAgents};

/// Longer than any step takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A directory in every world's tree that no route may show.
pub(crate) const CLOSED: &str = "closed";

/// A server, its store and the directory in which it was started.
pub(crate) struct Harness {
    pub(crate) router: Router,
    pub(crate) sessions: Sessions,
    pub(crate) terminals: Terminals,
    pub(crate) tree: TempDir,
    memory: Option<Arc<Memory>>,
    /// Directory of worktrees, removed with the world.
    _worktrees: TempDir,
    /// Directory of the database, if there is one, removed with the world.
    _file: Option<TempDir>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.bytes)))
    }
}

pub(crate) fn provider() -> Value {
    let modalities = json!({ "text": true, "audio": false, "image": false, "video": false, "pdf": false });
    json!({
        "id": "demo", "name": "Demo", "source": "env", "env": ["DEMO_KEY"], "options": { "apiKey": "sk-secret" },
        "models": { "demo": {
            "id": "demo", "providerID": "demo", "name": "Demo", "status": "active", "release_date": "2026-01-01",
            "api": { "id": "demo", "url": "", "npm": "" }, "options": {}, "headers": {},
            "capabilities": {
                "temperature": false, "reasoning": true, "attachment": false, "toolcall": true,
                "input": modalities, "output": modalities, "interleaved": false,
            },
            "cost": { "input": 0, "output": 0, "cache": { "read": 0, "write": 0 } },
            "limit": { "context": 100_000, "output": 10_000 },
        } },
    })
}

/// The same provider and two agents in every directory.
fn instances() -> Arc<dyn Instances> {
    let instance = Instance {
        providers: vec![serde_json::from_value(provider()).unwrap()],
        default_models: BTreeMap::from([("demo".into(), "demo".into())]),
        agents: vec![Agent::new("build", AgentMode::Primary), Agent::new("plan", AgentMode::Primary)],
        config: json!({ "model": "demo/demo", "username": "ada", "apiKey": "sk-secret" }),
        mcp: Some(Arc::new(Pretended::default())),
        hidden: vec!["CARGO_PKG_NAME".into()],
        ..Instance::default()
    };
    Arc::new(Everywhere::from(instance))
}

impl Harness {
    /// A server with its store in memory.
    pub(crate) fn new() -> Self {
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(Memory::new(bus.clone()));
        Self { memory: Some(memory.clone()), ..Self::on(memory, bus, instances()) }
    }

    /// The same with custom instances.
    pub(crate) fn with(instances: Arc<dyn Instances>) -> Self {
        let bus = Arc::new(Bus::default());
        Self::on(Arc::new(Memory::new(bus.clone())), bus, instances)
    }

    /// A server on a real database.
    pub(crate) fn on_disk() -> Self {
        let (bus, file) = (Arc::new(Bus::default()), tempfile::tempdir().unwrap());
        let store = Sqlite::open(&file.path().join("baton.db"), Options::default(), bus.clone()).unwrap();
        Self { _file: Some(file), ..Self::on(store, bus, instances()) }
    }

    fn on<S: Log + Reads + 'static>(store: Arc<S>, bus: Arc<Bus>, instances: Arc<dyn Instances>) -> Self {
        let (tree, worktrees) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directory = tree.path().canonicalize().unwrap().to_str().unwrap().to_owned();
        let sessions = Sessions::new(Parts {
            log: store.clone(),
            reads: store,
            runners: Arc::new(ScriptedAgents),
            undo: Arc::new(NoUndo),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            bus,
            limits: Limits::default(),
            version: "1.2.3".into(),
        });
        let facts = Facts {
            version: "1.2.3".into(),
            home: "/people/ada".into(),
            state: "/people/ada/.local/state/baton".into(),
            worktrees: worktrees.path().to_str().unwrap().to_owned(),
            closed: Closed::new([tree.path().join(CLOSED)], []),
            config_path: "/people/ada/.config/baton".into(),
            shell: Some("/bin/sh".into()),
            directory,
        };
        let app = App::new(sessions.clone(), facts, instances);
        let terminals = app.terminals.clone();
        let (router, memory) = (server::router(app), None);
        Self { router, sessions, terminals, tree, memory, _worktrees: worktrees, _file: None }
    }

    /// Faults to inject into the store.
    pub(crate) fn faults(&self) -> &Faults {
        self.memory.as_ref().unwrap().faults()
    }

    pub(crate) fn directory(&self) -> String {
        self.tree.path().canonicalize().unwrap().to_str().unwrap().to_owned()
    }

    /// Makes the directory a repository with one commit.
    pub(crate) async fn commit(&self) {
        let command = "-c user.name=Ada -c user.email=ada@example.org commit -q --allow-empty -m first";
        for args in ["init -q -b main", "add .", command] {
            let spec = Spec::new("git", self.tree.path(), PATIENCE).args(args.split(' '));
            let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
            assert_eq!(done.exit, Exit::Code(0), "git {args}: {}", done.output.text());
        }
    }

    /// Calls the terminal interface repeatedly, here and at the root, so that polls for the next call return.
    pub(crate) fn busybody(&self) -> AbortOnDropHandle<()> {
        let (router, here) = (self.router.clone(), self.directory());
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                for directory in [here.as_str(), "/"] {
                    let call = Request::post(format!("/tui/open-help?directory={directory}"));
                    router.clone().oneshot(call.body(Body::empty()).unwrap()).await.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }))
    }

    /// Sends a call unchanged.
    pub(crate) async fn send(&self, call: Request<Body>) -> Answer {
        let shown = format!("{} {}", call.method(), call.uri());
        let answer = async {
            let response = self.router.clone().oneshot(call).await.unwrap();
            let (parts, body) = response.into_parts();
            if parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
                // An event stream has no end, so the body is not read.
                return Answer { status: parts.status, headers: parts.headers, bytes: Vec::new() };
            }
            let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
            Answer { status: parts.status, headers: parts.headers, bytes }
        };
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("{shown} hangs"))
    }

    /// Sends a call with or without a JSON body.
    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<Option<Value>>) -> Answer {
        let call = Request::builder().method(method).uri(path);
        let call = match body.into() {
            Some(body) => call
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from(body.to_string()))
                .unwrap(),
            None => call.body(Body::empty()).unwrap(),
        };
        self.send(call).await
    }

    /// Calls and asserts the status.
    pub(crate) async fn expect(
        &self,
        status: u16,
        method: &str,
        path: &str,
        body: impl Into<Option<Value>>,
    ) -> Value {
        let answer = self.call(method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", String::from_utf8_lossy(&answer.bytes));
        if answer.bytes.is_empty() { Value::Null } else { answer.json() }
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.expect(200, "GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        self.expect(200, "POST", path, body).await
    }

    /// Creates a session and returns its id.
    pub(crate) async fn session(&self) -> String {
        self.post("/session", json!({})).await["id"].as_str().unwrap().to_owned()
    }

    /// Submits a prompt without waiting for the answer.
    pub(crate) async fn submit(&self, session: &str, text: &str) {
        self.expect(204, "POST", &format!("/session/{session}/prompt_async"), prompt(text)).await;
    }

    /// Repeats the call until `done` is true.
    pub(crate) async fn until(&self, path: &str, done: impl Fn(&Value) -> bool) -> Value {
        let poll = async {
            loop {
                let value = self.get(path).await;
                if done(&value) {
                    return value;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, poll)
            .await
            .unwrap_or_else(|_| panic!("{path} never reached the expected state"))
    }

    /// Waits until no session is busy.
    pub(crate) async fn idle(&self) {
        self.until("/session/status", |status| *status == json!({})).await;
    }

    /// Replaces ids by numbers per kind and hides times, directories and slugs, for snapshots.
    pub(crate) fn redact(&self, value: &Value) -> Value {
        let mut seen = Vec::new();
        redact(value, &self.directory(), &mut seen)
    }
}

/// A prompt with one text part.
pub(crate) fn prompt(text: &str) -> Value {
    json!({ "parts": [{ "type": "text", "text": text }] })
}

fn redact(value: &Value, directory: &str, seen: &mut Vec<String>) -> Value {
    const KINDS: [&str; 5] = ["ses_", "msg_", "prt_", "per_", "que_"];
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                let name = redact(&json!(name), directory, seen).as_str().unwrap().to_owned();
                let value = match name.as_str() {
                    "slug" => json!("[slug]"),
                    _ => redact(value, directory, seen),
                };
                (name, value)
            };
            Value::Object(fields.iter().map(field).collect())
        }
        Value::Array(items) => items.iter().map(|item| redact(item, directory, seen)).collect(),
        Value::Number(number) if number.as_f64().is_some_and(|number| number > 1e12) => json!("[time]"),
        Value::String(text) => {
            if let Some(kind) = KINDS.iter().find(|kind| text.starts_with(**kind) && text.len() == 30) {
                if !seen.contains(text) {
                    seen.push(text.clone());
                }
                let same = seen.iter().filter(|other| other.starts_with(*kind));
                return json!(format!("{kind}{}", same.take_while(|other| *other != text).count() + 1));
            }
            let text = text.replace(directory, "[directory]").replace(&directory[1..], "[directory]");
            match text.split_once(" session - ") {
                Some((kind, _)) => json!(format!("{kind} session - [time]")),
                None => json!(text),
            }
        }
        other => other.clone(),
    }
}
