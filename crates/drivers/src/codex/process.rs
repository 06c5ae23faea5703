//! One `codex app-server` with the thread of a session.

use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use protocol::request::Rule;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tracing::debug;

use super::policy::policy;
use super::translate::{TokenTotals, Translation};
use super::turn::Progress;
use super::wire::Notice;
use super::{ask, wire};
use crate::external::{Broken, IdleEvent, KeptProcess, Launch, Opened, Options, Timeouts};
use crate::jsonrpc::{self, Dialect, Incoming, RpcProcess};
use crate::roster::DEFAULT_MODEL;

/// The argument that makes Codex speak JSON-RPC.
const MODE: &str = "app-server";

/// The text of a wake-up.
const UNASKED: &str = "Codex began to work by itself.";

/// A request to Codex, with the data that its answer needs.
#[derive(Debug)]
pub(super) enum Call {
    /// `turn/start` or `thread/compact/start`: the turn begins with its answer.
    Start,
    /// `turn/steer` with an input that needs a separate turn if it cannot join.
    Steer(Vec<Value>),
    /// `turn/interrupt` of the session's own turn.
    Interrupt,
    /// A request whose answer does not matter.
    Other,
}

/// A message of Codex, or its answer to a request.
#[derive(Debug)]
pub struct Frame(pub(super) Received);

#[derive(Debug)]
pub(super) enum Received {
    Incoming(Incoming),
    Answered(Call, Result<Value, jsonrpc::Error>),
}

type Answered = (Call, Result<Value, jsonrpc::Error>);

/// A process with one thread.
#[derive(Debug)]
pub struct CodexProcess {
    link: RpcProcess,
    pub(super) options: Options,
    pub(super) thread: String,
    /// The model of the thread unless a turn names another one.
    pub(super) model: Option<String>,
    pub(super) directory: String,
    pub(super) translation: Translation,
    /// Codex begins further turns by itself until the goal of the thread is reached.
    pub(super) has_goal: bool,
    /// The turn that Codex has begun by itself and that no turn of the session follows yet.
    pub(super) begun: Option<String>,
    /// Requests that are being sent or wait for an answer.
    calls: FuturesUnordered<BoxFuture<'static, Answered>>,
    pub(super) turn: Progress,
}

#[derive(Deserialize)]
struct ThreadOpened {
    thread: Thread,
    #[serde(default)]
    model: Option<String>,
}

#[derive(Deserialize)]
struct Thread {
    id: String,
}

/// A thread that was resumed or begun.
struct Greeted {
    thread: ThreadOpened,
    counted: TokenTotals,
    lost: Option<String>,
}

impl CodexProcess {
    /// Starts Codex and resumes the thread with this id, or begins a new one.
    pub(super) async fn open(
        options: &Options,
        turn: &Turn,
        resume: Option<&str>,
    ) -> Result<Opened<Self>, String> {
        let directory = &turn.session.directory;
        let peer =
            jsonrpc::Options { dialect: Dialect::Bare, methods: ask::METHODS, ..jsonrpc::Options::default() };
        let mut link =
            RpcProcess::open(&launch(options, directory), peer).map_err(|failure| failure.to_string())?;
        let greeted = match greet(&link, options, turn, resume).await {
            Ok(greeted) => greeted,
            Err(jsonrpc::Error::Ended { .. }) => return Err(link.failure().await),
            Err(error) => return Err(format!("Codex: {error}")),
        };
        let Greeted { thread: ThreadOpened { thread: Thread { id }, model }, counted, lost } = greeted;
        let process = Self {
            link,
            options: options.clone(),
            model,
            directory: directory.clone(),
            translation: Translation::new(&id, directory, counted),
            has_goal: false,
            begun: None,
            calls: FuturesUnordered::new(),
            turn: Progress::default(),
            thread: id,
        };
        Ok(Opened { note: Some(process.thread.clone()), process, lost })
    }

    /// Queues a request. [`CodexProcess::receive`] sends it.
    pub(super) fn call(&mut self, call: Call, method: &'static str, params: Value) {
        let (peer, deadline) = (self.link.peer().clone(), self.options.timeouts.answer);
        let request = async move { (call, peer.request(method, params, deadline).await) };
        self.calls.push(request.boxed());
    }

    /// Forgets the requests that wait for an answer.
    pub(super) fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// Sends the queued requests and returns the next message or answer. Messages wait while a turn is being started,
    /// because the answer names the turn that they belong to.
    pub(super) async fn receive(&mut self) -> Result<Frame, Broken> {
        let can_read = !self.turn.is_starting;
        let received = tokio::select! {
            biased;
            Some((call, answer)) = self.calls.next() => {
                if matches!(call, Call::Start) {
                    self.turn.is_starting = false;
                    if let Err(jsonrpc::Error::Ended { .. }) = answer {
                        return Err(Broken::gone(self.link.failure().await));
                    }
                }
                Received::Answered(call, answer)
            }
            incoming = self.link.next(), if can_read => match incoming {
                Some(incoming) => Received::Incoming(incoming),
                None => return Err(Broken::gone(self.link.failure().await)),
            },
            else => std::future::pending().await,
        };
        Ok(Frame(received))
    }

    /// Returns true if a message between turns begins a turn.
    fn begins(&mut self, method: &str, params: Value) -> bool {
        let Ok(notification) = wire::notification(method, params) else { return false };
        if notification.thread.as_ref() == Some(&self.thread) {
            match notification.notice {
                Notice::Goal { active } => self.has_goal = active,
                Notice::TurnStarted => self.begun = notification.turn,
                _ => {}
            }
        }
        self.begun.is_some()
    }
}

impl KeptProcess for CodexProcess {
    async fn rest(&mut self) -> IdleEvent {
        loop {
            match self.link.next().await {
                None => return IdleEvent::Ended(self.link.failure().await),
                // No turn can answer it. Dropping the request answers it with an error.
                Some(Incoming::Asked(asked)) => debug!(asked.method, "Codex asks between turns"),
                Some(Incoming::Told { method, params }) => {
                    if self.begins(&method, params) {
                        return IdleEvent::Woke(UNASKED.to_owned());
                    }
                }
                Some(Incoming::Malformed(_)) => {}
            }
        }
    }

    async fn stop(self) {
        self.link.stop().await;
    }
}

async fn greet(
    link: &RpcProcess,
    options: &Options,
    turn: &Turn,
    resume: Option<&str>,
) -> Result<Greeted, jsonrpc::Error> {
    let Timeouts { start, answer, .. } = options.timeouts;
    let peer = link.peer();
    let hello = json!({
        "clientInfo": { "name": "baton", "title": "Baton", "version": env!("CARGO_PKG_VERSION") },
        "capabilities": { "experimentalApi": true },
    });
    peer.request("initialize", hello, start).await?;
    peer.notify("initialized", Value::Null, answer).await?;
    let mut lost = None;
    if let Some(thread) = resume {
        let mut params = settings(options, turn);
        params.insert("threadId".into(), thread.into());
        params.insert("excludeTurns".into(), true.into());
        match peer.request("thread/resume", params.into(), start).await {
            Ok(answer) => {
                let thread = opened("thread/resume", answer)?;
                return Ok(Greeted { thread, counted: TokenTotals::older(), lost });
            }
            Err(jsonrpc::Error::Refused { fault, .. }) => lost = Some(fault.message),
            Err(error) => return Err(error),
        }
    }
    let answer = peer.request("thread/start", settings(options, turn).into(), start).await?;
    let thread = opened("thread/start", answer)?;
    let counted = TokenTotals::fresh(&thread.thread.id);
    Ok(Greeted { thread, counted, lost })
}

fn opened(method: &str, answer: Value) -> Result<ThreadOpened, jsonrpc::Error> {
    serde_json::from_value(answer).map_err(|error| jsonrpc::Error::Refused {
        method: method.into(),
        fault: jsonrpc::ErrorObject::new(
            jsonrpc::INTERNAL_ERROR,
            format!("its answer contains no thread: {error}"),
        )
        .into(),
    })
}

fn launch(options: &Options, directory: &str) -> Launch {
    // A configured command may have the argument already.
    let has_mode = options.program.command.iter().any(|word| word == MODE);
    options.launch(directory, (!has_mode).then(|| MODE.to_owned()))
}

/// The settings of a thread.
fn settings(options: &Options, turn: &Turn) -> Map<String, Value> {
    let mut settings = Map::new();
    settings.insert("cwd".into(), turn.session.directory.as_str().into());
    if turn.model.model_id != DEFAULT_MODEL {
        settings.insert("model".into(), turn.model.model_id.as_str().into());
    }
    let own = turn.session.permission.iter().flatten();
    let rules: Vec<Rule> = options.program.rules.iter().chain(own).cloned().collect();
    let (approval, sandbox) = policy(options.program.mode, &rules);
    if let Some(approval) = approval {
        settings.insert("approvalPolicy".into(), approval.into());
    }
    if let Some(sandbox) = sandbox {
        settings.insert("sandbox".into(), sandbox.into());
    }
    settings
}
