//! A test harness: a project in a temporary directory, an engine with the native loop, and a client that
//! records events and answers requests.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use engine::bus::Bus;
use engine::limits::Limits;
use engine::memory::Memory;
use engine::ports::{
    Clock, Hooks, NoHooks, NoUndo, Page, Random, Resolved, Runners, SystemRandom, Undo, Unresolved, Wanted,
};
use engine::{Home, Parts, Sessions};
use futures::future::{BoxFuture, FutureExt};
use llm::Model;
use llm::demo::{Demo, Scenarios};
use protocol::agent::Command;
use protocol::message::ModelRef;
use protocol::prompt::{CommandInput, PromptInput, SessionInput};
use protocol::request::PermissionReply;
use protocol::{
    EndReason, Event, EventBody, Message, MessageWithParts, Millis, Part, PartBody, Session, SessionId,
    SessionStatus, ToolState,
};
use tempfile::TempDir;
use testkit::published::{self, Published};
use tokio::time::Instant;

use crate::{Native, Options, built_in, commands};

/// Time after which the engine drops a cancelled runner. So long that no load of the machine uses it up.
const GRACE: Duration = Duration::from_hours(1);

fn limits() -> Limits {
    Limits { runner_grace: GRACE, ..Limits::default() }
}

/// The user's reaction to permission requests and questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Responder {
    AllowOnce,
    AllowAlways,
    Reject,
    RejectWithFeedback,
}

pub(super) struct Harness {
    pub(super) sessions: Sessions,
    pub(super) project: TempDir,
    native: Native,
    pub(super) memory: Arc<Memory>,
    published: Published,
    pub(super) seen: Vec<Event>,
}

struct OneRunner(Native, Vec<Command>, Arc<dyn Hooks>);

impl Runners for OneRunner {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move {
            let model = wanted.model.cloned().unwrap_or_else(|| ModelRef::new("demo", "simple"));
            let agent = wanted.agent.unwrap_or("build").to_owned();
            let hooks = Arc::clone(&self.2);
            Ok(Resolved { hooks, ..Resolved::new(agent, model, Arc::new(self.0.clone())) })
        }
        .boxed()
    }

    fn command<'a>(
        &'a self,
        session: &'a Session,
        input: &'a CommandInput,
    ) -> BoxFuture<'a, Result<PromptInput, Unresolved>> {
        let servers = &self.0.0.options.mcp;
        async move { commands::resolve(&self.1, servers, &built_in(&[]), &session.directory, input).await }
            .boxed()
    }
}

/// A clock that advances by one millisecond with every reading.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Millis {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// No jitter, so that retry delays are the same in every run.
struct Zeros;

impl Random for Zeros {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

impl Harness {
    pub(super) async fn new() -> Self {
        Self::with_scenarios(Scenarios::built_in().unwrap(), Options::default()).await
    }

    pub(super) async fn with_scenarios(scenarios: Scenarios, options: Options) -> Self {
        Self::with_model(Arc::new(Demo::new(scenarios)), options).await
    }

    /// Creates a harness with this model.
    pub(super) async fn with_model(model: Arc<dyn Model>, options: Options) -> Self {
        Self::with_all(model, options, Vec::new(), limits()).await
    }

    /// Creates a harness with slash commands.
    pub(super) async fn with_commands(
        model: Arc<dyn Model>,
        options: Options,
        commands: Vec<Command>,
    ) -> Self {
        Self::with_all(model, options, commands, limits()).await
    }

    /// Creates a harness with the demo model and other engine limits.
    pub(super) async fn with_limits(limits: Limits) -> Self {
        let demo = Demo::new(Scenarios::built_in().unwrap());
        Self::with_all(Arc::new(demo), Options::default(), Vec::new(), limits).await
    }

    /// Creates a harness with all settings.
    pub(super) async fn with_all(
        model: Arc<dyn Model>,
        options: Options,
        commands: Vec<Command>,
        limits: Limits,
    ) -> Self {
        Self::build(model, options, commands, limits, NoHooks::shared()).await
    }

    /// Creates a harness with hooks.
    pub(super) async fn with_hooks(model: Arc<dyn Model>, options: Options, hooks: Arc<dyn Hooks>) -> Self {
        Self::build(model, options, Vec::new(), limits(), hooks).await
    }

    async fn build(
        model: Arc<dyn Model>,
        options: Options,
        commands: Vec<Command>,
        limits: Limits,
        hooks: Arc<dyn Hooks>,
    ) -> Self {
        let project = TempDir::new().unwrap();
        std::fs::write(project.path().join("README.md"), "# Fixture\n\nA small project.\n\nEnd of file.\n")
            .unwrap();
        let clock = Arc::new(Ticking(AtomicI64::new(1_794_724_000_000)));
        let models = BTreeMap::from([("demo".to_owned(), model)]);
        let undo: Arc<dyn Undo> = match options.snapshots.clone() {
            Some(snapshots) => snapshots,
            None => Arc::new(NoUndo),
        };
        let native = Native::new(models, clock.clone(), Arc::new(Zeros), options);
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(Memory::new(bus.clone()));
        Self::start(project, OneRunner(native, commands, hooks), undo, memory, bus, clock, limits).await
    }

    /// Kills the server and starts it again.
    pub(super) async fn restart(self) -> Self {
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(self.memory.reopen(bus.clone()));
        let clock = Arc::new(Ticking(AtomicI64::new(1_794_824_000_000)));
        let undo = Arc::new(NoUndo);
        let harness = Self::start(
            self.project,
            OneRunner(self.native, Vec::new(), NoHooks::shared()),
            undo,
            memory,
            bus,
            clock,
            Limits::default(),
        )
        .await;
        harness.sessions.recover().await.unwrap();
        harness
    }

    async fn start(
        project: TempDir,
        runner: OneRunner,
        undo: Arc<dyn Undo>,
        memory: Arc<Memory>,
        bus: Arc<Bus>,
        clock: Arc<dyn Clock>,
        limits: Limits,
    ) -> Self {
        let native = runner.0.clone();
        let sessions = Sessions::new(Parts {
            log: memory.clone(),
            reads: memory.clone(),
            runners: Arc::new(runner),
            undo,
            clock,
            random: Arc::new(SystemRandom),
            bus,
            limits,
            version: "0.0.0".into(),
        });
        let published = Published::by(&sessions).await;
        Self { sessions, project, native, memory, published, seen: Vec::new() }
    }

    /// Returns the project's directory.
    pub(super) fn home(&self) -> Home {
        let directory = self.project.path().canonicalize().unwrap().to_string_lossy().into_owned();
        Home { directory, project: "global".into(), path: String::new() }
    }

    pub(super) async fn session(&self) -> Session {
        self.sessions.create(self.home(), SessionInput::default()).await.unwrap()
    }

    pub(super) async fn submit(&self, session: &Session, model: &str, text: &str) {
        let mut input = PromptInput::text(text);
        input.model = Some(ModelRef::new("demo", model));
        self.sessions.submit(&session.id, input).await.unwrap();
    }

    /// Aborts the session's turn, and asserts that its runner ended by itself.
    pub(super) async fn abort(&self, session: &Session) {
        let start = Instant::now();
        self.sessions.abort(&session.id).await.unwrap();
        assert!(start.elapsed() < GRACE, "the engine had to drop the runner");
    }

    /// Runs a whole turn in a new session.
    pub(super) async fn turn(&mut self, model: &str, responder: Responder) -> Session {
        let session = self.session().await;
        self.submit(&session, model, "please").await;
        self.until_idle(&session, responder).await;
        session
    }

    /// Waits for the next published event and records it.
    pub(super) async fn next(&mut self) -> EventBody {
        let event = self.published.next(Duration::from_hours(3)).await;
        self.seen.push(event.clone());
        event.body
    }

    pub(super) async fn until(&mut self, fits: impl Fn(&EventBody) -> bool) -> EventBody {
        loop {
            let body = self.next().await;
            if fits(&body) {
                return body;
            }
        }
    }

    /// Answers permission requests and questions until the session is idle.
    pub(super) async fn until_idle(&mut self, session: &Session, responder: Responder) {
        loop {
            match self.next().await {
                EventBody::SessionIdle(idle) if idle.session_id == session.id => return,
                EventBody::PermissionAsked(asked) => {
                    let (reply, message) = match responder {
                        Responder::AllowOnce => (PermissionReply::Once, None),
                        Responder::AllowAlways => (PermissionReply::Always, None),
                        Responder::Reject => (PermissionReply::Reject, None),
                        Responder::RejectWithFeedback => {
                            (PermissionReply::Reject, Some("do something else".to_owned()))
                        }
                    };
                    self.sessions.reply_permission(&asked.id, reply, message).await.unwrap();
                }
                EventBody::QuestionAsked(asked)
                    if matches!(responder, Responder::AllowOnce | Responder::AllowAlways) =>
                {
                    let first = asked
                        .questions
                        .iter()
                        .map(|question| vec![question.options[0].label.clone()])
                        .collect();
                    self.sessions.reply_question(&asked.id, first).await.unwrap();
                }
                EventBody::QuestionAsked(asked) => self.sessions.reject_question(&asked.id).await.unwrap(),
                _ => {}
            }
        }
    }

    pub(super) async fn messages(&self, session: &Session) -> Vec<MessageWithParts> {
        self.sessions.messages(&session.id, Page::default()).await.unwrap()
    }

    /// Returns every tool part of a session, in order.
    pub(super) async fn tools(&self, session: &Session) -> Vec<ToolState> {
        let parts = self.messages(session).await.into_iter().flat_map(|message| message.parts);
        parts
            .filter_map(|part| match part.body {
                PartBody::Tool(tool) => Some(tool.state),
                _ => None,
            })
            .collect()
    }

    /// Returns the end of the session's turn, and asserts that it was published exactly once.
    pub(super) fn end(&self, session: &Session) -> EndReason {
        let ends: Vec<EndReason> = self
            .seen
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::SessionStatus(status) if status.session_id == session.id => match &status.status {
                    SessionStatus::Idle { reason, .. } => Some(reason.unwrap()),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        assert_eq!(ends.len(), 1, "{ends:?}");
        ends[0]
    }

    /// Returns the published events of a session in a short form.
    pub(super) fn story(&self, session: &SessionId) -> String {
        let mut running = HashSet::new();
        let story = published::story(&self.seen, session, |body| {
            if published::is_progress(&mut running, body) { None } else { word(body) }
        });
        let directory = self.project.path().canonicalize().unwrap();
        story.replace(directory.to_str().unwrap(), "/project")
    }
}

fn word(body: &EventBody) -> Option<String> {
    Some(match body {
        // The timing of these events varies and does not matter for the order of a turn.
        EventBody::SessionUpdated(_) | EventBody::SessionCreated(_) => return None,
        EventBody::SessionStatus(it) => match &it.status {
            SessionStatus::Idle { reason, .. } => format!("IDLE({})", reason.map_or("-", EndReason::as_str)),
            SessionStatus::Busy { .. } => "BUSY".into(),
            SessionStatus::Retry { attempt, message, .. } => format!("RETRY{attempt}({message})"),
        },
        EventBody::MessageUpdated(it) => match &it.info {
            Message::User(_) => "USER".into(),
            Message::Assistant(message) => {
                let finish = message.finish.map(|finish| serde_json::to_value(finish).unwrap());
                let finish = finish.as_ref().and_then(|finish| finish.as_str()).unwrap_or("-").to_owned();
                let done = if message.time.completed.is_some() { ",done" } else { "" };
                let error =
                    message.error.as_ref().map(|error| format!(",{}", name(error))).unwrap_or_default();
                format!("asst[{finish}{done}{error}]")
            }
        },
        EventBody::PartUpdated(it) => part(&it.part),
        EventBody::SessionError(it) => format!("ERROR({})", it.error.as_ref().map(name).unwrap_or_default()),
        EventBody::PermissionAsked(it) => format!("permission.asked({} {:?})", it.permission, it.patterns),
        other => other.kind().to_owned(),
    })
}

fn name(error: &protocol::MessageError) -> String {
    serde_json::to_value(error).unwrap()["name"].as_str().unwrap().to_owned()
}

fn part(part: &Part) -> String {
    match &part.body {
        PartBody::Tool(tool) => {
            let state = serde_json::to_value(&tool.state).unwrap();
            let status = state["status"].as_str().unwrap();
            match &tool.state {
                ToolState::Completed(done) => format!("{}:{status} \"{}\"", tool.tool, done.title),
                ToolState::Error(failed) => format!("{}:{status} \"{}\"", tool.tool, failed.error),
                _ => format!("{}:{status}", tool.tool),
            }
        }
        PartBody::StepFinish(finish) => {
            format!("step-finish({})", serde_json::to_value(finish.reason).unwrap().as_str().unwrap())
        }
        body => {
            let kind = serde_json::to_value(body).unwrap()["type"].as_str().unwrap().to_owned();
            match part.text() {
                Some(_) if part.is_open() => format!("{kind}+start"),
                Some(text) => format!("{kind}+end {text:?}"),
                None => kind,
            }
        }
    }
}
