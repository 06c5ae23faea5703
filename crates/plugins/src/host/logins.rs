//! Logins to providers with methods from plugins.
//!
//! The process keeps a started login, one per provider, for at most a quarter of an hour. If the process exits, the
//! login is lost, and completing it fails with the advice to start again.

use std::collections::BTreeMap;

use protocol::login::{Authorization, Login, LoginMethod};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Host;
use super::ask::Question;
use super::providers::answer;
use super::wire::Failure;

/// The error while there is no process.
const ABSENT: &str = "the plugin host is not running; try again in a moment";

/// Failures of starting or completing a login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error("there is no such login method")]
    Unknown,
    /// An input is not valid.
    #[error("{message}")]
    Invalid {
        /// Name of the input.
        field: String,
        message: String,
    },
    /// No login was started, it has expired, or its process has exited.
    #[error("no login is waiting to be completed; start it again")]
    Missing,
    #[error("the code is missing")]
    CodeMissing,
    /// The login could not be started, because the plugin or the provider refused.
    #[error("{0}")]
    Unusable(String),
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
    /// Login methods by provider. If two plugins have methods for a provider, the later one's are used.
    pub fn methods(&self) -> BTreeMap<String, Vec<LoginMethod>> {
        let Some(running) = self.0.shared.running() else { return BTreeMap::new() };
        running.able().flat_map(|(_, able)| able.methods.clone()).collect()
    }

    /// Starts a login and returns the address to open. `None` if the method needs none, because it only takes a
    /// key.
    pub async fn authorize(
        &self,
        provider: &str,
        method: u32,
        inputs: Option<&BTreeMap<String, String>>,
    ) -> Result<Option<Authorization>, LoginError> {
        let shared = &self.0.shared;
        let running = shared.running().ok_or_else(|| LoginError::Unusable(ABSENT.to_owned()))?;
        let owner = running.able().filter(|(_, able)| able.methods.contains_key(provider)).last();
        let (plugin, able) = owner.ok_or(LoginError::Unknown)?;
        let count = able.methods.get(provider).map_or(0, Vec::len);
        if usize::try_from(method).map_or(true, |method| method >= count) {
            return Err(LoginError::Unknown);
        }
        let hook = "auth.authorize";
        let limit = shared.settings.limits.authorize;
        let about = json!({ "plugin": plugin, "provider": provider, "method": method, "inputs": inputs });
        let begun = answer(&running, Question { plugin, hook, method: hook, limit }, &about).await;
        let begun: Option<Begun> = begun.map_err(|fault| {
            shared.report(Some(plugin), &format!("failed in its hook {hook}"), &fault.to_string());
            LoginError::Unusable(format!("the login could not be started: {fault}"))
        })?;
        let begun =
            begun.ok_or_else(|| LoginError::Unusable("an earlier login has not answered yet".to_owned()))?;
        match begun.invalid {
            Some(Invalid { field, message }) => Err(LoginError::Invalid { field, message }),
            None => Ok(begun.begun),
        }
    }

    /// Completes a login and returns the credentials. `None` if the plugin has stored them itself.
    pub async fn complete(&self, provider: &str, code: Option<&str>) -> Result<Option<Login>, LoginError> {
        let running = self.0.shared.running().ok_or(LoginError::Missing)?;
        let limit = self.0.shared.settings.limits.login;
        let about = json!({ "provider": provider, "code": code });
        let failed = |why: String| LoginError::Failed(format!("the login could not be completed: {why}"));
        let completed = match timeout(limit, running.wire.call("auth.callback", &about)).await {
            Ok(Ok(completed)) => completed,
            // The login was lost with its process.
            Ok(Err(Failure::Gone)) => return Err(LoginError::Missing),
            Ok(Err(failure)) => return Err(failed(failure.to_string())),
            Err(_) => {
                return Err(failed(format!("the user did not confirm it within {} s", limit.as_secs())));
            }
        };
        // The answer may contain a secret, so the error does not quote it.
        let misfit = || failed("the plugin's answer has the wrong shape".to_owned());
        match serde_json::from_str(completed.get()).map_err(|_| misfit())? {
            Completed::Missing => Err(LoginError::Missing),
            Completed::Codeless => Err(LoginError::CodeMissing),
            Completed::Failed => Err(failed("the plugin reports a failure".to_owned())),
            Completed::Success { login: None } => Ok(None),
            Completed::Success { login: Some(login) } => {
                serde_json::from_value(login).map(Some).map_err(|_| misfit())
            }
        }
    }
}
