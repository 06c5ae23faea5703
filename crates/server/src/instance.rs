//! What there is in a directory: its configuration and all that follows from it. The server looks nothing up
//! itself; whoever puts the program together hands it something that does.

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
    login::{Authorization, Login, LoginBegin, LoginComplete, LoginMethod},
    provider::Provider,
    trust::Trust,
    wire_error::{BadRequestKind, ConfigFault, NamedError, WireError},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{App, Error, LoginFault, error::Fault, extract::Directory, mcp::McpServers};

/// Finds what there is in a directory, and changes what decides about it.
pub trait Instances: Send + Sync + fmt::Debug {
    /// What there is in a directory, or what is wrong with its configuration.
    fn find<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Arc<Instance>, Invalid>>;

    /// Every provider that could be used in a directory if it had a key, besides those that can be used. There
    /// are many, so they are put together when somebody asks.
    fn others<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Vec<Provider>, Invalid>>;

    /// The tools that suit a model in a directory or, if none is named, all there are. MCP servers come and go, so they
    /// are looked at when somebody asks. None, unless somebody knows better.
    fn tools<'a>(
        &'a self,
        _directory: &'a str,
        _model: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<ToolInfo>, Invalid>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The ways to log in to providers in a directory, by provider. None, unless somebody knows better.
    fn login_methods<'a>(
        &'a self,
        _directory: &'a str,
    ) -> BoxFuture<'a, Result<BTreeMap<String, Vec<LoginMethod>>, Invalid>> {
        Box::pin(std::future::ready(Ok(BTreeMap::new())))
    }

    /// Begins a login: where to go, or nothing if it is a way that only keeps a key. Nobody can, unless somebody knows
    /// better.
    fn begin_login<'a>(
        &'a self,
        _directory: &'a str,
        provider: &'a str,
        _how: LoginBegin,
    ) -> BoxFuture<'a, Result<Option<Authorization>, LoginFault>> {
        let message = format!("there is no way to log in to {provider} but with a key");
        Box::pin(std::future::ready(Err(LoginFault::Unusable(message))))
    }

    /// Completes a login: what is to be kept of it. Nobody can, unless somebody knows better.
    fn complete_login<'a>(
        &'a self,
        _directory: &'a str,
        provider: &'a str,
        _how: LoginComplete,
    ) -> BoxFuture<'a, Result<Option<Login>, LoginFault>> {
        let message = format!("no login to {provider} is waiting to be completed");
        Box::pin(std::future::ready(Err(LoginFault::Missing(message))))
    }

    /// Who looks on in a directory and may shape what happens there. Nobody, unless somebody knows better.
    fn hooks<'a>(&'a self, _place: &'a Place) -> BoxFuture<'a, Arc<dyn Hooks>> {
        Box::pin(std::future::ready(NoHooks::shared()))
    }

    /// Forgets what was read, of one directory or of all: it is read again when it is next needed. Turns that are
    /// running keep what they have.
    fn forget(&self, directory: Option<&str>);

    /// The configuration that counts in every directory, without secrets.
    fn user_config(&self) -> BoxFuture<'_, Result<Value, Invalid>>;

    /// Changes the configuration of a directory or, without one, what counts everywhere, and returns what it
    /// amounts to there, without secrets. Turns that are running keep what they have.
    fn configure<'a>(
        &'a self,
        directory: Option<&'a str>,
        change: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, Unchanged>>;

    /// Whether the user trusts a directory, and which parts of its configuration do not count.
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

    /// Trusts a directory, or no longer. It counts from the next prompt on; turns that are running keep what they have.
    fn set_trust<'a>(&'a self, directory: &'a str, _trusted: bool) -> BoxFuture<'a, Result<(), Refused>> {
        let message =
            format!("{directory} cannot be trusted: this server keeps no list of trusted directories");
        Box::pin(std::future::ready(Err(Refused::Unfit(message))))
    }

    /// Keeps a key or login for a provider, or removes it. From then on it counts everywhere.
    fn log_in<'a>(&'a self, provider: &'a str, login: Option<Login>) -> BoxFuture<'a, Result<(), Refused>>;
}

/// Why something was not changed, for people.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refused {
    /// It cannot be changed, or not like this.
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

/// A tool, as models see it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ToolInfo {
    /// Its name.
    pub id: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
}

/// What there is in one directory. Plain data, as of when it was read.
#[derive(Debug, Clone, Default)]
pub struct Instance {
    /// Providers that can be used.
    pub providers: Vec<Provider>,
    /// The model to use first, by provider.
    pub default_models: BTreeMap<String, String>,
    /// Agents that can be chosen.
    pub agents: Vec<Agent>,
    /// Slash commands.
    pub commands: Vec<Command>,
    /// Skills that can be loaded.
    pub skills: Vec<Skill>,
    /// Variables that programs started here do not inherit, such as the keys of providers.
    pub hidden: Vec<String>,
    /// The merged configuration as clients may see it, without secrets.
    pub config: Value,
    /// MCP servers; none if nobody takes care of them.
    pub mcp: Option<Arc<dyn McpServers>>,
}

/// A configuration that cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The first file with a mistake.
    pub path: Option<String>,
    /// All that is wrong, for people.
    pub message: String,
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        let Invalid { path, message } = invalid;
        let fault = ConfigFault { path, message: Some(message), ..ConfigFault::default() };
        Self::new(Fault::Configuration, WireError::Named(NamedError::ConfigInvalid(fault)))
    }
}

/// Why a configuration was not changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unchanged {
    /// It could not be used any more.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It cannot be changed, or not like this.
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

/// The same for every directory, and for ever.
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

/// The instance of the directory a call is about.
#[derive(Debug, Clone)]
pub struct Here(pub Arc<Instance>);

impl FromRequestParts<App> for Here {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let directory = Directory::from_request_parts(parts, app).await?;
        Ok(Self(app.instances.find(&directory.path).await?))
    }
}
