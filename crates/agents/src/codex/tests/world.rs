//! A world for tests: a project in a temporary directory, an engine around Codex, whose program is a script, and somebody
//! who watches and answers.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use engine::bus::Bus;
use engine::limits::Limits;
use engine::memory::Memory;
use engine::ports::{Clock, NoUndo, Resolved, Runners, SystemRandom, Unresolved, Wanted};
use engine::{Parts, Sessions};
use futures::future::{BoxFuture, FutureExt};
use protocol::config::PermissionMode;
use protocol::message::ModelRef;
use tempfile::TempDir;

use crate::codex::{ABILITIES, Codex, NAME};
use crate::external::{Bounds, Driver, Options, Patience, keeper::Wake};
use crate::published::Published;
use crate::roster::{About, Program};

pub(super) use crate::onlooker::Person;
use crate::onlooker::{Onlooker, Ticking, assert_gone};

struct OneRunner(Driver<Codex>);

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
    onlooker: Onlooker,
    pub(super) codex: Driver<Codex>,
    memory: Arc<Memory>,
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

/// How Codex is run in tests: what takes long in the world takes a moment here.
pub(super) fn options(script: &str) -> Options {
    let about = About {
        id: NAME.into(),
        name: "Codex".into(),
        description: String::new(),
        models: Vec::new(),
        has_providers: false,
        abilities: ABILITIES,
    };
    let program = Program {
        command: vec!["/bin/bash".into(), "-c".into(), script.into()],
        environment: BTreeMap::new(),
        hidden: Vec::new(),
        rules: Vec::new(),
        mode: PermissionMode::Ask,
        idle: Duration::from_mins(10),
    };
    Options {
        patience: Patience {
            start: Duration::from_secs(2),
            answer: Duration::from_secs(2),
            interrupt: Duration::from_millis(400),
            settle: Duration::from_millis(300),
            silence: Duration::from_secs(2),
        },
        bounds: Bounds {
            line: 1024 * 1024,
            linger: Duration::from_millis(300),
            write: Duration::from_secs(1),
            ..Bounds::default()
        },
        ..Options::new(about, program)
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
        drop(self.codex);
        let Onlooker { project, .. } = self.onlooker;
        let world = Self::on(project, options, memory, bus, Limits::default()).await;
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
        let codex = Driver::new(Codex::new(options), Arc::clone(&clock) as Arc<dyn Clock>, wake);
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
        Self { onlooker: Onlooker::new(sessions, project, published), codex, memory }
    }

    /// Everything that went wrong, in words.
    pub(super) fn errors(&self) -> String {
        self.onlooker.errors().join("; ")
    }

    /// What Codex was asked with this method.
    pub(super) fn asked(&self, method: &str) -> Vec<serde_json::Value> {
        let asked = self.heard().into_iter().filter(|message| message["method"] == method);
        asked.map(|message| message["params"].clone()).collect()
    }

    /// The processes that scripts have noted are all gone.
    pub(super) fn assert_nothing_is_left(&self) {
        let ids = self.noted(".processes").unwrap();
        assert!(!ids.trim().is_empty(), "the script noted no process");
        assert_gone(&ids);
    }
}
