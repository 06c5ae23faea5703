//! The test harness: an engine on an in-memory log, a scripted runner, and a subscriber to all events.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use engine::{
    Home, Parts, Sessions, Stream, StreamItem,
    bus::{Bus, Scope},
    lifecycle::continuation::ContinuationPolicy,
    limits::Limits,
    memory::Memory,
    ports::{
        Alone, Clock, Fence, Fleet, Hooks, Random, Resolved, Runner, Runners, StoreFuture, Unresolved,
        Wanted, own_workspace,
    },
    session::Turn,
};
use futures::{FutureExt, future::BoxFuture};
use protocol::{
    AgentEvent, EndReason, Event, EventBody, Millis, Session, SessionId, SessionStatus, TurnEnd, WorkspaceId,
    message::{Finish, ModelRef},
    number::Number,
    prompt::{CommandInput, PromptInput, SessionInput},
    session::Tokens,
};

use crate::file_history::FileHistory;

type Habit = Arc<dyn Fn(Turn) -> BoxFuture<'static, TurnEnd> + Send + Sync>;
type Script = Box<dyn FnOnce(Turn) -> BoxFuture<'static, TurnEnd> + Send>;

/// Runs the scripts it was given, one per run, in order.
#[derive(Default)]
pub(crate) struct Scripted {
    scripts: Mutex<VecDeque<Script>>,
    otherwise: Mutex<Option<Habit>>,
    /// Sessions that `forget` was called for.
    pub(crate) forgotten: Mutex<Vec<SessionId>>,
    hooks: Mutex<Option<Arc<dyn Hooks>>>,
    policy: Mutex<ContinuationPolicy>,
}

impl Runner for Scripted {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let script = self.scripts.lock().unwrap().pop_front();
        let otherwise = self.otherwise.lock().unwrap().clone();
        match (script, otherwise) {
            (Some(script), _) => script(turn),
            (None, Some(habit)) => habit(turn),
            (None, None) => say(turn, "ok").boxed(),
        }
    }
}

struct OneRunner(Arc<Scripted>);

impl Runners for OneRunner {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move {
            if wanted.agent.is_some_and(|agent| agent == "nobody") {
                return Err(Unresolved::Agent { name: "nobody".into(), known: "build".into() });
            }
            let model = wanted.model.cloned().unwrap_or_else(|| ModelRef::new("test", "model"));
            let mut resolved = Resolved::new(wanted.agent.unwrap_or("build"), model, self.0.clone());
            if let Some(hooks) = &*self.0.hooks.lock().unwrap() {
                resolved.hooks = hooks.clone();
            }
            resolved.continuation = self.0.policy.lock().unwrap().clone();
            Ok(resolved)
        }
        .boxed()
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        async move { self.0.forgotten.lock().unwrap().push(session.clone()) }.boxed()
    }

    /// `say` expands to its arguments.
    fn command<'a>(
        &'a self,
        _: &'a Session,
        input: &'a CommandInput,
    ) -> BoxFuture<'a, Result<PromptInput, Unresolved>> {
        let unknown = || Unresolved::Command { name: input.command.clone(), known: "say".into() };
        let known = input.command == "say";
        let prompt = known.then(|| PromptInput::text(&input.arguments)).ok_or_else(unknown);
        async move { prompt }.boxed()
    }
}

/// The time at which the clock of a new world begins.
const START: Millis = 1_794_724_000_000;

/// A clock that advances one millisecond with every read.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Millis {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A clock that follows the runtime's, which tests can pause.
struct Runtime(Millis, tokio::time::Instant);

impl Clock for Runtime {
    fn now(&self) -> Millis {
        self.0 + Millis::try_from(self.1.elapsed().as_millis()).unwrap()
    }
}

struct Counting(AtomicU64);

impl Random for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        let count = self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        for (byte, value) in bytes.iter_mut().zip(count) {
            *byte = value;
        }
    }
}

pub(crate) struct Harness {
    pub(crate) sessions: Sessions,
    pub(crate) memory: Arc<Memory>,
    pub(crate) runner: Arc<Scripted>,
    pub(crate) file_history: Arc<FileHistory>,
    stream: Stream,
    unread: VecDeque<Event>,
    /// The clock's first time; a restarted server's clock begins a day later.
    start: Millis,
    pub(crate) seen: Vec<Event>,
}

/// A node of a fleet, with its own directories.
#[derive(Debug)]
pub(crate) struct Node(pub(crate) &'static str);

impl Fleet for Node {
    fn workspace(&self, directory: &str) -> WorkspaceId {
        own_workspace(self.0, directory)
    }

    fn claim<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Fence> {
        Alone.claim(workspace)
    }
}

/// A node that has every workspace in custody: the files are on another node, which is away.
#[derive(Debug)]
pub(crate) struct Custodian;

impl Fleet for Custodian {
    fn workspace(&self, directory: &str) -> WorkspaceId {
        own_workspace("custodian", directory)
    }

    fn claim<'a>(&'a self, workspace: &'a WorkspaceId) -> StoreFuture<'a, Fence> {
        Alone.claim(workspace)
    }

    fn may_run(&self, _: &WorkspaceId) -> bool {
        false
    }
}

impl Harness {
    pub(crate) async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    /// A world with non-default limits.
    pub(crate) async fn with(limits: Limits) -> Self {
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(Memory::new(bus.clone()));
        Self::on(memory, bus, Arc::default(), START, limits).await
    }

    /// A world whose clock follows the runtime's.
    pub(crate) async fn timed() -> Self {
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(Memory::new(bus.clone()));
        let clock = Arc::new(Runtime(START, tokio::time::Instant::now()));
        Self::with_clock(memory, bus, Arc::default(), START, clock, Limits::default()).await
    }

    /// Kills the process at this instant and opens the same log in another one.
    pub(crate) async fn crash(self) -> Self {
        self.succeeded_by(Bus::default()).await
    }

    /// Kills the process and opens the same log on another node.
    pub(crate) async fn crash_to(self, fleet: Arc<dyn Fleet>) -> Self {
        self.succeeded_by(Bus::new(fleet)).await
    }

    async fn succeeded_by(self, bus: Bus) -> Self {
        let bus = Arc::new(bus);
        let memory = Arc::new(self.memory.reopen(bus.clone()));
        Self::on(memory, bus, self.file_history, self.start + 86_400_000, Limits::default()).await
    }

    async fn on(
        memory: Arc<Memory>,
        bus: Arc<Bus>,
        file_history: Arc<FileHistory>,
        start: Millis,
        limits: Limits,
    ) -> Self {
        let clock = Arc::new(Ticking(AtomicI64::new(start)));
        Self::with_clock(memory, bus, file_history, start, clock, limits).await
    }

    async fn with_clock(
        memory: Arc<Memory>,
        bus: Arc<Bus>,
        file_history: Arc<FileHistory>,
        start: Millis,
        clock: Arc<dyn Clock>,
        limits: Limits,
    ) -> Self {
        let runner = Arc::new(Scripted::default());
        let sessions = Sessions::new(Parts {
            log: memory.clone(),
            reads: memory.clone(),
            runners: Arc::new(OneRunner(runner.clone())),
            undo: file_history.clone(),
            clock,
            random: Arc::new(Counting(AtomicU64::new(0))),
            bus,
            limits,
            version: "0.0.0".into(),
        });
        let stream = sessions.subscribe(Scope::default(), None).await.unwrap();
        Self {
            sessions,
            memory,
            runner,
            file_history,
            stream,
            unread: VecDeque::new(),
            start,
            seen: Vec::new(),
        }
    }

    pub(crate) fn home() -> Home {
        Home { directory: "/project".into(), project: "global".into(), path: String::new() }
    }

    pub(crate) async fn session(&self) -> Session {
        self.sessions.create(Self::home(), SessionInput::default()).await.unwrap()
    }

    pub(crate) async fn child(&self, parent: &SessionId) -> Session {
        let input = SessionInput { parent_id: Some(parent.clone()), ..SessionInput::default() };
        self.sessions.create(Self::home(), input).await.unwrap()
    }

    /// Sets the script of the next run.
    pub(crate) fn script<F>(&self, script: impl FnOnce(Turn) -> F + Send + 'static)
    where
        F: Future<Output = TurnEnd> + Send + 'static,
    {
        self.runner.scripts.lock().unwrap().push_back(Box::new(move |turn| script(turn).boxed()));
    }

    /// Sets the behaviour of every run without a script.
    pub(crate) fn always(&self, habit: Habit) {
        *self.runner.otherwise.lock().unwrap() = Some(habit);
    }

    pub(crate) fn hook(&self, hooks: impl Hooks + 'static) {
        *self.runner.hooks.lock().unwrap() = Some(Arc::new(hooks));
    }

    /// Lets turns continue by themselves from now on.
    pub(crate) fn policy(&self, policy: ContinuationPolicy) {
        *self.runner.policy.lock().unwrap() = policy;
    }

    /// Submits without waiting for the answer.
    pub(crate) async fn submit(&self, session: &Session, text: &str) -> engine::Submitted {
        self.sessions.submit(&session.id, PromptInput::text(text)).await.unwrap()
    }

    /// Reads published events until one matches.
    pub(crate) async fn until(&mut self, fits: impl Fn(&EventBody) -> bool) -> Event {
        loop {
            while let Some(event) = self.unread.pop_front() {
                self.seen.push(event.clone());
                if fits(&event.body) {
                    return event;
                }
            }
            self.more().await;
        }
    }

    pub(crate) async fn until_idle(&mut self, session: &Session) {
        let id = session.id.clone();
        self.until(|body| matches!(body, EventBody::SessionIdle(it) if it.session_id == id)).await;
    }

    async fn more(&mut self) {
        let next = tokio::time::timeout(std::time::Duration::from_hours(2), self.stream.next());
        match next.await.expect("nothing happened for two hours").unwrap() {
            StreamItem::Frames(frames) => {
                self.unread.extend(
                    frames.iter().map(|frame| serde_json::from_slice::<Event>(frame.json()).unwrap()),
                );
            }
            other => panic!("the stream ended: {other:?}"),
        }
    }

    /// Takes all events published so far.
    pub(crate) fn drain(&mut self) {
        self.seen.extend(self.unread.drain(..));
        while let Some(item) = self.stream.next().now_or_never() {
            let StreamItem::Frames(frames) = item.unwrap() else { return };
            self.seen
                .extend(frames.iter().map(|frame| serde_json::from_slice::<Event>(frame.json()).unwrap()));
        }
    }

    /// A short form of the events that a client receives when it joins now.
    pub(crate) async fn told(&self, directory: &str, cursor: Option<u64>) -> String {
        let scope = self.sessions.scope(directory);
        let mut stream = self.sessions.subscribe(scope, cursor).await.unwrap();
        let mut told = Vec::new();
        while let Some(item) = stream.next().now_or_never() {
            let StreamItem::Frames(frames) = item.unwrap() else { panic!("the stream ended") };
            let events = frames.iter().map(|frame| serde_json::from_slice::<Event>(frame.json()).unwrap());
            told.extend(events.map(|event| word(&event.body)));
        }
        told.join(" · ")
    }

    /// A short form of all events of a session.
    pub(crate) fn story(&self, session: &SessionId) -> Vec<String> {
        self.seen
            .iter()
            .filter(|event| event.body.session_id() == Some(session))
            .map(|event| word(&event.body))
            .collect()
    }
}

fn word(body: &EventBody) -> String {
    match body {
        EventBody::SessionStatus(it) => match &it.status {
            SessionStatus::Idle { reason, .. } => format!("IDLE({})", reason.map_or("-", EndReason::as_str)),
            SessionStatus::Busy { .. } => "BUSY".into(),
            SessionStatus::Retry { attempt, .. } => format!("RETRY{attempt}"),
        },
        EventBody::MessageUpdated(it) => match &it.info {
            protocol::Message::User(_) => "user".into(),
            protocol::Message::Assistant(message) => {
                let done = if message.time.completed.is_some() { ",done" } else { "" };
                let error = if message.error.is_some() { ",error" } else { "" };
                format!("assistant[{}{done}{error}]", if message.finish.is_some() { "finish" } else { "-" })
            }
        },
        EventBody::PartUpdated(it) => match &it.part.body {
            protocol::PartBody::Tool(tool) => {
                let state = serde_json::to_value(&tool.state).unwrap();
                format!("{}:{}", tool.tool, state["status"].as_str().unwrap())
            }
            body => serde_json::to_value(body).unwrap()["type"].as_str().unwrap().to_owned(),
        },
        EventBody::PromptEnded(it) => format!("prompt.ended({})", it.reason.as_str()),
        other => other.kind().to_owned(),
    }
}

/// A complete step with the given text.
pub(crate) async fn step(turn: &Turn, text: &str, reason: Finish) {
    turn.emit(AgentEvent::step_started()).await;
    turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
    for word in text.split_inclusive(' ') {
        turn.emit(AgentEvent::TextDelta { key: "0".into(), delta: word.into() }).await;
    }
    turn.emit(AgentEvent::TextEnded { key: "0".into() }).await;
    turn.emit(finish(reason)).await;
}

pub(crate) fn finish(reason: Finish) -> AgentEvent {
    AgentEvent::StepFinished {
        reason,
        tokens: Tokens { input: 10, output: 2, ..Tokens::default() },
        cost: Number(0.5),
        snapshot: None,
        patch: None,
        error: None,
    }
}

pub(crate) async fn say(turn: Turn, text: &str) -> TurnEnd {
    step(&turn, text, Finish::Stop).await;
    TurnEnd::Completed
}
