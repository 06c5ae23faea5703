//! What one directory is worked in with: its settings, its providers and its own native loop.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use ::agents::{
    Missing, Roster,
    native::{self, Native, mcp::Servers},
    roster::External,
};
use engine::{bus::Place, ports::Hooks};
use llm::demo;
use protocol::config::Config;
use server::{Instance, instance::Invalid};
use store::files::{commands, redacted};

use super::{
    agents, catalog, external,
    ground::Ground,
    hidden, hooks,
    mcp::{self, Shown},
    options,
    plugins::Plugins,
    providers::{self, Providers},
    settings::Settings,
    shaping::Shaping,
    trust,
};

/// Everything that follows from a directory's configuration. It never changes: when the configuration does,
/// another one is made, and turns that are running keep theirs.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) settings: Arc<Settings>,
    /// As clients see it.
    pub(super) shown: Arc<Instance>,
    /// Who answers prompts.
    pub(super) roster: Roster,
    /// The same, for whoever wants to know about its tools. A turn holds the one in the roster.
    pub(super) native: Native,
    /// Who brings tools along.
    pub(super) mcp: Servers,
    /// Plugins of other people.
    pub(super) plugins: Plugins,
    /// Who looks on, once somebody works here.
    hooks: Hooking,
}

/// Who looks on.
#[derive(Default)]
struct Hooking(OnceLock<Arc<dyn Hooks>>);

impl fmt::Debug for Hooking {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Hooking")
    }
}

impl Setup {
    /// Reads the configuration of a directory and puts together what it asks for. Plugins and MCP servers of the setup
    /// before it go on as they are if nothing is said otherwise about them. While plugins are loading, or are asked about
    /// providers, `early` has what there is without them, or was before.
    pub(super) async fn read(
        ground: &Ground,
        directory: &str,
        before: Option<Arc<Self>>,
        early: impl Fn(Arc<Self>) + Send,
    ) -> Result<Self, Invalid> {
        let mut settings = Settings::read(ground, directory.into()).await?;
        let running = before.as_ref().map(|before| &before.plugins);
        let mut plugins = Plugins::start(ground, &settings, running).await;
        let mut before = before;
        if plugins.are_loading() {
            let nothing = Shaping::default();
            let without = Self::make(ground, settings.clone(), plugins.clone(), &nothing, before.as_deref());
            before = Some(Arc::new(without.await?));
        }
        // Plugins may want to know something of us while they think.
        if let Some(before) = before.as_ref().filter(|_| plugins.host().is_some()) {
            early(Arc::clone(before));
        }
        plugins.change(&mut settings).await;
        let shaping = plugins.shape(&settings).await;
        Self::make(ground, settings, plugins, &shaping, before.as_deref()).await
    }

    async fn make(
        ground: &Ground,
        settings: Settings,
        plugins: Plugins,
        shaping: &Shaping,
        before: Option<&Self>,
    ) -> Result<Self, Invalid> {
        let settings = Arc::new(settings);
        let providers = providers::find(&settings, shaping);
        let (config, directory) = (&settings.loaded.config, settings.site.directory.to_string_lossy());
        let same = before.filter(|before| before.settings.loaded.config.mcp == config.mcp);
        let mcp = match same {
            Some(before) => before.mcp.clone(),
            None => {
                mcp::servers(
                    &ground.announcer,
                    &directory,
                    config,
                    hidden::from_commands(&settings, &providers),
                )
                .await
            }
        };
        let external = match before.filter(|before| has_same_agents(&before.settings, &settings)) {
            Some(before) => before.roster.external.clone(),
            None => external::runners(ground, &settings)?,
        };
        let shown = Instance {
            mcp: Some(Arc::new(Shown::new(mcp.clone(), &settings))),
            ..shown(ground, &settings, &providers, &external)
        };
        let (roster, native) = roster(ground, &settings, &shown, providers, mcp.clone(), external, &plugins);
        Ok(Self { settings, shown: Arc::new(shown), roster, native, mcp, plugins, hooks: Hooking::default() })
    }

    /// Whether it would be made differently now.
    pub(super) async fn is_stale(&self, ground: &Ground) -> bool {
        self.plugins.is_stale(ground) || self.settings.is_stale().await
    }

    /// What a user is told about parts of the configuration that do not count.
    pub(super) fn warning(&self) -> Option<String> {
        trust::warning(&self.settings.site.directory, &self.settings.loaded.withheld)
    }

    /// Who looks on and may shape what happens in this directory.
    pub(super) fn hooks(&self, ground: &Ground, place: impl FnOnce() -> Place) -> Arc<dyn Hooks> {
        Arc::clone(self.hooks.0.get_or_init(|| hooks::chain(ground, self, place())))
    }

    /// Whether a turn is running on it. An actor holds its runner for as long as the turn takes.
    pub(super) fn is_busy(&self) -> bool {
        let Roster { runner, external, .. } = &self.roster;
        Arc::strong_count(runner) > 1 || external.iter().any(|runner| Arc::strong_count(runner) > 1)
    }
}

/// Whether other people's agents are set up alike. If so their processes may go on.
fn has_same_agents(one: &Settings, other: &Settings) -> bool {
    let about = |settings: &Settings| {
        let Config { agents, acp, snapshot, budget, permission, mcp, sandbox, .. } =
            settings.loaded.config.clone();
        (agents, acp, snapshot, budget, permission, mcp, sandbox)
    };
    about(one) == about(other)
}

fn shown(
    ground: &Ground,
    settings: &Settings,
    providers: &Providers,
    external: &[Arc<dyn External>],
) -> Instance {
    let config = redacted(&settings.loaded.config);
    let demo_default = (demo::PROVIDER.to_owned(), demo::BATON.to_owned());
    let defaults = providers
        .listed()
        .filter_map(|live| Some((live.provider.id.clone(), live.provider.default_model()?.id.clone())));
    let listed = providers.listed().map(|live| catalog::listed(live, &config));
    let others = external.iter().map(|external| catalog::external(external.about()));
    let other_defaults = external.iter().map(|external| {
        let about = external.about();
        (about.id.clone(), about.models.first().cloned().unwrap_or_default())
    });
    let skills: Vec<_> = settings.skills.values().cloned().collect();
    Instance {
        providers: listed.chain(others).chain([catalog::provider(&ground.demo)]).collect(),
        default_models: defaults.chain(other_defaults).chain([demo_default]).collect(),
        agents: agents::all(&settings.environment, &settings.loaded.config, external),
        commands: native::commands::all(commands(&settings.loaded.config), &skills),
        skills,
        hidden: hidden::from_commands(settings, providers),
        config,
        mcp: None,
    }
}

fn roster(
    ground: &Ground,
    settings: &Arc<Settings>,
    shown: &Instance,
    providers: Providers,
    mcp: Servers,
    external: Vec<Arc<dyn External>>,
    plugins: &Plugins,
) -> (Roster, Native) {
    let default = providers.default_choice();
    let mut models = providers.into_models(&ground.client);
    models.insert(demo::PROVIDER.to_owned(), ground.demo.clone());
    let model = providers::default_model(&settings.loaded.config, default, &models, &external);
    let options =
        options::native(ground, settings, shown.agents.clone(), &models, &external, shown.hidden.clone());
    let tools = native::ToolOptions { plugins: plugins.tools(), ..options.tools };
    let options = native::Options { mcp: mcp.clone(), tools, providers: shown.providers.clone(), ..options };
    let native = Native::new(models.clone(), ground.clock.clone(), ground.random.clone(), options);
    let about = Arc::clone(settings);
    let missing: Missing = Arc::new(move |provider| providers::missing(&about, provider));
    let roster = Roster {
        agents: shown.agents.clone(),
        commands: shown.commands.clone(),
        mcp,
        models,
        model,
        missing,
        runner: Arc::new(native.clone()),
        external,
        continuation: options::continuation(&settings.loaded.config),
    };
    (roster, native)
}
