//! A world for tests: a project in a temporary directory, an engine around one agent whose program is a script, and
//! somebody who watches and answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::check::{Checker, End};
use engine::bus::Bus;
use engine::limits::Limits;
use engine::memory::Memory;
use engine::ports::{Clock, NoHooks, NoUndo, Page, Resolved, Runners, SystemRandom, Unresolved, Wanted};
use engine::{Home, Parts, Sessions};
use futures::future::{BoxFuture, FutureExt};
use protocol::config::PermissionMode;
use protocol::message::ModelRef;
use protocol::prompt::{PromptInput, SessionInput};
use protocol::request::PermissionReply;
use protocol::{
    EndReason, Event, EventBody, MessageWithParts, Millis, PartBody, Session, SessionId, SessionStatus,
    ToolState,
};
use tempfile::TempDir;

use crate::acp::{Acp, Options};
use crate::external::{Bounds, Keeping, Patience};
use crate::native::permission::defaults;
use crate::published::Published;
use crate::roster::{About, External as _};

/// What the agent is called.
pub(super) const AGENT: &str = "acp:fake";

/// How long anything may take before a test fails.
const ENOUGH: Duration = Duration::from_mins(1);

/// A clock that moves one millisecond with every look.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Millis {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// What the person in front of the session does when asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Person {
    Agrees,
    AlwaysAgrees,
    Refuses,
    Sleeps,
}

struct OneRunner(Acp);

impl Runners for OneRunner {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move {
            let model = wanted.model.cloned().unwrap_or_else(|| ModelRef::new(AGENT, "default"));
            let runner = Arc::new(self.0.clone());
            let continuation = engine::lifecycle::continuation::Policy::default();
            Ok(Resolved { agent: AGENT.to_owned(), model, runner, hooks: Arc::new(NoHooks), continuation })
        }
        .boxed()
    }
}

pub(super) struct World {
    pub(super) sessions: Sessions,
    pub(super) project: TempDir,
    pub(super) acp: Acp,
    memory: Arc<Memory>,
    limits: Limits,
    published: Published,
    pub(super) seen: Vec<Event>,
}

/// How an agent is run in tests, unless a test says otherwise: what takes long in the world takes a moment here.
pub(super) fn options(command: &[String]) -> Options {
    Options {
        about: About {
            id: AGENT.to_owned(),
            name: "Fake".to_owned(),
            description: "An agent for tests".to_owned(),
            models: vec!["default".to_owned()],
            has_providers: true,
            abilities: Options::ABILITIES,
        },
        command: command.to_vec(),
        environment: BTreeMap::new(),
        hidden: Vec::new(),
        mode: PermissionMode::Ask,
        rules: defaults(),
        servers: BTreeMap::new(),
        sandbox: None,
        bounds: Bounds { line: 1024 * 1024, linger: Duration::from_millis(300), ..Bounds::default() },
        patience: Patience {
            start: Duration::from_secs(20),
            interrupt: Duration::from_millis(400),
            silence: Duration::from_secs(20),
            ..Patience::default()
        },
        keeping: Keeping { pause: Duration::from_millis(10), ..Keeping::default() },
        clock: Arc::new(Ticking(AtomicI64::new(1_794_724_000_000))),
    }
}

impl World {
    pub(super) async fn new(options: Options) -> Self {
        Self::bounded(options, Limits::default()).await
    }

    pub(super) async fn bounded(options: Options, limits: Limits) -> Self {
        let project = TempDir::new().unwrap();
        std::fs::write(project.path().join("README.md"), "# Title\nmiddle\nlast line\n").unwrap();
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(Memory::new(bus.clone()));
        Self::on(project, options, memory, bus, limits).await
    }

    /// The server is killed and started again.
    pub(super) async fn restart(self, options: Options) -> Self {
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(self.memory.reopen(bus.clone()));
        self.acp.close().await;
        let world = Self::on(self.project, options, memory, bus, self.limits).await;
        world.sessions.recover().await.unwrap();
        world
    }

    async fn on(
        project: TempDir,
        options: Options,
        memory: Arc<Memory>,
        bus: Arc<Bus>,
        limits: Limits,
    ) -> Self {
        let clock = Arc::clone(&options.clock);
        let sessions: Arc<Mutex<Option<Sessions>>> = Arc::default();
        let wakes = Arc::clone(&sessions);
        let wake = move |session: SessionId, why: String| {
            let sessions = wakes.lock().unwrap().clone().unwrap();
            tokio::spawn(async move { sessions.wake(&session, &why).await.unwrap() });
        };
        let acp = Acp::new(options, Arc::new(wake));
        let made = Sessions::new(Parts {
            log: memory.clone(),
            reads: memory.clone(),
            runners: Arc::new(OneRunner(acp.clone())),
            undo: Arc::new(NoUndo),
            clock,
            random: Arc::new(SystemRandom),
            bus,
            limits: limits.clone(),
            version: "0.0.0".into(),
        });
        *sessions.lock().unwrap() = Some(made.clone());
        let published = Published::by(&made).await;
        Self { sessions: made, project, acp, memory, limits, published, seen: Vec::new() }
    }

    pub(super) fn directory(&self) -> String {
        self.project.path().canonicalize().unwrap().to_string_lossy().into_owned()
    }

    pub(super) async fn session(&self) -> Session {
        let home = Home { directory: self.directory(), project: "global".into(), path: String::new() };
        self.sessions.create(home, SessionInput::default()).await.unwrap()
    }

    pub(super) async fn submit(&self, session: &Session, text: &str) {
        self.sessions.submit(&session.id, PromptInput::text(text)).await.unwrap();
    }

    /// A whole turn in a new session.
    pub(super) async fn turn(&mut self, person: Person) -> Session {
        let session = self.session().await;
        self.submit(&session, "please").await;
        self.until_idle(&session, person).await;
        session
    }

    /// The next thing that is published.
    pub(super) async fn next(&mut self) -> EventBody {
        let event = self.published.next(ENOUGH).await;
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

    /// Answers whatever is asked until the session is idle.
    pub(super) async fn until_idle(&mut self, session: &Session, person: Person) {
        loop {
            match self.next().await {
                EventBody::SessionIdle(idle) if idle.session_id == session.id => return,
                body => self.react(&body, person).await,
            }
        }
    }

    /// Answers if something is asked.
    pub(super) async fn react(&self, body: &EventBody, person: Person) {
        match body {
            EventBody::PermissionAsked(asked) => {
                let reply = match person {
                    Person::Agrees => PermissionReply::Once,
                    Person::AlwaysAgrees => PermissionReply::Always,
                    Person::Refuses => PermissionReply::Reject,
                    Person::Sleeps => return,
                };
                self.sessions.reply_permission(&asked.id, reply, None).await.unwrap();
            }
            EventBody::QuestionAsked(asked) if person == Person::Refuses => {
                self.sessions.reject_question(&asked.id).await.unwrap();
            }
            EventBody::QuestionAsked(asked) if person != Person::Sleeps => {
                let last = |question: &protocol::request::Question| {
                    question.options.last().map(|option| option.label.clone()).into_iter().collect()
                };
                let answers = asked.questions.iter().map(last).collect();
                self.sessions.reply_question(&asked.id, answers).await.unwrap();
            }
            _ => {}
        }
    }

    pub(super) async fn messages(&self, session: &Session) -> Vec<MessageWithParts> {
        self.sessions.messages(&session.id, Page::default()).await.unwrap()
    }

    /// Every tool of a session, in order.
    pub(super) async fn tools(&self, session: &Session) -> Vec<(String, ToolState)> {
        let parts = self.messages(session).await.into_iter().flat_map(|message| message.parts);
        parts
            .filter_map(|part| match part.body {
                PartBody::Tool(tool) => Some((tool.tool, tool.state)),
                _ => None,
            })
            .collect()
    }

    /// Everything that was said.
    pub(super) async fn said(&self, session: &Session) -> String {
        let parts = self.messages(session).await.into_iter().skip(1).flat_map(|message| message.parts);
        let texts = parts.filter_map(|part| match part.body {
            PartBody::Text(text) => Some(text.text),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("|")
    }

    /// How the session's turns ended, each of which is said exactly once.
    pub(super) fn ends(&self, session: &Session) -> Vec<EndReason> {
        let ends = self.seen.iter().filter_map(|event| match &event.body {
            EventBody::SessionStatus(it) if it.session_id == session.id => match &it.status {
                SessionStatus::Idle { reason, .. } => *reason,
                _ => None,
            },
            _ => None,
        });
        ends.collect()
    }

    /// Everything that went wrong, in words.
    pub(super) fn errors(&self) -> Vec<String> {
        let errors = self.seen.iter().filter_map(|event| match &event.body {
            EventBody::SessionError(it) => it.error.as_ref().map(|error| error.message().to_owned()),
            _ => None,
        });
        errors.collect()
    }

    /// What a client that trusts the events would find wrong with them.
    pub(super) fn check(&self) {
        let mut checker = Checker::new();
        for event in &self.seen {
            checker.observe(None, event);
        }
        let report = checker.finish(End::Complete);
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }

    /// Lets an agent go on that waits to be `ready`.
    pub(super) fn go(&self) {
        std::fs::write(self.project.path().join(".go"), "").unwrap();
    }

    /// What the agent was told, as far as it has listened.
    pub(super) fn heard(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.project.path().join(".heard")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What the agent's requests were answered with.
    pub(super) fn answered(&self, id: &str) -> serde_json::Value {
        let heard = self.heard();
        let answer = heard.iter().find(|message| message["id"] == id && message.get("method").is_none());
        answer.unwrap_or_else(|| panic!("{id} was not answered: {heard:#?}")).clone()
    }

    /// The files that hold the ids of processes which scripts have noted, all of which have to be gone.
    pub(super) fn assert_nothing_is_left(&self) {
        let Ok(text) = std::fs::read_to_string(self.project.path().join(".pids")) else { return };
        for id in text.split_whitespace() {
            assert!(!lives(id), "process {id} is left");
        }
    }
}

/// Whether a process lives, according to the system.
pub(super) fn lives(id: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(id).join("stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    !matches!(state, Some("Z" | "X"))
}
