//! Provider hooks of plugins: lists of models, and the use of logins.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::ask::{Fault, Question, ask};
use super::fetch::{Fetch, LoadedFetch};
use super::open::Running;
use super::wire::{self, Asked};
use super::{Host, Shared};

/// Number of process exits during the same hook of a plugin after which the hook is not called any more.
const MAX_ENDINGS: u32 = 2;

/// A plugin's answer about the use of a login.
#[derive(Clone)]
pub struct Loaded {
    /// Options of the provider, including its key.
    pub options: Value,
    /// Costs of models, by their ids.
    pub costs: Map<String, Value>,
    /// The plugin's own function for calls, if it has one.
    pub fetch: Option<Fetch>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Loaded").field("fetch", &self.fetch).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct ProviderReply {
    options: Value,
    costs: Map<String, Value>,
    #[serde(default)]
    fetch: Option<u64>,
}

#[derive(Serialize)]
struct Listing<'a> {
    plugin: usize,
    provider: &'a Value,
    login: Option<&'a Value>,
}

#[derive(Serialize)]
struct Loading<'a> {
    plugin: usize,
    provider: &'a Value,
}

impl Host {
    /// Providers whose models are listed by plugins.
    pub fn listed(&self) -> BTreeSet<String> {
        let running = self.0.shared.running();
        running.iter().flat_map(|it| it.able()).flat_map(|(_, able)| able.models.clone()).collect()
    }

    /// Providers whose logins are used by plugins.
    pub fn loadable(&self) -> BTreeSet<String> {
        let running = self.0.shared.running();
        running.iter().flat_map(|it| it.able()).flat_map(|(_, able)| able.loaders.clone()).collect()
    }

    /// The models of a provider as listed by plugins, each of which sees the result of those before it. `None` if
    /// no plugin has an answer.
    pub async fn models(&self, mut provider: Value, login: Option<&Value>, limit: Duration) -> Option<Value> {
        let running = self.0.shared.running()?;
        let id = provider.get("id")?.as_str()?.to_owned();
        let mut listed = None;
        for plugin in askable(&running, |able| able.models.contains(&id)) {
            let about = Listing { plugin, provider: &provider, login };
            let Some(models) =
                self.consult::<Value>(&running, plugin, "provider.models", limit, &about).await
            else {
                continue;
            };
            if let Some(fields) = provider.as_object_mut() {
                fields.insert("models".to_owned(), models.clone());
            }
            listed = Some(models);
        }
        listed
    }

    /// The plugins' answers about the use of a provider's login, in order.
    pub async fn load(&self, provider: &Value, limit: Duration) -> Vec<Loaded> {
        let id = provider.get("id").and_then(Value::as_str).unwrap_or_default();
        let Some(running) = self.0.shared.running() else { return Vec::new() };
        let mut all = Vec::new();
        for plugin in askable(&running, |able| able.loaders.contains(id)) {
            let Some((told, held)) = self.load_with(&running, plugin, provider, limit).await else {
                continue;
            };
            let fetch = held.map(|held| Fetch::new(self.clone(), plugin, provider.clone(), held));
            all.push(Loaded { options: told.options, costs: told.costs, fetch });
        }
        all
    }

    /// Loads the login again in a new process, for a plugin that had its own function for calls in an earlier one.
    pub(super) async fn load_again(
        &self,
        running: &Arc<Running>,
        plugin: usize,
        provider: &Value,
    ) -> Option<LoadedFetch> {
        let limit = self.0.shared.settings.limits.hook;
        self.load_with(running, plugin, provider, limit).await?.1
    }

    async fn load_with(
        &self,
        running: &Arc<Running>,
        plugin: usize,
        provider: &Value,
        limit: Duration,
    ) -> Option<(ProviderReply, Option<LoadedFetch>)> {
        let about = Loading { plugin, provider };
        let told: ProviderReply = self.consult(running, plugin, "auth.loader", limit, &about).await?;
        let held = told.fetch.map(|number| LoadedFetch::new(Arc::clone(running), number));
        Some((told, held))
    }

    /// Calls a hook. Reports a failure of any kind once and returns `None`.
    async fn consult<T: DeserializeOwned>(
        &self,
        running: &Arc<Running>,
        plugin: usize,
        hook: &'static str,
        limit: Duration,
        about: &impl Serialize,
    ) -> Option<T> {
        let shared = &self.0.shared;
        if shared.endings.lock().get(&(plugin, hook)).is_some_and(|endings| *endings >= MAX_ENDINGS) {
            return None;
        }
        let limit = limit.min(shared.settings.limits.hook);
        let answered = answer(running, Question { plugin, hook, method: hook, limit }, about).await;
        answered.unwrap_or_else(|fault| {
            if matches!(fault, Fault::Ended) {
                *shared.endings.lock().entry((plugin, hook)).or_default() += 1;
            }
            shared.report(Some(plugin), &format!("failed in its hook {hook}"), &fault.to_string());
            None
        })
    }
}

fn askable(running: &Running, is_able: impl Fn(&super::open::Abilities) -> bool) -> Vec<usize> {
    running.able().filter(|(_, able)| is_able(able)).map(|(plugin, _)| plugin).collect()
}

/// Calls a plugin and parses its answer; `None` if the plugin still owes an earlier answer.
pub(super) async fn answer<T: DeserializeOwned>(
    running: &Arc<Running>,
    question: Question,
    about: &impl Serialize,
) -> Result<Option<T>, Fault> {
    let call = to_raw_value(about).map_err(|error| Fault::Broken(error.to_string()))?;
    let Some(answer) = ask(Arc::clone(running), question, call).await? else { return Ok(None) };
    serde_json::from_str(answer.get()).map(Some).map_err(|error| Fault::misfit(&error))
}

/// Answers a request of the process for the current login of a provider.
pub(super) async fn tell_login(shared: Arc<Shared>, asked: Asked, _reader: OwnedSemaphorePermit) {
    #[derive(Deserialize)]
    struct Wanted {
        provider: String,
    }
    let login = match serde_json::from_str::<Wanted>(asked.params.get()) {
        Ok(wanted) => Ok((shared.settings.logins)(&wanted.provider).await.unwrap_or(json!(null))),
        Err(error) => Err(error.to_string()),
    };
    wire::answer(asked, login);
}
