//! A test client of an engine: submits prompts, records events, answers permission requests and questions,
//! and reads the results.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use client::check::{Checker, End};
use engine::ports::{Clock, Page};
use engine::{Home, Sessions};
use protocol::prompt::{PromptInput, SessionInput};
use protocol::request::PermissionReply;
use protocol::{
    EndReason, Event, EventBody, MessageWithParts, Millis, PartBody, Session, SessionStatus, ToolState,
};
use tempfile::TempDir;

use crate::published::Published;

/// The timeout of every wait. A test fails when it passes.
const ENOUGH: Duration = Duration::from_mins(1);

/// A clock that advances by one millisecond with every reading.
pub(crate) struct Ticking(pub(crate) AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Millis {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// The user's reaction to permission requests and questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Person {
    Agrees,
    AlwaysAgrees,
    Refuses,
    Corrects,
    Sleeps,
}

/// A project in a temporary directory and the recorded events of its sessions.
pub(crate) struct Onlooker {
    pub(crate) sessions: Sessions,
    pub(crate) project: TempDir,
    published: Published,
    pub(crate) seen: Vec<Event>,
}

impl Onlooker {
    pub(crate) fn new(sessions: Sessions, project: TempDir, published: Published) -> Self {
        Self { sessions, project, published, seen: Vec::new() }
    }

    pub(crate) fn directory(&self) -> String {
        self.project.path().canonicalize().unwrap().to_string_lossy().into_owned()
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

    /// Runs a whole turn in a new session.
    pub(crate) async fn turn(&mut self, person: Person) -> Session {
        let session = self.session().await;
        self.submit(&session, "please").await;
        self.until_idle(&session, person).await;
        session
    }

    /// Waits for the next published event and records it.
    pub(crate) async fn next(&mut self) -> EventBody {
        let event = self.published.next(ENOUGH).await;
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

    /// Answers permission requests and questions until the session is idle.
    pub(crate) async fn until_idle(&mut self, session: &Session, person: Person) {
        loop {
            match self.next().await {
                EventBody::SessionIdle(idle) if idle.session_id == session.id => return,
                body => self.react(&body, person).await,
            }
        }
    }

    /// Answers a permission request or a question. The runner may have withdrawn a permission request
    /// meanwhile.
    pub(crate) async fn react(&self, body: &EventBody, person: Person) {
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

    pub(crate) async fn messages(&self, session: &Session) -> Vec<MessageWithParts> {
        self.sessions.messages(&session.id, Page::default()).await.unwrap()
    }

    /// Returns every tool call of a session, in order.
    pub(crate) async fn tools(&self, session: &Session) -> Vec<(String, ToolState)> {
        let parts = self.messages(session).await.into_iter().flat_map(|message| message.parts);
        parts
            .filter_map(|part| match part.body {
                PartBody::Tool(tool) => Some((tool.tool, tool.state)),
                _ => None,
            })
            .collect()
    }

    /// Asserts that no tool runs and that no permission request or question is open.
    pub(crate) async fn assert_all_is_closed(&self, session: &Session) {
        for (tool, state) in self.tools(session).await {
            assert!(matches!(state, ToolState::Completed(_) | ToolState::Error(_)), "{tool}: {state:?}");
        }
        assert_eq!(self.sessions.permissions(None).await.unwrap(), []);
        assert_eq!(self.sessions.questions(None).await.unwrap(), []);
    }

    /// Returns the end reasons of the session's turns, one per idle status.
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

    /// Returns the messages of all session errors.
    pub(crate) fn errors(&self) -> Vec<String> {
        let errors = self.seen.iter().filter_map(|event| match &event.body {
            EventBody::SessionError(it) => it.error.as_ref().map(|error| error.message().to_owned()),
            _ => None,
        });
        errors.collect()
    }

    /// Asserts that the client's checker finds no fault in the recorded events.
    pub(crate) fn check(&self) {
        let mut checker = Checker::new();
        for event in &self.seen {
            checker.observe(None, event);
        }
        let report = checker.finish(End::Complete);
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }

    /// Returns the messages that the scripted agent has received so far.
    pub(crate) fn heard(&self) -> Vec<serde_json::Value> {
        let text = self.noted(".heard").unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the contents of a file that a script wrote to the project.
    pub(crate) fn noted(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.project.path().join(file)).ok()
    }
}

/// Asserts that the processes with these ids have ended.
pub(crate) fn assert_gone(ids: &str) {
    for id in ids.split_whitespace() {
        assert!(!lives(id), "process {id} is left");
    }
}

/// Returns true if `/proc` lists the process and it is neither a zombie nor dead.
pub(crate) fn lives(id: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(id).join("stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    !matches!(state, Some("Z" | "X"))
}
