//! The plugins of a directory: which of them may run, the host they run in, and what they bring along.

use std::{fmt, sync::Arc, time::Duration};

use ::plugins::{
    Chain, Link,
    host::{Host, Limits, Logins, Member, Reporter, Runtime},
};
use engine::{
    bus::Place,
    ports::{
        Tools,
        hooks::{Hooks, NoHooks},
    },
};
use futures::future::FutureExt;
use protocol::{
    EventBody, Extra, MessageError,
    config::{Config, Plugin},
    event::SessionFailed,
};
use serde_json::json;
use server::project::Projects;
use store::files::{
    self,
    auth::{AuthFile, spelled},
};
use tokio::task::spawn_blocking;

use super::{ground::Ground, hidden, mcp::Announcer, providers, settings::Settings, shaping::Shaping};

/// How long whoever needs a directory waits for its plugins. What comes later counts from the next prompt on.
const PATIENCE: Duration = Duration::from_secs(10);
/// Packages, in the cache.
const PACKAGES: &str = "plugins";

/// The plugins of a directory.
#[derive(Debug, Clone)]
pub(super) struct Plugins {
    host: Option<Host>,
    hooks: Shared,
    /// The configuration as it was before they changed it.
    written: Config,
    /// Those that may run.
    wanted: Vec<Plugin>,
    /// Which process has had its say about the configuration and providers, if any has.
    heard: Option<u64>,
}

/// Hooks that several setups may have in common.
#[derive(Clone)]
struct Shared(Arc<dyn Hooks>);

impl fmt::Debug for Shared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Hooks")
    }
}

impl Plugins {
    /// Starts the plugins of a directory, or goes on with those that run if nothing about them has changed.
    pub(super) async fn start(ground: &Ground, settings: &Settings, before: Option<&Self>) -> Self {
        let written = settings.loaded.config.clone();
        let wanted = wanted(settings);
        let same = before.filter(|before| before.wanted == wanted && before.written == written);
        let (host, hooks) = match same.filter(|before| before.host.is_some()) {
            Some(before) => (before.host.clone(), before.hooks.clone()),
            None => start(ground, settings, &wanted).await,
        };
        Self { host, hooks, written, wanted, heard: None }
    }

    /// Whether there are any that may run.
    pub(super) fn are_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Where they run, if there are any that may.
    pub(super) fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Whether it is not clear yet how it is with them.
    pub(super) fn are_loading(&self) -> bool {
        self.host.as_ref().is_some_and(Host::is_starting)
    }

    /// Lets plugins have their say about the configuration, if they are there in time.
    pub(super) async fn change(&mut self, settings: &mut Settings) {
        let Some(host) = &self.host else { return };
        if host.settled(PATIENCE).await
            && let Some(changed) = host.config()
        {
            let (config, wrong) = files::amend(&settings.loaded, &settings.environment, &changed);
            for key in wrong {
                tracing::warn!(key, "what a plugin has written into the configuration does not fit");
            }
            settings.loaded.config = config;
            self.heard = host.life();
        }
    }

    /// Lets plugins have their say about providers.
    pub(super) async fn shape(&self, settings: &Settings) -> Shaping {
        match &self.host {
            Some(host) => Shaping::ask(host, settings).await,
            None => Shaping::default(),
        }
    }

    /// Whether they would be set up differently now: there is a server for them to talk to, or they are there at last.
    pub(super) fn is_stale(&self, ground: &Ground) -> bool {
        match &self.host {
            None => self.are_wanted() && ground.address.get().is_some(),
            // Another process has other functions, and may have something else to say.
            Some(host) => host.life().is_some_and(|life| self.heard != Some(life)),
        }
    }

    /// The plugins, as hooks of turns.
    pub(super) fn hooks(&self) -> Arc<dyn Hooks> {
        Arc::clone(&self.hooks.0)
    }

    /// The plugins, as tools of the native loop.
    pub(super) fn tools(&self) -> Option<Arc<dyn Tools>> {
        Some(Arc::new(self.host.clone()?))
    }

    /// Lets plugins say goodbye.
    pub(super) async fn close(&self) {
        if let Some(host) = &self.host {
            host.close().await;
        }
    }
}

/// The plugins that are to run. Those of a project that is not trusted are no part of the configuration.
fn wanted(settings: &Settings) -> Vec<Plugin> {
    if settings.environment.is_on("OPENCODE_PURE") {
        return Vec::new();
    }
    settings.loaded.config.plugin.clone()
}

/// Starts a host, if there is anything to host and a server it could talk to.
async fn start(ground: &Ground, settings: &Settings, wanted: &[Plugin]) -> (Option<Host>, Shared) {
    let Some(address) = ground.address.get().filter(|_| !wanted.is_empty()) else {
        return (None, Shared(NoHooks::shared()));
    };
    let directory = settings.site.directory.to_string_lossy().into_owned();
    let project = Projects::default().find(&directory).await;
    let place = Place { directory: directory.into(), project: project.project.clone().into() };
    let announcer = ground.announcer.clone();
    let time = ground.clock.now();
    let report: Reporter = Arc::new(move |text: &str| complain(&announcer, &place, text));
    let host = Host::start(::plugins::host::Settings {
        runtime: settings.environment.get("PATH").and_then(Runtime::find),
        cache: ground.places.cache.join(PACKAGES),
        hidden: hidden::from_commands(settings, &providers::find(settings, &Shaping::default())),
        directory: settings.site.directory.clone(),
        worktree: settings.site.worktree.clone(),
        project: json!({
            "id": project.project,
            "worktree": project.worktree,
            "vcs": project.repository.is_some().then_some("git"),
            "time": { "created": time, "initialized": time },
        }),
        server_url: address.clone(),
        authorization: ground.authorization.clone(),
        config: files::shown(&settings.loaded.config),
        plugins: wanted.to_vec(),
        bus: ground.announcer.bus.clone(),
        limits: limits(&settings.loaded.config),
        report: Arc::clone(&report),
        logins: logins(ground),
    });
    let link = |member: Member| Link { name: member.name().to_owned(), hooks: Arc::new(member) };
    let chain = Chain::new(host.members().into_iter().map(link).collect(), report);
    (Some(host), Shared(Arc::new(chain)))
}

/// Reads logins for plugins, at the moment they ask.
fn logins(ground: &Ground) -> Logins {
    let auth = AuthFile::new(&ground.environment, &ground.places.data);
    Arc::new(move |provider| {
        let (auth, provider) = (auth.clone(), provider.to_owned());
        let read = spawn_blocking(move || auth.read().ok()?.entries.get(&provider).map(spelled));
        // What cannot be read is not there.
        async move { read.await.ok().flatten() }.boxed()
    })
}

fn limits(config: &Config) -> Limits {
    let usual = Limits::default();
    let written = config.limits.as_ref().and_then(|limits| limits.hook_seconds);
    // The chain around them waits no longer.
    let hook = written.map_or(usual.hook, |written| written.seconds().min(usual.hook));
    Limits { hook, turn_end: hook * 3, authorize: hook * 3, ..usual }
}

/// Tells people in a directory that something is wrong with its plugins.
pub(super) fn complain(announcer: &Announcer, place: &Place, text: &str) {
    tracing::warn!("{text}");
    let failed =
        SessionFailed { session_id: None, error: Some(MessageError::unknown(text)), extra: Extra::new() };
    announcer.bus.publish(Some(place), &announcer.mint.event(EventBody::SessionError(failed)));
}
