//! Starts the process and loads the plugins.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::ports::{HookPoint, ToolInfo};
use parking_lot::Mutex;
use protocol::Extra;
use protocol::config::Plugin;
use protocol::login::LoginMethod;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use workspace::process::{self, Companion, Pipes};

use super::install::{self, Package};
use super::tool::{self, Calls};
use super::wire::{Failure, Wire};
use super::{Shared, runtime};

/// A process whose plugins are loaded.
pub(super) struct Running {
    /// Number of the process, counted from 1.
    pub(super) life: u64,
    pub(super) wire: Wire,
    /// By the plugin's number; none for one that could not be loaded.
    plugins: Vec<Option<Abilities>>,
    /// True while packages are being installed: only plain JavaScript is loaded.
    pub(super) is_early: bool,
    /// The configuration after the `config` hooks.
    pub(super) config: Value,
    pub(super) calls: Arc<Calls>,
    /// Hooks that missed their deadline and have not answered since.
    pub(super) overdue: Mutex<HashSet<(usize, &'static str)>>,
    /// Notified when the process may no longer be able to answer.
    pub(super) suspect: Notify,
}

/// A running process and its tasks.
pub(super) struct Open {
    pub(super) running: Arc<Running>,
    pub(super) companion: Companion,
    _listening: AbortOnDropHandle<()>,
}

/// Reasons why the process did not start.
#[derive(Debug)]
pub(super) enum StartError {
    /// A retry is useless.
    Hopeless(String),
    /// This plugin ended or blocked the process; without it the process may start.
    Spoiled { plugin: usize, why: String },
    /// A retry may help.
    Failed(String),
}

/// The features of a plugin.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Abilities {
    hooks: HashSet<String>,
    #[serde(default)]
    tools: Vec<ToolInfo>,
    /// Providers whose models it lists.
    #[serde(default)]
    pub(super) models: HashSet<String>,
    /// Providers whose logins it uses.
    #[serde(default)]
    pub(super) loaders: HashSet<String>,
    /// Its login methods, by provider.
    #[serde(default)]
    pub(super) methods: BTreeMap<String, Vec<LoginMethod>>,
    /// Functions of Bun that it uses and that the runtime does not have.
    #[serde(default)]
    lacks: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Load {
    plugin: usize,
    url: String,
    is_file: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<Extra>,
}

/// The options that are meant for the plugin, including their secrets.
fn own_options(plugin: &Plugin) -> Option<Extra> {
    let mut options = plugin.options.as_ref()?.0.clone();
    options.remove(Plugin::REQUIRED);
    Some(options)
}

impl Running {
    pub(super) fn wants(&self, plugin: usize, point: HookPoint) -> bool {
        self.has(plugin, point.name())
    }

    fn has(&self, plugin: usize, hook: &str) -> bool {
        self.plugins.get(plugin).and_then(Option::as_ref).is_some_and(|able| able.hooks.contains(hook))
    }

    /// True if a plugin has the `event` hook.
    pub(super) fn wants_events(&self) -> bool {
        (0..self.plugins.len()).any(|plugin| self.has(plugin, "event"))
    }

    /// The tools, each with the number of its plugin. Of two with one name, the later plugin's counts.
    pub(super) fn tools(&self) -> impl Iterator<Item = (usize, &ToolInfo)> {
        self.able().flat_map(|(plugin, able)| able.tools.iter().map(move |about| (plugin, about)))
    }

    pub(super) fn is_loaded(&self, plugin: usize) -> bool {
        self.plugins.get(plugin).is_some_and(Option::is_some)
    }

    /// The loaded plugins in order, each with its number.
    pub(super) fn able(&self) -> impl Iterator<Item = (usize, &Abilities)> {
        self.plugins.iter().enumerate().filter_map(|(plugin, able)| Some((plugin, able.as_ref()?)))
    }
}

/// Starts the process and loads all plugins except those that broke an earlier process.
pub(super) async fn open(shared: &Arc<Shared>, spoiled: &HashSet<usize>) -> Result<Open, StartError> {
    let addresses = locate(shared, spoiled).await?;
    launch(shared, addresses, false).await
}

/// Starts a process with the plugins that need no package, if packages are missing. These plugins are files in plain
/// JavaScript, and among them may be one that guards.
pub(super) async fn open_early(shared: &Arc<Shared>) -> Option<Open> {
    let settings = &shared.settings;
    let runtime = settings.runtime.as_ref()?;
    let addresses: Vec<_> = settings.plugins.iter().map(plain_address).collect();
    if install::is_prepared(runtime, &settings.cache) || addresses.iter().all(Option::is_none) {
        return None;
    }
    // A failure shows again, and is reported, when everything is loaded.
    launch(shared, addresses, true).await.ok()
}

fn plain_address(plugin: &Plugin) -> Option<(String, bool)> {
    let is_plain = [".js", ".mjs", ".cjs"].iter().any(|ending| plugin.spec.ends_with(ending));
    (plugin.spec.starts_with("file://") && is_plain).then(|| (plugin.spec.clone(), true))
}

/// Starts the process and loads the plugins that have an address.
async fn launch(
    shared: &Arc<Shared>,
    addresses: Vec<Option<(String, bool)>>,
    is_early: bool,
) -> Result<Open, StartError> {
    let (companion, wire, calls, listening) = start(shared)?;
    greet(shared, &wire).await.map_err(|why| StartError::Failed(with_output(why, &companion)))?;
    let mut plugins = Vec::new();
    let mut config = shared.settings.config.clone();
    for (plugin, address) in addresses.into_iter().enumerate() {
        let Some((url, is_file)) = address else {
            plugins.push(None);
            continue;
        };
        let options = shared.settings.plugins.get(plugin).and_then(own_options);
        let about = Load { plugin, url, is_file, options };
        plugins.push(attempt(shared, &wire, &companion, plugin, "cannot be loaded", "load", &about).await?);
    }
    if !is_early {
        report_lacks(shared, &plugins);
    }
    for (plugin, able) in plugins.iter().enumerate() {
        if able.as_ref().is_some_and(|able: &Abilities| able.hooks.contains("config")) {
            let about = json!({ "plugin": plugin, "config": config });
            let at = "failed in its hook config";
            config =
                attempt(shared, &wire, &companion, plugin, at, "config", &about).await?.unwrap_or(config);
        }
    }
    let (overdue, suspect) = (Mutex::default(), Notify::new());
    let life = shared.lives.fetch_add(1, Ordering::Relaxed);
    let running = Arc::new(Running { life, wire, plugins, is_early, config, calls, overdue, suspect });
    Ok(Open { running, companion, _listening: listening })
}

/// Names the plugins that use functions of Bun which Node does not have.
fn report_lacks(shared: &Shared, plugins: &[Option<Abilities>]) {
    let asks = |(able, plugin): (&Option<Abilities>, &Plugin)| {
        let lacks = &able.as_ref().filter(|able| !able.lacks.is_empty())?.lacks;
        Some(format!("{} (Bun.{})", plugin.spec, lacks.join(", Bun.")))
    };
    let asking: Vec<String> = plugins.iter().zip(&shared.settings.plugins).filter_map(asks).collect();
    let what = match asking.len() {
        0 => return,
        1 => "1 plugin asks for Bun".to_owned(),
        count => format!("{count} plugins ask for Bun"),
    };
    let why = format!("{what}: {}; install Bun, or these functions fail", asking.join(", "));
    shared.report(None, "runs on Node", &why);
}

/// The address of each plugin, and whether it is a file. Installs missing packages.
async fn locate(
    shared: &Arc<Shared>,
    spoiled: &HashSet<usize>,
) -> Result<Vec<Option<(String, bool)>>, StartError> {
    let settings = &shared.settings;
    let hopeless = "plugins need Bun, or Node 20 or newer, and neither is in the search path";
    let runtime = settings.runtime.as_ref().ok_or_else(|| StartError::Hopeless(hopeless.to_owned()))?;
    if let Err(error) = install::prepare(runtime, &settings.cache).await {
        shared.report(None, "lacks a package", &error.to_string());
    }
    let mut addresses = Vec::new();
    for (number, plugin) in settings.plugins.iter().enumerate() {
        if spoiled.contains(&number) {
            addresses.push(None);
        } else if plugin.spec.starts_with("file://") {
            addresses.push(Some((plugin.spec.clone(), true)));
        } else {
            let folder = match Package::parse(&plugin.spec) {
                Ok(package) => install::package(runtime, &settings.cache, &package).await,
                Err(error) => Err(error),
            };
            let told = |error: install::Error| {
                shared.report(Some(number), "cannot be loaded", &error.to_string());
            };
            addresses.push(folder.map_err(told).ok().map(|folder| (address(&folder), false)));
        }
    }
    Ok(addresses)
}

type Started = (Companion, Wire, Arc<Calls>, AbortOnDropHandle<()>);

fn start(shared: &Arc<Shared>) -> Result<Started, StartError> {
    let settings = &shared.settings;
    let Some(runtime) = &settings.runtime else {
        return Err(StartError::Hopeless("there is no runtime".to_owned()));
    };
    let home = install::home(&settings.cache);
    runtime::unpack(&home).map_err(|error| {
        StartError::Hopeless(format!("cannot write its files to {}: {error}", home.display()))
    })?;
    let spec = runtime.spec(&home).hide(&settings.hidden);
    let (companion, Pipes { input, output }) =
        process::start(&spec).map_err(|error| StartError::Failed(error.to_string()))?;
    let (wire, inbox) = Wire::new(input, output);
    let calls = Arc::<Calls>::default();
    let listening = tool::listen(inbox, Arc::clone(&calls), Arc::clone(shared));
    Ok((companion, wire, calls, AbortOnDropHandle::new(tokio::spawn(listening))))
}

/// Sends the process its directory and the server's address.
async fn greet(shared: &Shared, wire: &Wire) -> Result<(), String> {
    let settings = &shared.settings;
    let about = json!({
        "directory": settings.directory,
        "worktree": settings.worktree,
        "project": settings.project,
        "serverUrl": settings.server_url,
        "authorization": settings.authorization,
    });
    match within(settings.limits.load, wire.call("start", &about)).await {
        Ok(_) => Ok(()),
        Err(CallError::Failed(failure)) => Err(failure.to_string()),
        Err(CallError::Late) => Err("it does not answer".to_owned()),
    }
}

/// Calls a plugin that is being loaded. If it throws, reports that and returns `None`; if it ends or blocks the
/// process, the plugin is left out from then on.
async fn attempt<T: for<'de> Deserialize<'de>>(
    shared: &Shared,
    wire: &Wire,
    companion: &Companion,
    plugin: usize,
    at: &str,
    method: &str,
    about: &(impl Serialize + Sync),
) -> Result<Option<T>, StartError> {
    let limit = shared.settings.limits.load;
    let spoiled = |why: String| StartError::Spoiled { plugin, why };
    let answer = match within(limit, wire.call(method, about)).await {
        Ok(answer) => serde_json::from_str::<T>(answer.get()).map_err(|error| error.to_string()),
        Err(CallError::Failed(Failure::Gone)) => {
            return Err(spoiled(with_output("it ended the plugin host".to_owned(), companion)));
        }
        Err(CallError::Failed(failure)) => Err(failure.to_string()),
        Err(CallError::Late) => {
            return Err(spoiled(format!("it takes longer than {} s", limit.as_secs_f32())));
        }
    };
    let complain = |why: String| shared.report(Some(plugin), at, &why);
    Ok(answer.map_err(complain).ok())
}

/// A call without an answer.
pub(super) enum CallError {
    Failed(Failure),
    Late,
}

pub(super) async fn within(
    limit: Duration,
    call: impl Future<Output = Result<Box<RawValue>, Failure>>,
) -> Result<Box<RawValue>, CallError> {
    match timeout(limit, call).await {
        Ok(answered) => answered.map_err(CallError::Failed),
        Err(_) => Err(CallError::Late),
    }
}

/// The reason for a failure, with the process's last output.
pub(super) fn with_output(why: String, companion: &Companion) -> String {
    /// Maximum length of that output in characters.
    const LAST_WORDS: usize = 600;
    let words = companion.errors().tail_text(LAST_WORDS);
    let words = words.trim();
    if words.is_empty() { why } else { format!("{why}; it wrote: {words}") }
}

/// A directory as a `file:` URL.
fn address(folder: &Path) -> String {
    let letters = folder.as_os_str().as_encoded_bytes().iter().map(|byte| {
        let plain = byte.is_ascii_alphanumeric() || b"/-._~+@".contains(byte);
        if plain { char::from(*byte).to_string() } else { format!("%{byte:02X}") }
    });
    format!("file://{}", letters.collect::<String>())
}
