//! A node for tests: an engine on a record that it shares, behind a real listener, and the calls that reached it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::Body,
    extract::Request,
    middleware::{self, Next},
};
use engine::{
    Parts, Sessions,
    bus::Bus,
    limits::Limits,
    memory::Memory,
    ports::{
        Alone, Fence, Fleet, Log, Logged, NoUndo, Observer, Owner, Peer, Reads, StoreFuture, SystemClock,
        SystemRandom, own_workspace,
    },
};
use futures::{FutureExt, StreamExt, future};
use http::{HeaderMap, StatusCode, header};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use protocol::WorkspaceId;
use serde_json::{Value, json};
use server::{
    App, Facts,
    fleet::{Key, Options},
    instance::Everywhere,
    security::{AccessPolicy, Credentials, layer},
    serve::serve,
};
use tempfile::TempDir;
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::script::ScriptedAgents;

pub(super) const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const PASSWORD: &str = "correct-horse-battery";

pub(super) fn key() -> Key {
    Key::new(&"0123456789abcdef".repeat(2)).unwrap()
}

/// Passes the commits of one log to the buses of all nodes, and keeps them.
pub(super) struct All {
    buses: Vec<Arc<Bus>>,
    pub(super) events: Mutex<Vec<Logged>>,
}

impl Observer for All {
    fn committed(&self, events: Vec<Logged>) {
        for bus in &self.buses {
            bus.committed(events.clone());
        }
        self.events.lock().unwrap().extend(events);
    }
}

/// A fleet whose answers the test decides.
#[derive(Debug, Default)]
pub(super) struct Told {
    node: String,
    /// The next answers about a workspace; the last one stays. A workspace without answers belongs to this node.
    owners: Mutex<BTreeMap<WorkspaceId, VecDeque<Owner>>>,
    elsewhere: Mutex<BTreeMap<String, Vec<WorkspaceId>>>,
}

impl Told {
    pub(super) fn owners(&self, workspace: &WorkspaceId, owners: impl IntoIterator<Item = Owner>) {
        self.owners.lock().unwrap().insert(workspace.clone(), owners.into_iter().collect());
    }

    pub(super) fn elsewhere(&self, directory: &str, workspaces: impl IntoIterator<Item = WorkspaceId>) {
        self.elsewhere.lock().unwrap().insert(directory.to_owned(), workspaces.into_iter().collect());
    }
}

impl Fleet for Told {
    fn workspace(&self, directory: &str) -> WorkspaceId {
        own_workspace(&self.node, directory)
    }

    fn claim<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Fence> {
        future::ready(Ok(Fence { workspace: workspace.clone(), epoch: Alone::EPOCH })).boxed()
    }

    fn owner<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Owner> {
        let mut owners = self.owners.lock().unwrap();
        let next = owners.get_mut(workspace).map(|next| match next.len() {
            1 => next[0].clone(),
            _ => next.pop_front().unwrap(),
        });
        future::ready(Ok(next.unwrap_or(Owner::Here))).boxed()
    }

    fn elsewhere<'a>(&'a self, directory: &'a str) -> StoreFuture<'a, Vec<WorkspaceId>> {
        let found = self.elsewhere.lock().unwrap().get(directory).cloned();
        future::ready(Ok(found.unwrap_or_default())).boxed()
    }
}

/// The head of a call that reached a node.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) call: String,
    pub(super) headers: HeaderMap,
}

/// Options of a node.
pub(super) struct Start {
    pub(super) name: &'static str,
    pub(super) incarnation: u64,
    pub(super) key: Option<Key>,
}

impl Start {
    pub(super) fn of(name: &'static str) -> Self {
        Self { name, incarnation: 1, key: Some(key()) }
    }
}

pub(super) struct Node {
    pub(super) sessions: Sessions,
    pub(super) port: u16,
    name: &'static str,
    incarnation: u64,
    tree: TempDir,
    seen: Arc<Mutex<Vec<Head>>>,
    stop: CancellationToken,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Node {
    pub(super) async fn start<S: Log + Reads + 'static>(start: Start, store: Arc<S>, bus: Arc<Bus>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::listen(start, store, bus, listener)
    }

    pub(super) fn listen<S: Log + Reads + 'static>(
        start: Start,
        store: Arc<S>,
        bus: Arc<Bus>,
        listener: TcpListener,
    ) -> Self {
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
        let Start { name, incarnation, key } = start;
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().canonicalize().unwrap().to_str().unwrap().to_owned();
        let facts = Facts { version: "1.2.3".into(), directory, ..Facts::default() };
        let app = App::new(sessions.clone(), facts, Arc::new(Everywhere::default()));
        let app = app.with_fleet(Options { node: name.into(), incarnation, key });
        let policy = AccessPolicy::local().with_credentials(Credentials::new(None, PASSWORD));
        let policy = policy.with_tickets(app.terminals.tickets()).with_fleet(app.forwarding());
        let seen: Arc<Mutex<Vec<Head>>> = Arc::default();
        let router = layer(server::router(app), policy).layer(middleware::from_fn({
            let seen = seen.clone();
            move |call: Request, next: Next| {
                let head = Head {
                    call: format!("{} {}", call.method(), call.uri()),
                    headers: call.headers().clone(),
                };
                seen.lock().unwrap().push(head);
                next.run(call)
            }
        }));
        let (port, stop) = (listener.local_addr().unwrap().port(), CancellationToken::new());
        tokio::spawn(serve(listener, router, stop.clone().cancelled_owned()));
        Self { sessions, port, name, incarnation, tree, seen, stop }
    }

    pub(super) fn peer(&self) -> Peer {
        self.peer_at(self.port)
    }

    /// The same node at the port of a proxy.
    pub(super) fn peer_at(&self, port: u16) -> Peer {
        let address = format!("http://127.0.0.1:{port}");
        Peer { node: self.name.into(), incarnation: self.incarnation, address }
    }

    pub(super) fn directory(&self) -> String {
        self.tree.path().canonicalize().unwrap().to_str().unwrap().to_owned()
    }

    pub(super) fn workspace(&self) -> WorkspaceId {
        self.sessions.workspace(&self.directory())
    }

    /// Calls that reached this node and concern no greeting.
    pub(super) fn seen(&self) -> Vec<Head> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|head| !head.call.contains("/baton/fleet/")).cloned().collect()
    }

    pub(super) fn token(&self) -> String {
        let token = |head: &Head| Some(head.headers.get("x-baton-fleet")?.to_str().unwrap().to_owned());
        self.seen().iter().rev().find_map(token).unwrap()
    }

    /// Calls as a client with the password.
    pub(super) async fn call(&self, method: &str, path: &str, body: impl Into<Option<Value>>) -> Answer {
        let credentials = Credentials::new(None, PASSWORD).unwrap().header();
        self.send(method, path, body, &[("authorization", &credentials)]).await
    }

    pub(super) async fn expect(
        &self,
        status: u16,
        method: &str,
        path: &str,
        body: impl Into<Option<Value>>,
    ) -> Value {
        let answer = self.call(method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        answer.body
    }

    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        body: impl Into<Option<Value>>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut call =
            http::Request::builder().method(method).uri(format!("http://127.0.0.1:{}{path}", self.port));
        for (name, value) in headers {
            call = call.header(*name, *value);
        }
        let call = match body.into() {
            Some(body) => call
                .header(header::CONTENT_TYPE, "application/json")
                .body(Body::from(body.to_string()))
                .unwrap(),
            None => call.body(Body::empty()).unwrap(),
        };
        let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
        let answered = timeout(PATIENCE, async {
            let response = client.request(call).await.unwrap();
            let (parts, body) = response.into_parts();
            let bytes = axum::body::to_bytes(Body::new(body), usize::MAX).await.unwrap();
            let body =
                serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
            Answer { status: parts.status, headers: parts.headers, body }
        });
        answered.await.unwrap_or_else(|_| panic!("{method} {path} hangs"))
    }

    pub(super) async fn session(&self) -> String {
        self.expect(200, "POST", "/session", json!({})).await["id"].as_str().unwrap().to_owned()
    }

    /// Opens an event stream.
    pub(super) async fn follow(&self, path: &str) -> Events {
        let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
        let call = http::Request::get(format!("http://127.0.0.1:{}{path}", self.port))
            .header("authorization", Credentials::new(None, PASSWORD).unwrap().header());
        let response = client.request(call.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        Events { body: Body::new(response.into_body()).into_data_stream(), text: String::new() }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

/// The text of an event stream.
pub(super) struct Events {
    body: axum::body::BodyDataStream,
    text: String,
}

impl Events {
    /// Reads until the text contains these words.
    pub(super) async fn until(&mut self, words: &str) -> &str {
        let read = async {
            while !self.text.contains(words) {
                let chunk = self.body.next().await.expect("the stream ended").unwrap();
                self.text.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        let found = timeout(PATIENCE, read).await;
        assert!(found.is_ok(), "no {words:?} in {}", self.text);
        &self.text
    }

    /// Reads to the end, which is an error unless the server has closed the stream.
    pub(super) async fn ended(mut self) -> bool {
        let read = async { while let Some(Ok(_)) = self.body.next().await {} };
        timeout(PATIENCE, read).await.is_ok()
    }
}

/// Two nodes on one record in memory. `a` knows `b` as the owner of `b`'s directory.
pub(super) struct Pair {
    pub(super) a: Node,
    pub(super) b: Node,
    pub(super) fleet: Arc<Told>,
    pub(super) other: Arc<Told>,
    pub(super) memory: Arc<Memory>,
    pub(super) log: Arc<All>,
}

impl Pair {
    pub(super) async fn start() -> Self {
        Self::of(Start::of("a"), Start::of("b")).await
    }

    pub(super) async fn of(a: Start, b: Start) -> Self {
        let told = |node: &str| Arc::new(Told { node: node.into(), ..Told::default() });
        let (fleet, other) = (told(a.name), told(b.name));
        let buses = [Arc::new(Bus::new(fleet.clone())), Arc::new(Bus::new(other.clone()))];
        let log = Arc::new(All { buses: buses.to_vec(), events: Mutex::default() });
        let memory = Arc::new(Memory::new(log.clone()));
        let [first, second] = buses;
        let a = Node::start(a, memory.clone(), first).await;
        let b = Node::start(b, memory.clone(), second).await;
        fleet.owners(&b.workspace(), [Owner::Peer(b.peer())]);
        Self { a, b, fleet, other, memory, log }
    }
}
