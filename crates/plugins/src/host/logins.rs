//! Logging in to providers in the ways that plugins bring along.
//!
//! A login that was begun is kept by the process, one for each provider and for a quarter of an hour at most. If the
//! process dies it is gone, and whoever wants to complete it is told to begin again.

use std::collections::BTreeMap;

use protocol::login::{Authorization, Login, LoginMethod};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Host;
use super::ask::Question;
use super::providers::answer;
use super::wire::Failure;

/// What is said while there is no process.
const ABSENT: &str = "the plugin host is not there; try again in a moment";

/// Why a login was not begun or not completed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unbegun {
    /// There is no such way to log in.
    #[error("there is no such way to log in")]
    Unknown,
    /// What was answered beforehand does not fit.
    #[error("{message}")]
    Invalid {
        /// What the answer is called.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// None was begun, or it is too late, or the process that knew about it is gone.
    #[error("no login is waiting to be completed: begin again")]
    Missing,
    /// It needs a code, and there was none.
    #[error("the code is missing")]
    CodeMissing,
    /// It could not be begun: the plugin, or whoever it asked, did not want to.
    #[error("{0}")]
    Unusable(String),
    /// It could not be completed.
    #[error("{0}")]
    Failed(String),
}

#[derive(Deserialize)]
struct Begun {
    #[serde(default)]
    begun: Option<Authorization>,
    #[serde(default)]
    invalid: Option<Invalid>,
}

#[derive(Deserialize)]
struct Invalid {
    field: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum Completed {
    Missing,
    Codeless,
    Failed,
    Success {
        #[serde(default)]
        login: Option<Value>,
    },
}

impl Host {
    /// The ways to log in, by provider. Of two plugins with ways for one provider, the later one's count.
    pub fn methods(&self) -> BTreeMap<String, Vec<LoginMethod>> {
        let Some(running) = self.0.shared.running() else { return BTreeMap::new() };
        running.able().flat_map(|(_, able)| able.methods.clone()).collect()
    }

    /// Begins a login: where to go. Nothing, if it is a way that needs none, because it is just a key.
    pub async fn authorize(
        &self,
        provider: &str,
        method: u32,
        inputs: Option<&BTreeMap<String, String>>,
    ) -> Result<Option<Authorization>, Unbegun> {
        let shared = &self.0.shared;
        let running = shared.running().ok_or_else(|| Unbegun::Unusable(ABSENT.to_owned()))?;
        let owner = running.able().filter(|(_, able)| able.methods.contains_key(provider)).last();
        let (plugin, able) = owner.ok_or(Unbegun::Unknown)?;
        let count = able.methods.get(provider).map_or(0, Vec::len);
        if usize::try_from(method).map_or(true, |method| method >= count) {
            return Err(Unbegun::Unknown);
        }
        let hook = "auth.authorize";
        let limit = shared.settings.limits.authorize;
        let about = json!({ "plugin": plugin, "provider": provider, "method": method, "inputs": inputs });
        let begun = answer(&running, Question { plugin, hook, method: hook, limit }, &about).await;
        let begun: Option<Begun> = begun.map_err(|fault| {
            shared.report(Some(plugin), &format!("failed in its hook {hook}"), &fault.to_string());
            Unbegun::Unusable(format!("the login could not be begun: {fault}"))
        })?;
        let begun =
            begun.ok_or_else(|| Unbegun::Unusable("an earlier login has not answered yet".to_owned()))?;
        match begun.invalid {
            Some(Invalid { field, message }) => Err(Unbegun::Invalid { field, message }),
            None => Ok(begun.begun),
        }
    }

    /// Completes a login: what lets people in from now on. Nothing, if the plugin has kept it by itself.
    pub async fn complete(&self, provider: &str, code: Option<&str>) -> Result<Option<Login>, Unbegun> {
        let running = self.0.shared.running().ok_or(Unbegun::Missing)?;
        let limit = self.0.shared.settings.limits.login;
        let about = json!({ "provider": provider, "code": code });
        let failed = |why: String| Unbegun::Failed(format!("the login could not be completed: {why}"));
        let completed = match timeout(limit, running.wire.call("auth.callback", &about)).await {
            Ok(Ok(completed)) => completed,
            // The process that knew about the login is gone, and so is the login.
            Ok(Err(Failure::Gone)) => return Err(Unbegun::Missing),
            Ok(Err(failure)) => return Err(failed(failure.to_string())),
            Err(_) => return Err(failed(format!("nobody did so within {} s", limit.as_secs()))),
        };
        // What does not fit may be a secret, so it is not quoted.
        let misfit = || failed("what the plugin made of it has the wrong shape".to_owned());
        match serde_json::from_str(completed.get()).map_err(|_| misfit())? {
            Completed::Missing => Err(Unbegun::Missing),
            Completed::Codeless => Err(Unbegun::CodeMissing),
            Completed::Failed => Err(failed("the plugin says that it failed".to_owned())),
            Completed::Success { login: None } => Ok(None),
            Completed::Success { login: Some(login) } => {
                serde_json::from_value(login).map(Some).map_err(|_| misfit())
            }
        }
    }
}
