//! The runtime of one directory: its settings, providers, agents, plugins and MCP servers.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use drivers::roster::External;
use engine::{bus::Place, ports::Hooks};
use llm::demo;
use native::Native;
use protocol::{config::Config, diagnostic::Diagnostic, provider::Provider};
use server::{Instance, instance::Invalid};
use store::files::{commands, redacted};
use supervision::mcp::Servers;

use crate::{
    agents, diagnostics, external, hidden, hooks, listing,
    mcp::{self, ListedServers},
    offer::{self, Offer},
    options,
    patches::Patches,
    plugins::Plugins,
    providers::{self, Providers},
    roster::{Missing, Roster},
    services::Services,
    settings::Settings,
    trust,
};

/// Everything that follows from a directory's configuration. It is immutable: a changed configuration builds another
/// project, and running turns keep theirs.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) settings: Arc<Settings>,
    /// The view of the server's routes.
    pub(crate) instance: Arc<Instance>,
    /// Chooses agent, model and runner of a prompt.
    pub(crate) roster: Roster,
    /// The native loop of the roster, which lists its tools.
    pub(crate) native: Native,
    pub(crate) mcp: Servers,
    pub(crate) plugins: Plugins,
    /// Warnings that are known from the configuration alone.
    warnings: Vec<Diagnostic>,
    hooks: HookChain,
}

/// The hooks of the directory, built by the first caller that needs them.
#[derive(Default)]
struct HookChain(OnceLock<Arc<dyn Hooks>>);

impl fmt::Debug for HookChain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("HookChain")
    }
}

impl Project {
    /// Reads the configuration of a directory and builds its project. Plugins, MCP servers and external agents of the
    /// project `before` keep running if their part of the configuration is the same.
    ///
    /// Plugins may call the server while they load, or while they are asked about providers. To answer them, `interim`
    /// receives a project without plugins, or the one before.
    pub(crate) async fn read(
        services: &Services,
        directory: &str,
        before: Option<Arc<Self>>,
        interim: impl Fn(Arc<Self>) + Send,
    ) -> Result<Self, Invalid> {
        let mut settings = Settings::read(services, directory.into()).await?;
        let running = before.as_ref().map(|before| &before.plugins);
        let mut plugins = Plugins::start(services, &settings, running).await;
        let mut before = before;
        if plugins.are_loading() {
            let patches = Patches::default();
            let without =
                Self::build(services, settings.clone(), plugins.clone(), &patches, before.as_deref());
            before = Some(Arc::new(without.await?));
        }
        if let Some(before) = before.as_ref().filter(|_| plugins.host().is_some()) {
            interim(Arc::clone(before));
        }
        plugins.change(&mut settings).await;
        let patches = plugins.patches(&settings).await;
        let project = Self::build(services, settings, plugins, &patches, before.as_deref()).await?;
        for warning in &project.warnings {
            tracing::warn!("{warning}");
        }
        Ok(project)
    }

    async fn build(
        services: &Services,
        settings: Settings,
        plugins: Plugins,
        patches: &Patches,
        before: Option<&Self>,
    ) -> Result<Self, Invalid> {
        let settings = Arc::new(settings);
        let providers = providers::find(&settings, patches);
        let (config, directory) = (&settings.loaded.config, settings.site.directory.to_string_lossy());
        let same = before.filter(|before| before.settings.loaded.config.mcp == config.mcp);
        let mcp = if let Some(before) = same {
            before.mcp.clone()
        } else {
            let hidden = hidden::from_commands(&settings, &providers);
            mcp::servers(&services.announcer, &directory, config, hidden).await
        };
        let external = match before.filter(|before| has_same_agents(&before.settings, &settings)) {
            Some(before) => before.roster.external.clone(),
            None => external::runners(services, &settings, &providers)?,
        };
        let instance = Instance {
            mcp: Some(Arc::new(ListedServers::new(mcp.clone(), &settings))),
            ..instance(services, &settings, &providers, &external)
        };
        let mut warnings = settings.warnings.clone();
        warnings.extend(providers.warnings.iter().cloned());
        let (roster, native) =
            roster(services, &settings, &instance, providers, mcp.clone(), external, &plugins);
        let (config, agents) = (&settings.loaded.config, &instance.agents);
        warnings.extend(diagnostics::references(config, agents, &roster.models, &roster.external));
        let (instance, hooks) = (Arc::new(instance), HookChain::default());
        Ok(Self { settings, instance, roster, native, mcp, plugins, warnings, hooks })
    }

    /// Returns true if the project would be built differently now.
    pub(crate) async fn is_stale(&self, services: &Services) -> bool {
        self.plugins.is_stale(services) || self.settings.is_stale().await
    }

    /// Returns the warning for the user if parts of the configuration are withheld.
    pub(crate) fn warning(&self) -> Option<String> {
        trust::warning(&self.settings.site.directory, &self.settings.loaded.withheld)
    }

    /// Returns all warnings about the configuration, including those of MCP servers and plugins that have failed so far.
    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        let withheld = diagnostics::withheld(&self.settings.site.directory, &self.settings.loaded.withheld);
        let failures = self.mcp.failures();
        let servers = failures.iter().map(|(name, why)| diagnostics::server(name, why));
        let written = withheld.into_iter().chain(self.warnings.iter().cloned());
        written.chain(servers).chain(self.plugins.reports.list()).collect()
    }

    /// Returns the hooks of this directory.
    pub(crate) fn hooks(&self, services: &Services, place: impl FnOnce() -> Place) -> Arc<dyn Hooks> {
        Arc::clone(self.hooks.0.get_or_init(|| hooks::chain(services, self, place())))
    }
}

/// Returns true if external agents are configured alike, so that their processes can keep running.
fn has_same_agents(one: &Settings, other: &Settings) -> bool {
    let about = |settings: &Settings| {
        let Config { agents, acp, snapshot, budget, permission, mcp, sandbox, limits, provider, .. } =
            settings.loaded.config.clone();
        (agents, acp, snapshot, budget, permission, mcp, sandbox, limits, provider)
    };
    about(one) == about(other)
}

fn instance(
    services: &Services,
    settings: &Settings,
    providers: &Providers,
    external: &[Arc<dyn External>],
) -> Instance {
    let config = redacted(&settings.loaded.config);
    let default = providers::default_model(&settings.loaded.config, providers.default_choice());
    let offer = offer::Inputs {
        config: &settings.loaded.config,
        shown: &config,
        providers,
        external,
        demo: &services.demo,
        default: &default,
    };
    let Offer { providers: offered, defaults } = offer.offer();
    let skills: Vec<_> = settings.skills.values().cloned().collect();
    Instance {
        providers: offered,
        default_models: defaults,
        agents: agents::all(&settings.environment, &settings.loaded.config, external),
        commands: native::commands::all(commands(&settings.loaded.config), &skills),
        skills,
        hidden: hidden::from_commands(settings, providers),
        config,
        mcp: None,
    }
}

/// Returns the providers that hooks of plugins learn about: those that are offered, and all models of the demo.
fn known(services: &Services, instance: &Instance) -> Vec<Provider> {
    let offered = instance.providers.iter().filter(|provider| provider.id != demo::PROVIDER).cloned();
    let demo = listing::demo(&services.demo, services.demo.models().map(|(id, _)| id));
    offered.chain([demo]).collect()
}

fn roster(
    services: &Services,
    settings: &Arc<Settings>,
    instance: &Instance,
    providers: Providers,
    mcp: Servers,
    external: Vec<Arc<dyn External>>,
    plugins: &Plugins,
) -> (Roster, Native) {
    let default = providers.default_choice();
    let mut models = providers.into_models(&services.client);
    let demo = services.demo.clone().with_deadlines(settings.resolved.deadlines);
    models.insert(demo::PROVIDER.to_owned(), Arc::new(demo));
    let model = providers::default_model(&settings.loaded.config, default);
    let (agents, hidden) = (instance.agents.clone(), instance.hidden.clone());
    let options = options::native(services, settings, agents, &models, hidden);
    let tools = native::ToolOptions { plugins: plugins.tools(), ..options.tools };
    let options =
        native::Options { mcp: mcp.clone(), tools, providers: known(services, instance), ..options };
    let (snapshots, budget) = (options.snapshots.clone(), options.budget.clone());
    let native = Native::new(models.clone(), services.clock.clone(), services.random.clone(), options);
    let about = Arc::clone(settings);
    let missing: Missing = Arc::new(move |provider| providers::missing(&about, provider));
    let roster = Roster {
        agents: instance.agents.clone(),
        commands: instance.commands.clone(),
        mcp,
        models,
        model,
        missing,
        runner: Arc::new(native.clone()),
        external,
        snapshots,
        budget,
        continuation: settings.resolved.continuation.clone(),
    };
    (roster, native)
}
