//! What plugins say about providers: which models there are, and how a login is used.

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
use super::fetch::{Fetch, Held};
use super::open::Running;
use super::wire::{self, Asked};
use super::{Host, Shared, lock};

/// Processes that may end while the same is asked of the same plugin; then it is not asked any more.
const MAX_ENDINGS: u32 = 2;

/// What a plugin says about how a login is used.
#[derive(Clone)]
pub struct Loaded {
    /// Options of the provider, with its key.
    pub options: Value,
    /// What models cost now, by their ids.
    pub costs: Map<String, Value>,
    /// How calls are made, if in a way of its own.
    pub fetch: Option<Fetch>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Loaded").field("fetch", &self.fetch).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Told {
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
    /// The providers whose models plugins list.
    pub fn listed(&self) -> BTreeSet<String> {
        let running = self.0.shared.running();
        running.iter().flat_map(|it| it.able()).flat_map(|(_, able)| able.models.clone()).collect()
    }

    /// The providers whose logins plugins know how to use.
    pub fn loadable(&self) -> BTreeSet<String> {
        let running = self.0.shared.running();
        running.iter().flat_map(|it| it.able()).flat_map(|(_, able)| able.loaders.clone()).collect()
    }

    /// The models of a provider as plugins list them, each knowing what the ones before it have left. Nothing if nobody
    /// has anything to say.
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

    /// How plugins say that a login of a provider is used, in order.
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

    /// What calls are made with in a process that has just begun, by a plugin that said so in an earlier one.
    pub(super) async fn load_again(
        &self,
        running: &Arc<Running>,
        plugin: usize,
        provider: &Value,
    ) -> Option<Held> {
        let limit = self.0.shared.settings.limits.hook;
        self.load_with(running, plugin, provider, limit).await?.1
    }

    async fn load_with(
        &self,
        running: &Arc<Running>,
        plugin: usize,
        provider: &Value,
        limit: Duration,
    ) -> Option<(Told, Option<Held>)> {
        let about = Loading { plugin, provider };
        let told: Told = self.consult(running, plugin, "auth.loader", limit, &about).await?;
        let held = told.fetch.map(|number| Held::new(Arc::clone(running), number));
        Some((told, held))
    }

    /// Asks a plugin something. A failure of any kind is told once, and is no answer.
    async fn consult<T: DeserializeOwned>(
        &self,
        running: &Arc<Running>,
        plugin: usize,
        hook: &'static str,
        limit: Duration,
        about: &impl Serialize,
    ) -> Option<T> {
        let shared = &self.0.shared;
        if lock(&shared.endings).get(&(plugin, hook)).is_some_and(|endings| *endings >= MAX_ENDINGS) {
            return None;
        }
        let limit = limit.min(shared.settings.limits.hook);
        let answered = answer(running, Question { plugin, hook, method: hook, limit }, about).await;
        answered.unwrap_or_else(|fault| {
            if matches!(fault, Fault::Ended) {
                *lock(&shared.endings).entry((plugin, hook)).or_default() += 1;
            }
            shared.report(Some(plugin), &format!("failed in its hook {hook}"), &fault.to_string());
            None
        })
    }
}

fn askable(running: &Running, is_able: impl Fn(&super::open::Abilities) -> bool) -> Vec<usize> {
    running.able().filter(|(_, able)| is_able(able)).map(|(plugin, _)| plugin).collect()
}

/// What a plugin answers, if it is to be asked.
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
