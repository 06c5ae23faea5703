//! The test harness: a project that is a repository, an engine around one runner, and its recorded events.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::bus::{Bus, Scope};
use engine::limits::Limits;
use engine::memory::Memory;
use engine::ports::{
    NoUndo, Page, Resolved, Runner, Runners, SystemClock, SystemRandom, Undo, Unresolved, Wanted,
};
use engine::{Home, Parts, Sessions, Stream, StreamItem};
use futures::future::{BoxFuture, FutureExt};
use protocol::message::ModelRef;
use protocol::prompt::{PromptInput, SessionInput};
use protocol::request::PermissionReply;
use protocol::{EndReason, Event, EventBody, MessageWithParts, PartBody, Session, SessionId, SessionStatus};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Exit, Spec};

use crate::Snapshots;

/// A timeout that must not expire, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A project, a session engine and its events.
pub(crate) struct World {
    pub(crate) sessions: Sessions,
    pub(crate) project: TempDir,
    pub(crate) seen: Vec<Event>,
    /// True if every permission request and question is refused.
    pub(crate) refuses: bool,
    stream: Stream,
    unread: VecDeque<Event>,
}

struct Always(Arc<dyn Runner>);

impl Runners for Always {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        let model = wanted.model.cloned().unwrap_or_else(|| ModelRef::new("stranger", "default"));
        let agent = wanted.agent.unwrap_or("stranger").to_owned();
        let resolved = Resolved::new(agent, model, Arc::clone(&self.0));
        async move { Ok(resolved) }.boxed()
    }
}

impl World {
    /// A harness in which this runner takes every turn. With snapshots its file changes can be reverted.
    pub(crate) async fn new(runner: Arc<dyn Runner>, snapshots: Option<Arc<Snapshots>>) -> Self {
        let project = TempDir::new().unwrap();
        std::fs::write(project.path().join("README.md"), "# A project\n\nEnd of file.\n").unwrap();
        let undo: Arc<dyn Undo> = match snapshots {
            Some(snapshots) => snapshots,
            None => Arc::new(NoUndo),
        };
        let bus = Arc::new(Bus::default());
        let memory = Arc::new(Memory::new(bus.clone()));
        let sessions = Sessions::new(Parts {
            log: memory.clone(),
            reads: memory,
            runners: Arc::new(Always(runner)),
            undo,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            bus,
            limits: Limits::default(),
            version: "0.0.0".into(),
        });
        let stream = sessions.subscribe(Scope::default(), None).await.unwrap();
        Self { sessions, project, seen: Vec::new(), refuses: false, stream, unread: VecDeque::new() }
    }

    /// Makes the project a repository.
    pub(crate) async fn commit(&self) {
        for line in
            ["init -q", "add .", "-c user.name=Test -c user.email=test@example.com commit -q -m first"]
        {
            let spec = Spec::new("git", self.project.path(), PATIENCE).args(line.split(' '));
            let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
            assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
        }
    }

    pub(crate) fn directory(&self) -> String {
        self.project.path().canonicalize().unwrap().to_string_lossy().into_owned()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(Path::new(&self.directory()).join(name)).unwrap()
    }

    pub(crate) async fn session(&self) -> Session {
        let home = Home { directory: self.directory(), project: "global".into(), path: String::new() };
        self.sessions.create(home, SessionInput::default()).await.unwrap()
    }

    pub(crate) async fn submit(&self, session: &Session, text: &str) {
        self.sessions.submit(&session.id, PromptInput::text(text)).await.unwrap();
    }

    /// Runs a turn in which every request is allowed.
    pub(crate) async fn turn(&mut self, session: &Session, text: &str) -> EndReason {
        self.submit(session, text).await;
        self.until_idle(session).await
    }

    /// Waits for the next published event.
    pub(crate) async fn next(&mut self) -> EventBody {
        while self.unread.is_empty() {
            let next = tokio::time::timeout(PATIENCE, self.stream.next());
            let Ok(next) = next.await else {
                let seen: Vec<&str> = self.seen.iter().map(|event| event.body.kind()).collect();
                panic!("nothing more happens after {seen:?}");
            };
            match next.unwrap() {
                StreamItem::Frames(frames) => {
                    let read = |json: &[u8]| serde_json::from_slice::<Event>(json).unwrap();
                    self.unread.extend(frames.iter().map(|frame| read(frame.json())));
                }
                other => panic!("the stream ended: {other:?}"),
            }
        }
        let event = self.unread.pop_front().unwrap();
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

    /// Waits for the next published event and answers it if it is a request.
    pub(crate) async fn react(&mut self) -> EventBody {
        let body = self.next().await;
        match &body {
            EventBody::PermissionAsked(asked) => {
                let reply = if self.refuses { PermissionReply::Reject } else { PermissionReply::Once };
                self.sessions.reply_permission(&asked.id, reply, None).await.unwrap();
            }
            EventBody::QuestionAsked(asked) if self.refuses => {
                self.sessions.reject_question(&asked.id).await.unwrap();
            }
            EventBody::QuestionAsked(asked) => {
                let first = asked.questions.iter().map(|it| vec![it.options[0].label.clone()]).collect();
                self.sessions.reply_question(&asked.id, first).await.unwrap();
            }
            _ => {}
        }
        body
    }

    /// Answers requests until the session is idle. Returns the end of the turn.
    pub(crate) async fn until_idle(&mut self, session: &Session) -> EndReason {
        let mut end = None;
        loop {
            match self.react().await {
                EventBody::SessionStatus(it) if it.session_id == session.id => {
                    if let SessionStatus::Idle { reason, .. } = it.status {
                        assert!(end.is_none(), "idle twice");
                        end = reason;
                    }
                }
                EventBody::SessionIdle(idle) if idle.session_id == session.id => return end.unwrap(),
                _ => {}
            }
        }
    }

    pub(crate) async fn messages(&self, session: &SessionId) -> Vec<MessageWithParts> {
        self.sessions.messages(session, Page::default()).await.unwrap()
    }

    /// Every part of a session, in order.
    pub(crate) async fn parts(&self, session: &SessionId) -> Vec<PartBody> {
        self.messages(session)
            .await
            .into_iter()
            .flat_map(|message| message.parts)
            .map(|part| part.body)
            .collect()
    }
}
