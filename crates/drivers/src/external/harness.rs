//! The test harness for external agents: an engine around one runner, a project in a temporary directory, and a user who
//! submits prompts, watches, and answers requests.

mod driven;
mod fake;
mod story;

pub(crate) use driven::Driven;
pub(crate) use fake::Fake;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use client::check::{Checker, End, Report};
use engine::bus::Bus;
use engine::limits::Limits;
use engine::memory::Memory;
use engine::ports::{Clock, NoUndo, Page, Resolved, Runner, Runners, SystemRandom, Undo, Unresolved, Wanted};
use engine::session::Turn;
use engine::{Home, Parts, Sessions};
use futures::future::{BoxFuture, FutureExt};
use protocol::config::Budget;
use protocol::message::ModelRef;
use protocol::prompt::{PromptInput, SessionInput};
use protocol::request::{PermissionReply, Question};
use protocol::{
    EndReason, Event, EventBody, Message, MessageWithParts, Millis, PartBody, Session, SessionId,
    SessionStatus, ToolState, TurnEnd,
};
use supervision::{Snapshots, Supervisor};
use tempfile::TempDir;
use testkit::published::Published;
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Exit, Spec};

use super::keeper::Wake;
use crate::roster::External;

/// Longer than anything takes, even on a busy machine, so that a test that would hang fails instead.
pub(crate) const LONG: Duration = Duration::from_mins(2);

/// The file of every project.
pub(crate) const README: &str = "# Title\nmiddle\nlast line\n";

/// The behaviour of the user when an agent asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimulatedUser {
    Agrees,
    AlwaysAgrees,
    Refuses,
    Corrects,
    Silent,
}

/// A clock that moves one millisecond with every look.
#[derive(Debug)]
pub(crate) struct Ticking(AtomicI64);

impl Default for Ticking {
    fn default() -> Self {
        Self(AtomicI64::new(1_794_724_000_000))
    }
}

impl Clock for Ticking {
    fn now(&self) -> Millis {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Snapshots below a directory, with timeouts that no load of the machine exceeds.
pub(crate) fn patient_snapshots(data: &TempDir) -> Arc<Snapshots> {
    Arc::new(Snapshots::new(data.path().to_owned()).with_timeout(LONG))
}

/// A runner under its permission rules, without a budget and without snapshots.
struct Supervised(Arc<dyn External>);

impl Runner for Supervised {
    fn run(&self, mut turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let runner = Arc::clone(&self.0);
        async move {
            let (supervised, turn) = (turn.supervised(), Arc::new(turn));
            let supervisor = Supervisor::start(None, &Budget::default(), &turn).await.unwrap();
            let rules = runner.rules().to_vec();
            supervisor.follow(rules, supervised, |turn| runner.run(turn)).await
        }
        .boxed()
    }
}

/// An external agent, and the runner of its turns.
pub(crate) struct Cast {
    external: Arc<dyn External>,
    pub(crate) runner: Arc<dyn Runner>,
}

impl Cast {
    pub(crate) fn new(external: Arc<dyn External>, runner: impl Runner + 'static) -> Self {
        Self { external, runner: Arc::new(runner) }
    }

    /// The agent under its permission rules, without a budget, snapshots and the history of other agents.
    fn ruled(external: Arc<dyn External>) -> Self {
        Self::new(Arc::clone(&external), Supervised(external))
    }
}

impl Runners for Cast {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move {
            let model = wanted.model.cloned();
            let model = model.unwrap_or_else(|| ModelRef::new(&self.external.about().id, "default"));
            let runner = Arc::clone(&self.runner);
            let mut resolved = Resolved::new(wanted.agent.unwrap_or("build"), model, runner);
            resolved.delivery = self.external.delivery();
            Ok(resolved)
        }
        .boxed()
    }
}

pub(crate) struct Harness {
    pub(crate) sessions: Sessions,
    pub(crate) project: TempDir,
    /// All events that were published, as far as they were read.
    pub(crate) seen: Vec<Event>,
    memory: Arc<Memory>,
    published: Published,
    limits: Limits,
}

impl Harness {
    /// An engine with these limits around the runner that is made. A runner that wakes up gets its turn.
    pub(crate) async fn bounded<R: External + 'static>(limits: Limits, make: impl FnOnce(Wake) -> R) -> Self {
        Self::fresh(limits, Arc::new(NoUndo), |wake| Cast::ruled(Arc::new(make(wake)))).await
    }

    /// An engine with the default limits around one agent.
    pub(crate) async fn around(external: Arc<dyn External>) -> Self {
        Self::playing(|_| Cast::ruled(external)).await
    }

    /// An engine with the default limits around the agent and the runner that are made.
    pub(crate) async fn playing(make: impl FnOnce(Wake) -> Cast) -> Self {
        Self::fresh(Limits::default(), Arc::new(NoUndo), make).await
    }

    /// An engine that can revert files if there are snapshots.
    pub(crate) async fn undoing(cast: Cast, snapshots: Option<Arc<Snapshots>>) -> Self {
        let (limits, undo): (_, Arc<dyn Undo>) = match snapshots {
            // Long enough for the snapshot after an abort, however busy the machine is.
            Some(snapshots) => (Limits { runner_grace: LONG, ..Limits::default() }, snapshots),
            None => (Limits::default(), Arc::new(NoUndo)),
        };
        Self::fresh(limits, undo, |_| cast).await
    }

    async fn fresh(limits: Limits, undo: Arc<dyn Undo>, make: impl FnOnce(Wake) -> Cast) -> Self {
        let project = TempDir::new().unwrap();
        std::fs::write(project.path().join("README.md"), README).unwrap();
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(Memory::new(bus.clone()));
        Self::on(project, memory, bus, limits, undo, make).await
    }

    /// Another server opens the same log after the first one is gone.
    pub(crate) async fn restart<R: External + 'static>(self, make: impl FnOnce(Wake) -> R) -> Self {
        self.restart_playing(|wake| Cast::ruled(Arc::new(make(wake)))).await
    }

    /// Another server with another runner opens the same log after the first one is gone.
    pub(crate) async fn restart_playing(self, make: impl FnOnce(Wake) -> Cast) -> Self {
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(self.memory.reopen(bus.clone()));
        let harness = Self::on(self.project, memory, bus, self.limits, Arc::new(NoUndo), make).await;
        harness.sessions.recover().await.unwrap();
        harness
    }

    async fn on(
        project: TempDir,
        memory: Arc<Memory>,
        bus: Arc<Bus>,
        limits: Limits,
        undo: Arc<dyn Undo>,
        make: impl FnOnce(Wake) -> Cast,
    ) -> Self {
        let (wakes, mut woken) = tokio::sync::mpsc::unbounded_channel();
        let wake: Wake = Arc::new(move |session, why| drop(wakes.send((session, why))));
        let sessions = Sessions::new(Parts {
            log: memory.clone(),
            reads: memory.clone(),
            runners: Arc::new(make(wake)),
            undo,
            clock: Arc::new(Ticking::default()),
            random: Arc::new(SystemRandom),
            bus,
            limits: limits.clone(),
            version: "0.0.0".into(),
        });
        let waking = sessions.clone();
        tokio::spawn(async move {
            while let Some((session, why)) = woken.recv().await {
                waking.wake(&session, &why).await.unwrap();
            }
        });
        let published = Published::by(&sessions).await;
        Self { sessions, project, seen: Vec::new(), memory, published, limits }
    }

    /// Makes the project a git repository.
    pub(crate) async fn commit(&self) {
        for line in
            ["init -q", "add .", "-c user.name=Test -c user.email=test@example.com commit -q -m first"]
        {
            let spec = Spec::new("git", self.project.path(), LONG).args(line.split(' '));
            let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
            assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
        }
    }

    pub(crate) fn directory(&self) -> String {
        self.project.path().canonicalize().unwrap().to_string_lossy().into_owned()
    }

    /// The content of a file of the project, if there is one.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.project.path().join(name)).ok()
    }

    /// The messages that a script has written to `.heard`.
    pub(crate) fn heard(&self) -> Vec<serde_json::Value> {
        let text = self.read(".heard").unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) async fn session(&self) -> Session {
        self.session_with(SessionInput::default()).await
    }

    pub(crate) async fn session_with(&self, input: SessionInput) -> Session {
        let home = Home { directory: self.directory(), project: "global".into(), path: String::new() };
        self.sessions.create(home, input).await.unwrap()
    }

    pub(crate) async fn submit(&self, session: &Session, text: &str) {
        self.sessions.submit(&session.id, PromptInput::text(text)).await.unwrap();
    }

    /// A whole turn: how it ended.
    pub(crate) async fn turn(&mut self, session: &Session, text: &str, user: SimulatedUser) -> EndReason {
        self.submit(session, text).await;
        self.until_idle(session, user).await
    }

    /// A whole turn in a new session.
    pub(crate) async fn first_turn(&mut self, user: SimulatedUser) -> Session {
        let session = self.session().await;
        self.turn(&session, "please", user).await;
        session
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> EventBody {
        let event = self.published.next(LONG).await;
        self.seen.push(event.clone());
        event.body
    }

    pub(crate) async fn until(&mut self, fits: impl Fn(&EventBody) -> bool) -> EventBody {
        loop {
            let body = self.next().await;
            if fits(&body) {
                return body;
            }
        }
    }

    /// Answers requests until the session is idle: how its turn ended.
    pub(crate) async fn until_idle(&mut self, session: &Session, user: SimulatedUser) -> EndReason {
        let mut end = None;
        loop {
            let body = self.next().await;
            self.answer(&body, user).await;
            match body {
                EventBody::SessionStatus(it) if it.session_id == session.id => {
                    if let SessionStatus::Idle { reason, .. } = it.status {
                        end = reason;
                    }
                }
                EventBody::SessionIdle(idle) if idle.session_id == session.id => return end.unwrap(),
                _ => {}
            }
        }
    }

    /// Answers if this is a request. The agent may have withdrawn it meanwhile.
    pub(crate) async fn answer(&self, body: &EventBody, user: SimulatedUser) {
        match body {
            EventBody::PermissionAsked(asked) => {
                let (reply, message) = match user {
                    SimulatedUser::Silent => return,
                    SimulatedUser::Agrees => (PermissionReply::Once, None),
                    SimulatedUser::AlwaysAgrees => (PermissionReply::Always, None),
                    SimulatedUser::Refuses => (PermissionReply::Reject, None),
                    SimulatedUser::Corrects => {
                        (PermissionReply::Reject, Some("do something else".to_owned()))
                    }
                };
                let _ = self.sessions.reply_permission(&asked.id, reply, message).await;
            }
            EventBody::QuestionAsked(asked) => match user {
                SimulatedUser::Silent => {}
                SimulatedUser::Agrees | SimulatedUser::AlwaysAgrees => {
                    let last = |question: &Question| {
                        question.options.last().map(|option| option.label.clone()).into_iter().collect()
                    };
                    let answers = asked.questions.iter().map(last).collect();
                    self.sessions.reply_question(&asked.id, answers).await.unwrap();
                }
                SimulatedUser::Refuses | SimulatedUser::Corrects => {
                    self.sessions.reject_question(&asked.id).await.unwrap();
                }
            },
            _ => {}
        }
    }

    pub(crate) async fn messages(&self, session: &Session) -> Vec<MessageWithParts> {
        self.sessions.messages(&session.id, Page::default()).await.unwrap()
    }

    /// Every part of a session, in order.
    pub(crate) async fn parts(&self, session: &Session) -> Vec<PartBody> {
        let messages = self.messages(session).await.into_iter();
        messages.flat_map(|message| message.parts).map(|part| part.body).collect()
    }

    /// Every tool of a session, in order.
    pub(crate) async fn tools(&self, session: &Session) -> Vec<(String, ToolState)> {
        let tool = |part| match part {
            PartBody::Tool(tool) => Some((tool.tool, tool.state)),
            _ => None,
        };
        self.parts(session).await.into_iter().filter_map(tool).collect()
    }

    /// The error of the newest message that has one.
    pub(crate) async fn error(&self, session: &Session) -> String {
        let messages = self.messages(session).await;
        let mut errors = messages.iter().rev().filter_map(|message| match &message.info {
            Message::Assistant(message) => message.error.as_ref().map(|error| error.message().to_owned()),
            Message::User(_) => None,
        });
        errors.next().unwrap_or_default()
    }

    /// Every error that was published.
    pub(crate) fn errors(&self) -> Vec<String> {
        let errors = self.seen.iter().filter_map(|event| match &event.body {
            EventBody::SessionError(it) => it.error.as_ref().map(|error| error.message().to_owned()),
            _ => None,
        });
        errors.collect()
    }

    /// The ends of the session's turns, as they were published.
    pub(crate) fn ends(&self, session: &Session) -> Vec<EndReason> {
        let ends = self.seen.iter().filter_map(|event| match &event.body {
            EventBody::SessionStatus(it) if it.session_id == session.id => match &it.status {
                SessionStatus::Idle { reason, .. } => *reason,
                _ => None,
            },
            _ => None,
        });
        ends.collect()
    }

    /// Fails if a tool runs or a request waits.
    pub(crate) async fn assert_all_is_closed(&self, session: &Session) {
        for (tool, state) in self.tools(session).await {
            assert!(matches!(state, ToolState::Completed(_) | ToolState::Error(_)), "{tool}: {state:?}");
        }
        assert_eq!(self.sessions.permissions(None).await.unwrap(), []);
        assert_eq!(self.sessions.questions(None).await.unwrap(), []);
    }

    fn report(&self) -> Report {
        let mut checker = Checker::new();
        for event in &self.seen {
            checker.observe(None, event);
        }
        checker.finish(End::Complete)
    }

    /// Fails if the events would mislead a client. Returns the number of turns of the session.
    pub(crate) fn check(&self, session: &SessionId) -> usize {
        let report = self.report();
        let violations: Vec<String> = report.violations().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{violations:#?}");
        let summary = &report.sessions[session];
        assert_eq!(summary.turns, summary.idle_pairs);
        summary.turns
    }

    /// Fails if a client would find anything odd about the events.
    pub(crate) fn check_all(&self) {
        let report = self.report();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }
}

/// Fails if one of these processes is left.
pub(crate) fn assert_gone(ids: &str) {
    for id in ids.split_whitespace() {
        assert!(!lives(id), "process {id} is left");
    }
}

/// Tells whether a process exists and is not merely waiting to be reaped.
pub(crate) fn lives(id: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(id).join("stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    !matches!(state, Some("Z" | "X"))
}
