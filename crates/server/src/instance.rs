//! Access to a directory's configuration and everything derived from it. The server defines the interface; the
//! composition root implements it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use axum::extract::FromRequestParts;
use engine::{
    bus::Place,
    ports::{Hooks, NoHooks},
};
use futures::future::BoxFuture;
use http::request::Parts;
use protocol::{
    Rest,
    agent::{Agent, Command},
    config::Skill,
    diagnostic::Diagnostic,
    login::{Authorization, Login, LoginBegin, LoginComplete, LoginMethod},
    provider::Provider,
    trust::Trust,
    wire_error::{BadRequestKind, ConfigFault, NamedError, WireError},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{App, Error, LoginFault, error::Fault, extract::Directory, mcp::McpServers};

/// Loads and changes the configuration of directories.
pub trait Instances: Send + Sync + fmt::Debug {
    /// Loads a directory, or returns the errors of its configuration.
    fn find<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Arc<Instance>, Invalid>>;

    /// All providers that would work in a directory with a key, besides the usable ones. They are many, so the
    /// list is built on demand.
    fn others<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Vec<Provider>, Invalid>>;

    /// The tools for a model in a directory, or all tools if no model is named. Built on demand, because MCP
    /// servers connect and disconnect. The default implementation has none.
    fn tools<'a>(
        &'a self,
        _directory: &'a str,
        _model: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<ToolInfo>, Invalid>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Login methods by provider. The default implementation has none.
    fn login_methods<'a>(
        &'a self,
        _directory: &'a str,
    ) -> BoxFuture<'a, Result<BTreeMap<String, Vec<LoginMethod>>, Invalid>> {
        Box::pin(std::future::ready(Ok(BTreeMap::new())))
    }

    /// Begins a login. Returns the address for the user, or `None` if the method only stores a key. The default
    /// implementation refuses.
    fn begin_login<'a>(
        &'a self,
        _directory: &'a str,
        provider: &'a str,
        _how: LoginBegin,
    ) -> BoxFuture<'a, Result<Option<Authorization>, LoginFault>> {
        let message = format!("{provider} supports no login other than a key");
        Box::pin(std::future::ready(Err(LoginFault::Unusable(message))))
    }

    /// Completes a login and returns what to store. The default implementation refuses.
    fn complete_login<'a>(
        &'a self,
        _directory: &'a str,
        provider: &'a str,
        _how: LoginComplete,
    ) -> BoxFuture<'a, Result<Option<Login>, LoginFault>> {
        let message = format!("no login to {provider} is in progress");
        Box::pin(std::future::ready(Err(LoginFault::Missing(message))))
    }

    /// Hooks of the plugins in a directory. The default implementation has none.
    fn hooks<'a>(&'a self, _place: &'a Place) -> BoxFuture<'a, Arc<dyn Hooks>> {
        Box::pin(std::future::ready(NoHooks::shared()))
    }

    /// Drops the cached data of one directory or of all; it is loaded again on the next use. Running turns keep
    /// their data.
    fn forget(&self, directory: Option<&str>);

    /// The user's configuration, which applies to every directory, without secrets.
    fn user_config(&self) -> BoxFuture<'_, Result<Value, Invalid>>;

    /// Changes the configuration of a directory or, without one, the user's own. Returns the resulting
    /// configuration without secrets. Running turns keep their data.
    fn configure<'a>(
        &'a self,
        directory: Option<&'a str>,
        change: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, Unchanged>>;

    /// Warnings about the configuration of a directory. The default implementation has none.
    fn diagnostics<'a>(&'a self, _directory: &'a str) -> BoxFuture<'a, Result<Vec<Diagnostic>, Invalid>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The trust in a directory and the withheld parts of its configuration.
    fn trust<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Trust, Invalid>> {
        let trust = Trust {
            directory: directory.to_owned(),
            trusted: false,
            by: None,
            command: String::new(),
            withheld: Vec::new(),
            extra: Rest::NONE,
        };
        Box::pin(std::future::ready(Ok(trust)))
    }

    /// Grants or revokes trust in a directory. It takes effect with the next prompt; running turns keep their
    /// data.
    fn set_trust<'a>(&'a self, directory: &'a str, _trusted: bool) -> BoxFuture<'a, Result<(), Refused>> {
        let message = format!(
            "cannot change the trust in {directory}: this server keeps no list of trusted directories"
        );
        Box::pin(std::future::ready(Err(Refused::Unfit(message))))
    }

    /// Stores or removes a provider's key or login. It takes effect in every directory.
    fn log_in<'a>(&'a self, provider: &'a str, login: Option<Login>) -> BoxFuture<'a, Result<(), Refused>>;
}

/// A change that was refused, with a message for the user.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refused {
    /// The change is impossible or invalid.
    #[error("{0}")]
    Unfit(String),
    /// No space is left for the file.
    #[error("{0}")]
    Full(String),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unfit(message) => Self::bad_request(BadRequestKind::Payload, message),
            Refused::Full(message) => Self::plain(Fault::Full, message),
        }
    }
}

/// A tool as models see it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ToolInfo {
    pub id: String,
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// Data of one directory at the time it was loaded.
#[derive(Debug, Clone, Default)]
pub struct Instance {
    pub providers: Vec<Provider>,
    /// Default model by provider.
    pub default_models: BTreeMap<String, String>,
    pub agents: Vec<Agent>,
    pub commands: Vec<Command>,
    pub skills: Vec<Skill>,
    /// Variables that processes started here do not inherit, such as keys of providers.
    pub hidden: Vec<String>,
    /// The merged configuration as clients may see it, without secrets.
    pub config: Value,
    /// MCP servers; `None` if this server has no support for them.
    pub mcp: Option<Arc<dyn McpServers>>,
}

/// An invalid configuration.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The first file with an error.
    pub path: Option<String>,
    /// All errors, as a message for the user.
    pub message: String,
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        let Invalid { path, message } = invalid;
        let fault = ConfigFault { path, message: Some(message), ..ConfigFault::default() };
        Self::new(Fault::Configuration, WireError::Named(NamedError::ConfigInvalid(fault)))
    }
}

/// The reason why a configuration was not changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unchanged {
    /// The changed configuration would be invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The change is impossible or invalid.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl From<Unchanged> for Error {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Invalid(invalid) => invalid.into(),
            Unchanged::Refused(refused) => refused.into(),
        }
    }
}

/// The same instance for every directory; it never changes.
#[derive(Debug, Clone, Default)]
pub struct Everywhere(Arc<Instance>);

impl From<Instance> for Everywhere {
    fn from(instance: Instance) -> Self {
        Self(Arc::new(instance))
    }
}

impl Instances for Everywhere {
    fn find<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Arc<Instance>, Invalid>> {
        Box::pin(std::future::ready(Ok(Arc::clone(&self.0))))
    }

    fn others<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<Provider>, Invalid>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn forget(&self, _: Option<&str>) {}

    fn user_config(&self) -> BoxFuture<'_, Result<Value, Invalid>> {
        Box::pin(std::future::ready(Ok(self.0.config.clone())))
    }

    fn configure<'a>(
        &'a self,
        _: Option<&'a str>,
        _: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, Unchanged>> {
        Box::pin(std::future::ready(Ok(self.0.config.clone())))
    }

    fn log_in<'a>(&'a self, _: &'a str, _: Option<Login>) -> BoxFuture<'a, Result<(), Refused>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Extractor of the instance for the call's directory.
#[derive(Debug, Clone)]
pub struct Here(pub Arc<Instance>);

impl FromRequestParts<App> for Here {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let directory = Directory::from_request_parts(parts, app).await?;
        Ok(Self(app.instances.find(&directory.path).await?))
    }
}
