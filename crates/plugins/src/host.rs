//! Runs unmodified OpenCode plugins in a separate process.
//!
//! [`Host`] is a handle to the plugins of one directory. Its process only starts if there is a plugin. A background
//! task loads the plugins one after the other, monitors the process and restarts it when it exits, with growing
//! pauses. Every wait has a deadline: while there is no process, hooks change nothing, there are no tools, and
//! turns continue.
//!
//! - [`wire`] is the JSON-RPC connection to the process, [`runtime`] its JavaScript runtime, [`mod@install`] installs
//!   packages.
//! - [`open`] starts the process and loads the plugins; [`keep`] monitors it.
//! - [`member`] is one plugin as [`engine::ports::Hooks`]; [`tool`] has the tools that plugins provide.
//! - [`providers`] has the hooks about providers, [`fetch`] calls to providers by plugins, [`logins`] logins by
//!   plugins.
//!
//! A plugin is code that the user chose to run with the user's rights. The separate process protects turns from its
//! failures; it does not protect the user's files from the plugin.

mod ask;
mod fetch;
mod install;
mod keep;
mod logins;
mod member;
mod open;
mod providers;
mod runtime;
mod tool;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use engine::bus::Bus;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use protocol::config::Plugin;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use fetch::{Body, Fetch, FetchError, FetchResponse};
pub use logins::LoginError;
pub use member::Member;
pub use providers::Loaded;
pub use runtime::Runtime;

use install::Package;
use open::Running;

/// Maximum number of distinct failures that are reported.
const MAX_REPORTS: usize = 200;

/// Deadlines and restart limits of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Loading a plugin, and its `config` hook.
    pub load: Duration,
    pub hook: Duration,
    /// Starting a login, which may call a provider.
    pub authorize: Duration,
    /// Completing a login, which may wait for the user's action in a browser.
    pub login: Duration,
    /// The hook before a turn ends, which may have real work to do.
    pub turn_end: Duration,
    /// A tool call. The user can abort it at any time.
    pub tool: Duration,
    /// The answer to a ping after a late hook; five times as long for a routine ping.
    pub pulse: Duration,
    /// Interval of routine pings.
    pub rest: Duration,
    /// Disposing the plugins before the process ends.
    pub goodbye: Duration,
    /// First pause before a restart; doubles with every exit.
    pub pause: Duration,
    /// Maximum number of restarts in a row.
    pub deaths: u32,
    /// Run time after which earlier exits no longer count.
    pub steady: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            load: Duration::from_secs(20),
            hook: Duration::from_secs(10),
            authorize: Duration::from_secs(30),
            login: Duration::from_mins(10),
            turn_end: Duration::from_secs(30),
            tool: Duration::from_mins(30),
            pulse: Duration::from_secs(2),
            rest: Duration::from_secs(10),
            goodbye: Duration::from_millis(500),
            pause: Duration::from_secs(1),
            deaths: 5,
            steady: Duration::from_mins(1),
        }
    }
}

/// Installs the packages that these plugins need, so that a host finds them. Returns a sentence for each failure.
pub async fn install(runtime: &Runtime, cache: &Path, plugins: &[Plugin]) -> Vec<String> {
    let mut failures = Vec::new();
    if !plugins.is_empty() {
        failures.extend(install::prepare(runtime, cache).await.err());
    }
    for plugin in plugins.iter().filter(|plugin| !plugin.spec.starts_with("file://")) {
        let installed = match Package::parse(&plugin.spec) {
            Ok(package) => install::package(runtime, cache, &package).await.map(drop),
            Err(error) => Err(error),
        };
        failures.extend(installed.err());
    }
    failures.iter().map(ToString::to_string).collect()
}

/// Receives failures as text for users.
pub type Reporter = Arc<dyn Fn(&str) + Send + Sync>;

/// Reads the stored login of a provider.
pub type Logins = Arc<dyn Fn(&str) -> BoxFuture<'static, Option<Value>> + Send + Sync>;

/// The settings of a host.
pub struct Settings {
    /// The JavaScript runtime; without it no plugin runs.
    pub runtime: Option<Runtime>,
    /// Directory for installed packages.
    pub cache: PathBuf,
    /// Environment variables that plugins do not inherit, such as the keys of providers.
    pub hidden: Vec<String>,
    /// The directory whose plugins these are.
    pub directory: PathBuf,
    /// The root of the directory's repository.
    pub worktree: PathBuf,
    /// The directory's project, as clients see it.
    pub project: Value,
    /// Address of this server.
    pub server_url: String,
    /// The authorization header for plugins, if the server requires one.
    pub authorization: Option<String>,
    /// The configuration that is shown to plugins.
    pub config: Value,
    /// The plugins, in order.
    pub plugins: Vec<Plugin>,
    pub bus: Arc<Bus>,
    pub limits: Limits,
    /// Receives each failure once.
    pub report: Reporter,
    /// Reads logins for plugins that use them.
    pub logins: Logins,
}

/// The plugins of one directory. Cheap to clone; dropping the last clone ends the process.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
    stop: CancellationToken,
}

/// State shared by the background task and the handles.
struct Shared {
    settings: Settings,
    state: watch::Sender<State>,
    reported: Mutex<HashSet<String>>,
    /// Number of processes so far.
    lives: AtomicU64,
    /// Number of process exits during this hook of this plugin.
    endings: Mutex<HashMap<(usize, &'static str), u32>>,
}

/// State of the process.
#[derive(Clone)]
enum State {
    Starting,
    Running(Arc<Running>),
    /// Not running, for now or for good.
    Dead,
}

impl Host {
    /// Starts a host in the background.
    pub fn start(settings: Settings) -> Self {
        let state = watch::Sender::new(State::Starting);
        let shared = Shared {
            settings,
            state,
            reported: Mutex::default(),
            lives: AtomicU64::new(1),
            endings: Mutex::default(),
        };
        let shared = Arc::new(shared);
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep::keep(Arc::clone(&shared), stop.clone()));
        Self(Arc::new(Inner { shared, task: Mutex::new(Some(task)), stop }))
    }

    /// Waits until the process has started or failed. Returns true if it runs.
    pub async fn settled(&self, patience: Duration) -> bool {
        let mut state = self.0.shared.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Starting));
        matches!(timeout(patience, settled).await, Ok(Ok(state)) if matches!(*state, State::Running(_)))
    }

    /// True until the process has started or failed.
    pub fn is_starting(&self) -> bool {
        matches!(*self.0.shared.state.borrow(), State::Starting)
    }

    /// The number of the running process, if its plugins are loaded.
    pub fn life(&self) -> Option<u64> {
        self.0.shared.running().map(|running| running.life)
    }

    /// The configuration after the plugins' `config` hooks.
    pub fn config(&self) -> Option<Value> {
        self.0.shared.running().map(|running| running.config.clone())
    }

    /// The plugins that are not loaded yet, because packages are being installed or the process is starting.
    pub fn pending(&self) -> Vec<&str> {
        let state = self.0.shared.state.borrow();
        let is_pending = |number: usize| match &*state {
            State::Starting => true,
            State::Running(running) => running.is_early && !running.is_loaded(number),
            State::Dead => false,
        };
        let plugins = self.0.shared.settings.plugins.iter().enumerate();
        plugins.filter(|(number, _)| is_pending(*number)).map(|(_, plugin)| plugin.spec.as_str()).collect()
    }

    /// Waits until the required plugins are loaded. Returns those that are not.
    pub async fn lacks(&self, patience: Duration) -> Vec<&str> {
        let plugins = self.0.shared.settings.plugins.iter().enumerate();
        let required: Vec<_> = plugins.filter(|(_, plugin)| plugin.is_required()).collect();
        let are_loaded = |state: &State| match state {
            State::Starting => required.is_empty(),
            State::Running(running) => {
                !running.is_early || required.iter().all(|(number, _)| running.is_loaded(*number))
            }
            State::Dead => true,
        };
        let mut state = self.0.shared.state.subscribe();
        // Whether the wait ends in time or not, the state decides.
        let _ = timeout(patience, state.wait_for(are_loaded)).await;
        let missing = required.into_iter().filter(|(number, _)| !self.has_loaded(*number));
        missing.map(|(_, plugin)| plugin.spec.as_str()).collect()
    }

    fn has_loaded(&self, plugin: usize) -> bool {
        self.0.shared.running().is_some_and(|running| running.is_loaded(plugin))
    }

    /// The plugins in order, as hooks.
    pub fn members(&self) -> Vec<Member> {
        let plugins = self.0.shared.settings.plugins.iter().enumerate();
        plugins.map(|(number, plugin)| Member::new(self.clone(), number, plugin)).collect()
    }

    /// Disposes the plugins and ends the process.
    pub async fn close(&self) {
        let task = self.0.task.lock().take();
        let Some(mut task) = task else { return };
        self.0.stop.cancel();
        let grace = self.0.shared.settings.limits.goodbye * 2;
        if timeout(grace, &mut task).await.is_err() {
            // Dropping the task kills its process.
            task.abort();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The task disposes the plugins by itself.
        self.stop.cancel();
    }
}

impl Shared {
    fn running(&self) -> Option<Arc<Running>> {
        match &*self.state.borrow() {
            State::Running(running) => Some(Arc::clone(running)),
            State::Starting | State::Dead => None,
        }
    }

    /// Reports a failure of a plugin or of the host, once.
    fn report(&self, plugin: Option<usize>, at: &str, why: &str) {
        let spec = plugin.and_then(|number| self.settings.plugins.get(number)).map(|plugin| &plugin.spec);
        let who = spec.map_or_else(|| "the plugin host".to_owned(), |spec| format!("the plugin {spec}"));
        let mut reported = self.reported.lock();
        if reported.len() < MAX_REPORTS && reported.insert(format!("{who} {at}")) {
            drop(reported);
            (self.settings.report)(&format!("{who} {at}: {why}"));
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Host").field(&self.0.shared.settings).finish()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Settings")
            .field("directory", &self.directory)
            .field("plugins", &self.plugins.iter().map(|plugin| &plugin.spec).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
