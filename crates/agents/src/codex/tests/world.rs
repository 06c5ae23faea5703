//! A world for tests: a project in a temporary directory, an engine around Codex, whose program is a script, and somebody
//! who watches and answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use client::check::{Checker, End};
use engine::bus::Bus;
use engine::limits::Limits;
use engine::memory::Memory;
use engine::ports::{Clock, NoUndo, Page, Resolved, Runners, SystemRandom, Unresolved, Wanted};
use engine::{Home, Parts, Sessions};
use futures::future::{BoxFuture, FutureExt};
use protocol::config::PermissionMode;
use protocol::message::ModelRef;
use protocol::prompt::{PromptInput, SessionInput};
use protocol::request::PermissionReply;
use protocol::{
    EndReason, Event, EventBody, MessageWithParts, Millis, PartBody, Session, SessionStatus, ToolState,
};
use tempfile::TempDir;

use crate::codex::{Codex, NAME, Options};
use crate::external::{Bounds, Patience, keeper::Wake};
use crate::published::Published;

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
    Corrects,
    Sleeps,
}

struct OneRunner(Codex);

impl Runners for OneRunner {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move {
            let model = wanted.model.cloned().unwrap_or_else(|| ModelRef::new(NAME, "default"));
            Ok(Resolved::new(NAME, model, Arc::new(self.0.clone())))
        }
        .boxed()
    }
}

pub(super) struct World {
    pub(super) sessions: Sessions,
    pub(super) project: TempDir,
    pub(super) codex: Codex,
    memory: Arc<Memory>,
    published: Published,
    pub(super) seen: Vec<Event>,
}

/// How Codex is run in tests: what takes long in the world takes a moment here.
pub(super) fn options(script: &str) -> Options {
    Options {
        command: vec!["/bin/bash".into(), "-c".into(), script.into()],
        environment: BTreeMap::new(),
        hidden: Vec::new(),
        rules: Vec::new(),
        mode: PermissionMode::Ask,
        idle: Duration::from_mins(10),
        patience: Patience {
            start: Duration::from_secs(2),
            interrupt: Duration::from_millis(400),
            silence: Duration::from_secs(2),
            ..Patience::default()
        },
        bounds: Bounds {
            line: 1024 * 1024,
            linger: Duration::from_millis(300),
            write: Duration::from_secs(1),
            ..Bounds::default()
        },
        farewell: Duration::from_millis(300),
        answer: Duration::from_secs(2),
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
        drop((self.sessions, self.published, self.codex));
        let world = Self::on(self.project, options, memory, bus, Limits::default()).await;
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
        let clock = Arc::new(Ticking(AtomicI64::new(1_794_724_000_000)));
        let (wakes, mut woken) = tokio::sync::mpsc::unbounded_channel();
        let wake: Wake = Arc::new(move |session, why| drop(wakes.send((session, why))));
        let codex = Codex::new(options, Vec::new(), Arc::clone(&clock) as Arc<dyn Clock>, wake);
        let sessions = Sessions::new(Parts {
            log: memory.clone(),
            reads: memory.clone(),
            runners: Arc::new(OneRunner(codex.clone())),
            undo: Arc::new(NoUndo),
            clock,
            random: Arc::new(SystemRandom),
            bus,
            limits,
            version: "0.0.0".into(),
        });
        let waking = sessions.clone();
        tokio::spawn(async move {
            while let Some((session, why)) = woken.recv().await {
                waking.wake(&session, &why).await.unwrap();
            }
        });
        let published = Published::by(&sessions).await;
        Self { sessions, project, codex, memory, published, seen: Vec::new() }
    }

    pub(super) async fn session(&self) -> Session {
        self.session_with(SessionInput::default()).await
    }

    pub(super) async fn session_with(&self, input: SessionInput) -> Session {
        let directory = self.project.path().canonicalize().unwrap().to_string_lossy().into_owned();
        let home = Home { directory, project: "global".into(), path: String::new() };
        self.sessions.create(home, input).await.unwrap()
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

    /// Answers if something is asked. It may have been taken back meanwhile.
    async fn react(&self, body: &EventBody, person: Person) {
        match body {
            EventBody::PermissionAsked(asked) => {
                let (reply, message) = match person {
                    Person::Agrees => (PermissionReply::Once, None),
                    Person::AlwaysAgrees => (PermissionReply::Always, None),
                    Person::Refuses => (PermissionReply::Reject, None),
                    Person::Corrects => (PermissionReply::Reject, Some("use less".to_owned())),
                    Person::Sleeps => return,
                };
                let _ = self.sessions.reply_permission(&asked.id, reply, message).await;
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

    /// No tool runs and nobody is asked anything.
    pub(super) async fn assert_all_is_closed(&self, session: &Session) {
        for (tool, state) in self.tools(session).await {
            assert!(matches!(state, ToolState::Completed(_) | ToolState::Error(_)), "{tool}: {state:?}");
        }
        assert_eq!(self.sessions.permissions(None).await.unwrap(), []);
        assert_eq!(self.sessions.questions(None).await.unwrap(), []);
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
    pub(super) fn errors(&self) -> String {
        let errors = self.seen.iter().filter_map(|event| match &event.body {
            EventBody::SessionError(it) => it.error.as_ref().map(|error| error.message().to_owned()),
            _ => None,
        });
        errors.collect::<Vec<_>>().join("; ")
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

    /// What Codex was told, as far as it has listened.
    pub(super) fn heard(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.project.path().join(".heard")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What Codex was asked with this method.
    pub(super) fn asked(&self, method: &str) -> Vec<serde_json::Value> {
        let asked = self.heard().into_iter().filter(|message| message["method"] == method);
        asked.map(|message| message["params"].clone()).collect()
    }

    /// The processes that scripts have noted are all gone.
    pub(super) fn assert_nothing_is_left(&self) {
        let text = std::fs::read_to_string(self.project.path().join(".processes")).unwrap();
        assert!(!text.trim().is_empty(), "the script noted no process");
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
