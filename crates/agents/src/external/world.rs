//! A world for tests of runners that drive programs: an engine around one runner, somebody who watches and answers, and
//! programs that misbehave on demand.
//!
//! A [`Fake`] is a shell script with a few words of its own, so that each misbehaviour is told in a line or two where
//! it is tested. It is run as `/bin/sh FILE`, which takes whatever arguments a driver adds. `say` writes a line, `hear
//! WORDS` reads lines until one contains them (and exits when the input ends), `hang` stays for ever, `linger` stays
//! until its input ends.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use client::check::{Checker, End};
use engine::bus::Bus;
use engine::limits::Limits;
use engine::memory::Memory;
use engine::ports::{Clock, NoUndo, Page, Resolved, Runner, Runners, SystemRandom, Unresolved, Wanted};
use engine::{Home, Parts, Sessions};
use futures::future::{BoxFuture, FutureExt};
use protocol::config::PermissionMode;
use protocol::message::ModelRef;
use protocol::prompt::{PromptInput, SessionInput};
use protocol::request::PermissionReply;
use protocol::{
    EndReason, Event, EventBody, Message, MessageWithParts, Millis, Part, PartBody, Session, SessionId,
    SessionStatus, ToolState,
};
use tempfile::TempDir;

use crate::published::Published;
use crate::roster::Program;

use super::keeper::Wake;

/// Longer than anything here takes, so that a test that would hang fails instead.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// What every fake program can do.
const WORDS: &str = r#"
say() { printf '%s\n' "$1"; }
hear() { while read -r line; do case "$line" in *"$1"*) return 0 ;; esac; done; exit 0; }
hang() { while :; do sleep 600; done; }
linger() { cat >/dev/null; }
echo $$ >>"$PIDS"
"#;

/// A program that does what a script says.
#[derive(Debug)]
pub(crate) struct Fake {
    directory: TempDir,
}

impl Fake {
    pub(crate) fn new(script: &str) -> Self {
        let fake = Self { directory: TempDir::new().unwrap() };
        fake.becomes(script);
        fake
    }

    /// From its next start on it does something else.
    pub(crate) fn becomes(&self, script: &str) {
        std::fs::write(self.script(), format!("{WORDS}\n{script}\n")).unwrap();
    }

    pub(crate) fn program() -> OsString {
        "/bin/sh".into()
    }

    /// The first argument.
    pub(crate) fn script(&self) -> PathBuf {
        self.directory.path().join("agent.sh")
    }

    /// What it needs in its environment.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let file = |name: &str| self.directory.path().join(name).into_os_string();
        vec![("PIDS".into(), file("pids")), ("NOTES".into(), file("notes"))]
    }

    /// It as a configured program.
    pub(crate) fn configured(&self) -> Program {
        let text = |it: OsString| it.into_string().unwrap();
        let variables = self.environment().into_iter();
        Program {
            command: vec![text(Self::program()), text(self.script().into())],
            environment: variables.map(|(name, value)| (text(name), text(value))).collect(),
            hidden: Vec::new(),
            mode: PermissionMode::Ask,
            rules: Vec::new(),
            idle: crate::roster::IDLE,
        }
    }

    /// Every process that it noted in `$PIDS`.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.file("pids").lines().map(|id| id.trim().parse().unwrap()).collect()
    }

    /// Tells it something through `$NOTES`.
    pub(crate) fn note(&self, note: &str) {
        std::fs::write(self.directory.path().join("notes"), note).unwrap();
    }

    /// What it wrote to `$NOTES`.
    pub(crate) fn notes(&self) -> String {
        self.file("notes")
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// Fails if something of it is still there.
    pub(crate) fn assert_gone(&self) {
        let left: Vec<u32> = self.processes().into_iter().filter(|id| lives(*id)).collect();
        assert!(left.is_empty(), "these processes were left: {left:?}");
    }
}

/// Whether a process exists and is not merely waiting to be reaped.
pub(crate) fn lives(id: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with(['Z', 'X']))
}

/// What the person in front of the session does when asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Person {
    Agrees,
    Refuses,
    Corrects,
    /// Is not there.
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

struct OneRunner(Arc<dyn Runner>);

impl Runners for OneRunner {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move {
            let model = wanted.model.cloned().unwrap_or_else(|| ModelRef::new("external", "default"));
            Ok(Resolved::new(wanted.agent.unwrap_or("build"), model, Arc::clone(&self.0)))
        }
        .boxed()
    }
}

pub(crate) struct World {
    pub(crate) sessions: Sessions,
    pub(crate) project: TempDir,
    memory: Arc<Memory>,
    published: Published,
    pub(crate) seen: Vec<Event>,
}

impl World {
    /// An engine with these bounds around the runner that is made; what wakes up gets its turn.
    pub(crate) async fn bounded<R: Runner + 'static>(limits: Limits, make: impl FnOnce(Wake) -> R) -> Self {
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(Memory::new(bus.clone()));
        Self::on(TempDir::new().unwrap(), memory, bus, limits, make).await
    }

    /// The server is gone and another one opens the same log.
    pub(crate) async fn restart<R: Runner + 'static>(self, make: impl FnOnce(Wake) -> R) -> Self {
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(self.memory.reopen(bus.clone()));
        let world = Self::on(self.project, memory, bus, Limits::default(), make).await;
        world.sessions.recover().await.unwrap();
        world
    }

    async fn on<R: Runner + 'static>(
        project: TempDir,
        memory: Arc<Memory>,
        bus: Arc<Bus>,
        limits: Limits,
        make: impl FnOnce(Wake) -> R,
    ) -> Self {
        let (wakes, mut woken) = tokio::sync::mpsc::unbounded_channel();
        let wake: Wake = Arc::new(move |session, why| drop(wakes.send((session, why))));
        let sessions = Sessions::new(Parts {
            log: memory.clone(),
            reads: memory.clone(),
            runners: Arc::new(OneRunner(Arc::new(make(wake)))),
            undo: Arc::new(NoUndo),
            clock: Arc::new(Ticking::default()),
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
        Self { sessions, project, memory, published, seen: Vec::new() }
    }

    pub(crate) async fn session(&self) -> Session {
        let directory = self.project.path().canonicalize().unwrap().to_string_lossy().into_owned();
        let home = Home { directory, project: "global".into(), path: String::new() };
        self.sessions.create(home, SessionInput::default()).await.unwrap()
    }

    pub(crate) async fn submit(&self, session: &Session, text: &str) {
        self.sessions.submit(&session.id, PromptInput::text(text)).await.unwrap();
    }

    /// A whole turn: how it ended.
    pub(crate) async fn turn(&mut self, session: &Session, text: &str, person: Person) -> EndReason {
        self.submit(session, text).await;
        self.until_idle(session, person).await
    }

    /// The next thing that is published.
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

    /// Answers whatever is asked until the session is idle.
    pub(crate) async fn until_idle(&mut self, session: &Session, person: Person) -> EndReason {
        let mut end = None;
        loop {
            let body = self.next().await;
            self.answer(&body, person).await;
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

    /// Answers what this asks, if it asks something.
    pub(crate) async fn answer(&self, body: &EventBody, person: Person) {
        match body {
            EventBody::PermissionAsked(asked) => {
                let (reply, message) = match person {
                    Person::Silent => return,
                    Person::Agrees => (PermissionReply::Once, None),
                    Person::Refuses => (PermissionReply::Reject, None),
                    Person::Corrects => (PermissionReply::Reject, Some("do something else".to_owned())),
                };
                self.sessions.reply_permission(&asked.id, reply, message).await.unwrap();
            }
            EventBody::QuestionAsked(asked) if person == Person::Agrees => {
                let last =
                    |labels: &[protocol::request::QuestionOption]| vec![labels.last().unwrap().label.clone()];
                let answers = asked.questions.iter().map(|question| last(&question.options)).collect();
                self.sessions.reply_question(&asked.id, answers).await.unwrap();
            }
            EventBody::QuestionAsked(asked) if person != Person::Silent => {
                self.sessions.reject_question(&asked.id).await.unwrap();
            }
            _ => {}
        }
    }

    pub(crate) async fn messages(&self, session: &Session) -> Vec<MessageWithParts> {
        self.sessions.messages(&session.id, Page::default()).await.unwrap()
    }

    /// What went wrong in the newest turn, for people.
    pub(crate) async fn error(&self, session: &Session) -> String {
        let messages = self.messages(session).await;
        let mut errors = messages.iter().rev().filter_map(|message| match &message.info {
            Message::Assistant(message) => message.error.as_ref().map(|error| error.message().to_owned()),
            Message::User(_) => None,
        });
        errors.next().unwrap_or_default()
    }

    /// Fails if a client that trusts the events would have been misled; tells how many turns there were.
    pub(crate) fn check(&self, session: &SessionId) -> usize {
        let mut checker = Checker::new();
        for event in &self.seen {
            checker.observe(None, event);
        }
        let report = checker.finish(End::Complete);
        let violations: Vec<String> = report.violations().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{violations:#?}");
        let summary = &report.sessions[session];
        assert_eq!(summary.turns, summary.idle_pairs);
        summary.turns
    }

    /// What was published about a session, in short words.
    pub(crate) fn story(&self, session: &SessionId) -> String {
        let (mut story, mut deltas) = (String::new(), 0);
        let mut running = HashSet::new();
        for event in self.seen.iter().filter(|event| event.body.session_id() == Some(session)) {
            if matches!(event.body, EventBody::PartDelta(_)) {
                deltas += 1;
                continue;
            }
            if deltas > 0 {
                writeln!(story, "delta x{deltas}").unwrap();
                deltas = 0;
            }
            if let EventBody::PartUpdated(it) = &event.body
                && matches!(&it.part.body, PartBody::Tool(tool) if matches!(tool.state, ToolState::Running(_)))
                && !running.insert(it.part.id.clone())
            {
                writeln!(story, "(progress)").unwrap();
                continue;
            }
            writeln!(story, "{}", word(&event.body)).unwrap();
        }
        let directory = self.project.path().canonicalize().unwrap();
        story.replace(directory.to_str().unwrap(), "/project")
    }
}

fn word(body: &EventBody) -> String {
    match body {
        EventBody::SessionStatus(it) => match &it.status {
            SessionStatus::Idle { reason, .. } => format!("IDLE({})", reason.map_or("-", EndReason::as_str)),
            SessionStatus::Busy { .. } => "BUSY".into(),
            SessionStatus::Retry { attempt, message, .. } => format!("RETRY{attempt}({message})"),
        },
        EventBody::SessionUpdated(it) => {
            let (cost, notes) = (it.info.cost.unwrap_or_default().0, it.info.extra.get(Session::NOTES));
            format!(
                "session.updated cost={cost} notes={}",
                notes.map(ToString::to_string).unwrap_or_default()
            )
        }
        EventBody::MessageUpdated(it) => match &it.info {
            Message::User(_) => "user".into(),
            Message::Assistant(message) => {
                let finish = message.finish.map(|finish| serde_json::to_value(finish).unwrap());
                let finish = finish.as_ref().and_then(|finish| finish.as_str()).unwrap_or("-").to_owned();
                let done = if message.time.completed.is_some() { ",done" } else { "" };
                let error = message.error.as_ref().map(|error| format!(",{:?}", error.message()));
                format!("assistant[{finish}{done}{}]", error.unwrap_or_default())
            }
        },
        EventBody::PartUpdated(it) => part(&it.part),
        EventBody::SessionError(it) => {
            format!("ERROR({:?})", it.error.as_ref().map(protocol::MessageError::message).unwrap_or_default())
        }
        EventBody::PermissionAsked(it) => format!("permission.asked({} {:?})", it.permission, it.patterns),
        EventBody::QuestionAsked(it) => {
            let asked: Vec<&str> = it.questions.iter().map(|question| question.question.as_str()).collect();
            format!("question.asked({asked:?})")
        }
        EventBody::TodoUpdated(it) => {
            let todos: Vec<String> =
                it.todos.iter().map(|todo| format!("{}: {}", todo.content, todo.status)).collect();
            format!("todo.updated({todos:?})")
        }
        other => other.kind().to_owned(),
    }
}

fn part(part: &Part) -> String {
    match &part.body {
        PartBody::Tool(tool) => {
            let input = || serde_json::to_string(tool.state.input()).unwrap();
            match &tool.state {
                ToolState::Pending(_) => format!("{}:pending", tool.tool),
                ToolState::Running(_) => format!("{}:running {}", tool.tool, input()),
                ToolState::Completed(done) => {
                    format!("{}:completed {:?} {:?}", tool.tool, done.title, done.output)
                }
                ToolState::Error(failed) => format!("{}:error {:?}", tool.tool, failed.error),
            }
        }
        PartBody::StepFinish(it) => {
            let tokens = (it.tokens.input, it.tokens.output);
            let reason = serde_json::to_value(it.reason).unwrap();
            format!("step-finish({} {}+{} cost={})", reason.as_str().unwrap(), tokens.0, tokens.1, it.cost.0)
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
