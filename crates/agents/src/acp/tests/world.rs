//! A world for tests: a project in a temporary directory, an engine around one agent whose program is a script, and
//! somebody who watches and answers.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::bus::Bus;
use engine::limits::Limits;
use engine::memory::Memory;
use engine::ports::{Clock, NoUndo, Resolved, Runners, SystemRandom, Unresolved, Wanted};
use engine::{Parts, Sessions};
use futures::future::{BoxFuture, FutureExt};
use protocol::config::PermissionMode;
use protocol::message::ModelRef;
use protocol::{PartBody, Session, SessionId};
use tempfile::TempDir;

use crate::acp::{Acp, Options};
use crate::external::{self, Bounds, Driver, Keeping, Patience};
use crate::native::permission::defaults;
use crate::onlooker::{Onlooker, Ticking, assert_gone};
pub(super) use crate::onlooker::{Person, lives};
use crate::published::Published;
use crate::roster::{About, External as _, Program};

/// What the agent is called.
pub(super) const AGENT: &str = "acp:fake";

struct OneRunner(Driver<Acp>);

impl Runners for OneRunner {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move {
            let model = wanted.model.cloned().unwrap_or_else(|| ModelRef::new(AGENT, "default"));
            Ok(Resolved::new(AGENT, model, Arc::new(self.0.clone())))
        }
        .boxed()
    }
}

pub(super) struct World {
    onlooker: Onlooker,
    pub(super) acp: Driver<Acp>,
    memory: Arc<Memory>,
    limits: Limits,
}

impl Deref for World {
    type Target = Onlooker;

    fn deref(&self) -> &Onlooker {
        &self.onlooker
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Onlooker {
        &mut self.onlooker
    }
}

/// How an agent is run in tests, unless a test says otherwise: what takes long in the world takes a moment here.
pub(super) fn options(command: &[String]) -> Options {
    let about = About {
        id: AGENT.to_owned(),
        name: "Fake".to_owned(),
        description: "An agent for tests".to_owned(),
        models: vec!["default".to_owned()],
        has_providers: true,
        abilities: Options::ABILITIES,
    };
    let program = Program {
        command: command.to_vec(),
        environment: BTreeMap::new(),
        hidden: Vec::new(),
        mode: PermissionMode::Ask,
        rules: defaults(),
        idle: Duration::from_mins(10),
    };
    let agent = external::Options {
        bounds: Bounds { line: 1024 * 1024, linger: Duration::from_millis(300), ..Bounds::default() },
        patience: Patience {
            start: Duration::from_secs(20),
            interrupt: Duration::from_millis(400),
            silence: Duration::from_secs(20),
            ..Patience::default()
        },
        keeping: Keeping { pause: Duration::from_millis(10), ..Keeping::default() },
        ..external::Options::new(about, program)
    };
    let closed = workspace::files::Closed::default();
    Options { agent, servers: BTreeMap::new(), sandbox: None, closed }
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
        let world = Self::on(self.onlooker.project, options, memory, bus, self.limits).await;
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
        let sessions: Arc<Mutex<Option<Sessions>>> = Arc::default();
        let wakes = Arc::clone(&sessions);
        let wake = move |session: SessionId, why: String| {
            let sessions = wakes.lock().unwrap().clone().unwrap();
            tokio::spawn(async move { sessions.wake(&session, &why).await.unwrap() });
        };
        let acp = Driver::new(Acp::new(options), Arc::clone(&clock) as Arc<dyn Clock>, Arc::new(wake));
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
        Self { onlooker: Onlooker::new(made, project, published), acp, memory, limits }
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

    /// Lets an agent go on that waits to be `ready`.
    pub(super) fn go(&self) {
        std::fs::write(self.project.path().join(".go"), "").unwrap();
    }

    /// What the agent's requests were answered with.
    pub(super) fn answered(&self, id: &str) -> serde_json::Value {
        let heard = self.heard();
        let answer = heard.iter().find(|message| message["id"] == id && message.get("method").is_none());
        answer.unwrap_or_else(|| panic!("{id} was not answered: {heard:#?}")).clone()
    }

    /// The processes that scripts have noted are all gone.
    pub(super) fn assert_nothing_is_left(&self) {
        assert_gone(&self.noted(".pids").unwrap_or_default());
    }
}
