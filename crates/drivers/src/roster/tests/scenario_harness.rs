//! A test harness for all drivers: a fake program or server plays one scenario in the protocol of each agent.
//!
//! A scenario is commands with `;` between them. `prompted` waits for a prompt, `joined` for one that joins;
//! `says TEXT` is a step (`opens TEXT` and `closes` are its halves), `plans STATUS` a todo list of one entry; `wants` asks
//! for a permission, `returns` is the end of the permitted call, and `writes` is both with a changed file between them;
//! `wonders` asks a question; `retries` waits for its model; `bears` starts a subagent that works in the background and
//! `buries` is its end; `forgets` begins a process that does not have the conversation; `finish` ends the turn,
//! `interrupted` waits for an interruption, and `stopped` ends the turn after one; `ready` waits for [`ScenarioHarness::go`];
//! `linger` stays.
//!
//! The commands of misbehaviour: `refuses` does not start; `dies` ends the process, or the server cannot be reached any
//! more, and `breaks` does so in the middle of a frame; `garbles` sends frames that cannot be read, `babbles` thousands of
//! them, and `floods` one without an end; `hangs` does nothing more. Only a program can `complain` on its error output,
//! `mute` itself, `leave` a process that holds its pipes, and be `stubborn` about signals.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::{Runner, SystemClock};
use futures::future::{FutureExt, join_all};
use protocol::config::Budget;
use protocol::prompt::SessionPatch;
use protocol::{EventBody, Session};
use supervision::permission::defaults;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::acp;
use crate::claude::{self, Claude};
use crate::codex::{self, Codex};
use crate::external::harness::{Cast, Fake, Harness};
use crate::external::keeper::Wake;
use crate::external::{Driver, IdleLimits, Options};
use crate::opencode::tests::{fake, scene::Player};
use crate::roster::known::Kind;
use crate::roster::{About, External, Program, SupervisedAgent};

/// The delay of a restart after a failure: longer than a test takes, even on a busy machine.
pub(super) const PAUSE: Duration = Duration::from_mins(1);

/// Changes the settings of an agent for a test.
pub(super) type Tune = fn(&mut Options);

/// The shell functions that implement the commands for an agent.
fn dialect(kind: Kind) -> &'static str {
    match kind {
        Kind::Claude => include_str!("scenario_harness/claude.sh"),
        Kind::Codex => include_str!("scenario_harness/codex.sh"),
        Kind::Acp => include_str!("scenario_harness/acp.sh"),
        Kind::OpenCode => "",
    }
}

/// Runs a test with every kind of agent at the same time, and names the kinds that failed.
pub(super) async fn each<F: Future<Output = ()>>(play: impl Fn(Kind) -> F) {
    let played = Kind::ALL.map(|kind| {
        let played = AssertUnwindSafe(play(kind)).catch_unwind();
        async move { played.await.map_err(|_| kind) }
    });
    let failed: Vec<Kind> = join_all(played).await.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "the test failed with {failed:?}");
}

/// The fake program or server, and the settings of its agent.
pub(super) struct FakePeer {
    role: Role,
    tune: Tune,
}

enum Role {
    Program(Fake),
    Server { fake: Arc<fake::Fake>, go: Arc<Notify>, playing: Option<AbortOnDropHandle<()>> },
}

/// A harness with an agent that plays a scene.
pub(super) struct ScenarioHarness {
    pub(super) harness: Harness,
    kind: Kind,
    scene: String,
    cast: FakePeer,
    runner: Arc<dyn External>,
}

impl ScenarioHarness {
    pub(super) async fn new(kind: Kind, scene: &str) -> Self {
        Self::bounded(kind, scene, &Budget::default()).await
    }

    /// Plays a scenario within a budget.
    pub(super) async fn bounded(kind: Kind, scene: &str, budget: &Budget) -> Self {
        Self::wrapped(kind, scene, budget, |watched| watched).await
    }

    /// Plays a scenario with other settings of the agent.
    pub(super) async fn tuned(kind: Kind, scene: &str, tune: Tune) -> Self {
        Self::cast(
            FakePeer { tune, ..FakePeer::new(kind, scene).await },
            kind,
            scene,
            &Budget::default(),
            |watched| watched,
        )
        .await
    }

    /// Plays a scenario with a runner around the agent.
    pub(super) async fn wrapped<R: Runner + 'static>(
        kind: Kind,
        scene: &str,
        budget: &Budget,
        wrap: impl FnOnce(SupervisedAgent) -> R,
    ) -> Self {
        Self::cast(FakePeer::new(kind, scene).await, kind, scene, budget, wrap).await
    }

    async fn cast<R: Runner + 'static>(
        mut cast: FakePeer,
        kind: Kind,
        scene: &str,
        budget: &Budget,
        wrap: impl FnOnce(SupervisedAgent) -> R,
    ) -> Self {
        let mut external = None;
        let make = |wake| {
            let external = external.insert(cast.runner(kind, wake));
            let supervised = SupervisedAgent::new(Arc::clone(external), None, budget.clone());
            Cast::new(Arc::clone(external), wrap(supervised))
        };
        let harness = Harness::playing(make).await;
        cast.raise(scene, harness.project.path());
        Self { harness, kind, scene: scene.to_owned(), cast, runner: external.unwrap() }
    }

    /// Simulates a restart of the server; the agent plays its scenario from the beginning.
    pub(super) async fn restart(self) -> Self {
        let scene = self.scene.clone();
        self.restart_as(scene).await
    }

    /// Simulates a restart after which the agent does not have the conversation.
    pub(super) async fn restart_without_memory(self, scene: &str) -> Self {
        match &self.cast.role {
            Role::Program(fake) => fake.becomes(&program(self.kind, &format!("forgets; {scene}"))),
            Role::Server { fake, .. } => fake.refuse("GET /session/ses_there ", 404),
        }
        self.restart_as(scene.to_owned()).await
    }

    async fn restart_as(self, scene: String) -> Self {
        let Self { harness, kind, mut cast, runner, .. } = self;
        runner.close().await;
        let mut external = None;
        let make = |wake| {
            let external = external.insert(cast.runner(kind, wake));
            let supervised = SupervisedAgent::new(Arc::clone(external), None, Budget::default());
            Cast::new(Arc::clone(external), supervised)
        };
        let harness = harness.restart_playing(make).await;
        cast.raise(&scene, harness.project.path());
        Self { harness, kind, scene, cast, runner: external.unwrap() }
    }

    /// A session whose turns continue while todos are open.
    pub(super) async fn continuing(&self) -> Session {
        let session = self.harness.session().await;
        let patch = SessionPatch { continuation: Some(true), ..SessionPatch::default() };
        self.harness.sessions.update(&session.id, patch).await.unwrap()
    }

    /// Waits for this text delta.
    pub(super) async fn until_said(&mut self, words: &str) {
        self.harness.until(|body| matches!(body, EventBody::PartDelta(it) if it.delta == words)).await;
    }

    /// Makes a server refuse new sessions, or accept them again. A program fails as its scenario says.
    pub(super) fn refuses_sessions(&self, refuses: bool) {
        match &self.cast.role {
            Role::Server { fake, .. } if refuses => fake.refuse("POST /session ", 500),
            Role::Server { fake, .. } => fake.refuse_nothing(),
            Role::Program(_) => {}
        }
    }

    /// Releases a scenario that waits at `ready`.
    pub(super) fn go(&self) {
        match &self.cast.role {
            Role::Program(_) => std::fs::write(self.harness.project.path().join(".go"), "").unwrap(),
            Role::Server { go, .. } => go.notify_one(),
        }
    }

    /// All messages that the agent has received.
    pub(super) fn told(&self) -> Vec<String> {
        match &self.cast.role {
            Role::Program(fake) => fake.notes().lines().map(str::to_owned).collect(),
            Role::Server { fake, .. } => fake.calls(),
        }
    }

    /// The number of messages to the agent that contain this text.
    pub(super) fn count_told(&self, words: &str) -> usize {
        self.told().iter().filter(|told| told.contains(words)).count()
    }

    /// Asserts that the events are valid and that no process is left. Returns the number of turns.
    pub(super) async fn end(self, session: &Session) -> usize {
        let turns = self.harness.check(&session.id);
        self.close().await;
        turns
    }

    /// Asserts that no process is left.
    pub(super) async fn close(self) {
        self.runner.close().await;
        if let Role::Program(fake) = &self.cast.role {
            fake.assert_gone();
        }
    }
}

/// The script of a program that plays a scenario.
fn program(kind: Kind, scene: &str) -> String {
    format!("{}\n{}\n{scene}", include_str!("scenario_harness/words.sh"), dialect(kind))
}

impl FakePeer {
    pub(super) async fn new(kind: Kind, scene: &str) -> Self {
        let role = if kind == Kind::OpenCode {
            let fake = Arc::new(fake::Fake::new().await);
            Role::Server { fake, go: Arc::default(), playing: None }
        } else {
            Role::Program(Fake::new(&program(kind, scene)))
        };
        Self { role, tune: |_| {} }
    }

    /// Starts the scenario of a server. A program plays when it is started.
    pub(super) fn raise(&mut self, scene: &str, project: &Path) {
        if let Role::Server { fake, go, playing } = &mut self.role {
            let prompts = fake.calls().iter().filter(|call| call.contains("/prompt_async")).count();
            let player = Player::new(fake, project, go, prompts);
            *playing = Some(AbortOnDropHandle::new(tokio::spawn(player.perform(scene.to_owned()))));
        }
    }

    pub(super) fn runner(&self, kind: Kind, wake: Wake) -> Arc<dyn External> {
        let options = |id: &str, program: Program| {
            let mut options = Options::new(about(id, kind), program);
            options.keeping = IdleLimits { pause: PAUSE, longest: PAUSE, ..options.keeping };
            (self.tune)(&mut options);
            options
        };
        let fake = match &self.role {
            Role::Program(fake) => fake,
            Role::Server { fake, .. } => {
                let options = options("opencode-agent", fake.program(Vec::new()));
                return Arc::new(fake.tuned_runner(options));
            }
        };
        let program = Program { rules: defaults(), ..fake.configured() };
        match kind {
            Kind::Claude => {
                let agent = Claude::new(options(claude::NAME, program));
                Arc::new(Driver::new(agent, Arc::new(SystemClock), wake))
            }
            Kind::Codex => {
                let agent = Codex::new(options(codex::NAME, program));
                Arc::new(Driver::new(agent, Arc::new(SystemClock), wake))
            }
            Kind::OpenCode | Kind::Acp => {
                let options = acp::Options {
                    agent: options("acp:fake", program),
                    servers: BTreeMap::new(),
                    sandbox: None,
                    command: None,
                    closed: workspace::files::Closed::default(),
                };
                Arc::new(Driver::new(acp::Acp::new(options), Arc::new(SystemClock), wake))
            }
        }
    }
}

fn about(id: &str, kind: Kind) -> About {
    About {
        id: id.to_owned(),
        name: "The agent".to_owned(),
        description: String::new(),
        models: vec!["default".to_owned()],
        has_providers: kind == Kind::OpenCode,
        abilities: kind.abilities(),
    }
}
