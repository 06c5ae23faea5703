//! The plugins of a directory: the host process that runs them, their hooks and their tools.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use ::plugins::{
    Chain, NamedHooks,
    host::{self, Host, Logins, Member, Reporter, Runtime},
};
use engine::ports::{
    Tools,
    hooks::{Hooks, NoHooks},
};
use futures::future::FutureExt;
use protocol::config::{Config, Plugin};
use serde_json::json;
use server::project::Projects;
use store::files::{
    self, Environment,
    auth::{AuthFile, spelled},
};
use tokio::task::spawn_blocking;

use crate::{
    diagnostics::Reports, hidden, patches::Patches, providers, services::Services, settings::Settings,
};

/// A caller that needs a directory waits this long for its plugins to load. Plugins that load later take effect with the
/// next prompt.
const LOADING: Duration = Duration::from_secs(10);
/// A turn waits this long for required plugins. An installation may take that long.
const REQUIRED: Duration = Duration::from_mins(2);
/// The directory below the cache that holds the packages of plugins.
const PACKAGES: &str = "plugins";

#[derive(Debug, Clone)]
pub(crate) struct Plugins {
    host: Option<Host>,
    hooks: SharedHooks,
    /// Failures of plugins.
    pub(crate) reports: Reports,
    /// The configuration before plugins changed it.
    written: Config,
    /// The plugins to run.
    wanted: Vec<Plugin>,
    /// The host process whose changes of configuration and providers are part of this project.
    applied: Option<u64>,
}

/// Hooks that successive projects of a directory share.
#[derive(Clone)]
struct SharedHooks(Arc<dyn Hooks>);

impl fmt::Debug for SharedHooks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Hooks")
    }
}

impl Plugins {
    /// Starts the plugins of a directory. Keeps the running host process of `before` if the configuration is the same.
    pub(crate) async fn start(services: &Services, settings: &Settings, before: Option<&Self>) -> Self {
        let written = settings.loaded.config.clone();
        let wanted = wanted(settings);
        let same = before.filter(|before| before.wanted == wanted && before.written == written);
        if let Some(before) = same.filter(|before| before.host.is_some()) {
            return Self { applied: None, ..before.clone() };
        }
        let reports = Reports::default();
        let (host, hooks) = start(services, settings, &wanted, &reports).await;
        Self { host, hooks, reports, written, wanted, applied: None }
    }

    /// Returns true if the directory has plugins to run.
    pub(crate) fn are_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Returns the host process, if the directory has plugins and the server has an address.
    pub(crate) fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Returns true while the host process is starting.
    pub(crate) fn are_loading(&self) -> bool {
        self.host.as_ref().is_some_and(Host::is_starting)
    }

    /// Returns a warning if a turn that starts now runs without some of the plugins, because they are not loaded yet.
    pub(crate) fn warning(&self) -> Option<String> {
        let pending = self.host.as_ref()?.pending();
        let what = match pending.as_slice() {
            [] => return None,
            [one] => format!("the plugin {one} is"),
            many => format!("the plugins {} are", many.join(", ")),
        };
        Some(format!("{what} still being installed or loaded; turns run without until then"))
    }

    /// Returns true if turns need one of the plugins.
    pub(crate) fn are_required(&self) -> bool {
        self.wanted.iter().any(Plugin::is_required)
    }

    /// Waits until the required plugins are loaded, or returns the reason why a turn cannot start.
    pub(crate) async fn require(&self) -> Result<(), String> {
        let missing = match &self.host {
            Some(host) => host.lacks(REQUIRED).await,
            None => self.wanted.iter().filter(|it| it.is_required()).map(|it| it.spec.as_str()).collect(),
        };
        if missing.is_empty() {
            return Ok(());
        }
        let names = missing.join(", ");
        Err(format!(
            "required plugins are not loaded: {names}; the log has the reason, and the next prompt tries again"
        ))
    }

    /// Applies the changes that plugins make to the configuration, if they load in time.
    pub(crate) async fn change(&mut self, settings: &mut Settings) {
        let Some(host) = &self.host else { return };
        if host.settled(LOADING).await
            && let Some(changed) = host.config()
        {
            let (config, wrong) = files::amend(&settings.loaded, &settings.environment, &changed);
            for key in wrong {
                let message =
                    format!("a plugin wrote an invalid value to `{key}` in the configuration; ignoring it");
                tracing::warn!("{message}");
                self.reports.add(&message);
            }
            settings.set_config(config);
            self.applied = host.life();
        }
    }

    /// Asks plugins for their changes to providers.
    pub(crate) async fn patches(&self, settings: &Settings) -> Patches {
        match &self.host {
            Some(host) => Patches::ask(host, settings).await,
            None => Patches::default(),
        }
    }

    /// Returns true if plugins can start now because the server has an address, or if a host process has loaded since the
    /// project was built.
    pub(crate) fn is_stale(&self, services: &Services) -> bool {
        match &self.host {
            None => self.are_wanted() && services.address.get().is_some(),
            // A restarted process may change configuration and providers differently.
            Some(host) => host.life().is_some_and(|life| self.applied != Some(life)),
        }
    }

    pub(crate) fn hooks(&self) -> Arc<dyn Hooks> {
        Arc::clone(&self.hooks.0)
    }

    /// Returns the tools of plugins for the native loop.
    pub(crate) fn tools(&self) -> Option<Arc<dyn Tools>> {
        Some(Arc::new(self.host.clone()?))
    }

    /// Ends the host process after plugins had the chance to clean up.
    pub(crate) async fn close(&self) {
        if let Some(host) = &self.host {
            host.close().await;
        }
    }
}

/// Installs the packages of a directory's plugins into the cache. Returns a sentence for each failure.
pub async fn install(environment: &Environment, cache: &Path, config: &Config) -> Vec<String> {
    match environment.get("PATH").and_then(Runtime::find) {
        Some(runtime) => host::install(&runtime, &cache.join(PACKAGES), &config.plugin).await,
        // The server reports that there is no runtime.
        None => Vec::new(),
    }
}

/// Returns the plugins to run. The configuration of an untrusted directory lists none of its own.
fn wanted(settings: &Settings) -> Vec<Plugin> {
    if settings.environment.is_on("OPENCODE_PURE") {
        return Vec::new();
    }
    settings.loaded.config.plugin.clone()
}

/// Starts a host process if there are plugins and a server that they can call.
async fn start(
    services: &Services,
    settings: &Settings,
    wanted: &[Plugin],
    reports: &Reports,
) -> (Option<Host>, SharedHooks) {
    let Some(address) = services.address.get().filter(|_| !wanted.is_empty()) else {
        return (None, SharedHooks(NoHooks::shared()));
    };
    let directory = settings.site.directory.to_string_lossy().into_owned();
    let project = Projects::default().find(&directory).await;
    let place = services.announcer.bus.place(directory, project.project.clone());
    let announcer = services.announcer.clone();
    let time = services.clock.now();
    let reports = reports.clone();
    let report: Reporter = Arc::new(move |text: &str| {
        announcer.error(&place, text);
        reports.add(text);
    });
    let host = Host::start(::plugins::host::Settings {
        runtime: settings.environment.get("PATH").and_then(Runtime::find),
        cache: services.places.cache.join(PACKAGES),
        hidden: hidden::from_commands(settings, &providers::find(settings, &Patches::default())),
        directory: settings.site.directory.clone(),
        worktree: settings.site.worktree.clone(),
        project: json!({
            "id": project.project,
            "worktree": project.worktree,
            "vcs": project.repository.is_some().then_some("git"),
            "time": { "created": time, "initialized": time },
        }),
        server_url: address.clone(),
        authorization: services.authorization.clone(),
        config: files::shown(&settings.loaded.config),
        plugins: wanted.to_vec(),
        bus: services.announcer.bus.clone(),
        limits: settings.resolved.hooks,
        report: Arc::clone(&report),
        logins: logins(services),
    });
    let link = |member: Member| NamedHooks { name: member.name().to_owned(), hooks: Arc::new(member) };
    let chain = Chain::new(host.members().into_iter().map(link).collect(), report);
    (Some(host), SharedHooks(Arc::new(chain)))
}

/// Returns the function with which plugins read a login. It reads the file each time, because logins change.
fn logins(services: &Services) -> Logins {
    let auth = AuthFile::new(&services.environment, &services.places.data);
    Arc::new(move |provider| {
        let (auth, provider) = (auth.clone(), provider.to_owned());
        let read = spawn_blocking(move || auth.read().ok()?.entries.get(&provider).map(spelled));
        // A file that cannot be read has no logins.
        async move { read.await.ok().flatten() }.boxed()
    })
}
