//! The configuration: reading it without secrets, and changing it.

use std::borrow::Cow;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use protocol::{
    EventBody, Extra, Rest, config::Config, diagnostic::Diagnostic, provider::ConfiguredProviders,
    secret::without_secrets,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::instance::announce;
use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory},
    instance::Here,
    openapi::{Class, Gives, Operation, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Directory, "/config", "config.get", config)
            .summary("Get the configuration, without its secrets"),
        Route::patch(Class::Directory, "/config", "config.update", change)
            .summary("Change the configuration of a project; running turns continue")
            .faults(&[Fault::Configuration, Fault::Full]),
        Route::get(Class::Node, "/global/config", "global.config.get", user_config)
            .summary("Get the user's global configuration, without its secrets")
            .faults(&[Fault::Configuration]),
        Route::patch(Class::Node, "/global/config", "global.config.update", change_user)
            .summary("Change the user's global configuration; running turns continue")
            .faults(&[Fault::Configuration, Fault::Full]),
        Route::get(Class::Directory, "/config/diagnostics", "config.diagnostics", diagnostics)
            .summary("List the warnings about the configuration of a directory")
            .faults(&[Fault::Configuration]),
        Route::get(Class::Directory, "/config/providers", "config.providers", providers)
            .summary("List the available providers and their models"),
    ]
}

async fn config(Here(instance): Here) -> Shown {
    Shown::from(&instance.config)
}

async fn diagnostics(State(app): State<App>, directory: Directory) -> Result<Json<Vec<Diagnostic>>, Error> {
    Ok(Json(app.instances.diagnostics(&directory.path).await?))
}

async fn user_config(State(app): State<App>) -> Result<Shown, Error> {
    Ok(Shown::from(&app.instances.user_config().await?))
}

/// Publishes the event after which OpenCode's clients reload their state. Running turns continue.
async fn change(
    State(app): State<App>,
    directory: Directory,
    Body(Change(change)): Body<Change>,
) -> Result<Shown, Error> {
    let matters = !change.is_empty();
    let config = app.instances.configure(Some(&directory.path), change).await?;
    if matters {
        announce(&app, directory).await;
    }
    Ok(Shown::from(&config))
}

async fn change_user(State(app): State<App>, Body(Change(change)): Body<Change>) -> Result<Shown, Error> {
    let matters = !change.is_empty();
    let config = app.instances.configure(None, change).await?;
    if matters {
        app.sessions.publish(None, EventBody::GlobalDisposed(Extra::new()));
    }
    Ok(Shown::from(&config))
}

/// The changed keys as the client sent them. [`Config`] would drop their secrets, which must be written.
#[derive(Deserialize)]
struct Change(Map<String, Value>);

impl JsonSchema for Change {
    fn schema_name() -> Cow<'static, str> {
        Config::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Config::json_schema(generator)
    }
}

/// A configuration as it was read. It may contain keys that this version has no types for.
struct Shown(Value);

impl From<&Value> for Shown {
    fn from(config: &Value) -> Self {
        // A second filter, in case the instance's configuration still contains a secret.
        Self(without_secrets(config))
    }
}

impl IntoResponse for Shown {
    fn into_response(self) -> Response {
        Json(self.0).into_response()
    }
}

impl Gives for Shown {
    fn describe(operation: &mut Operation) {
        operation.gives::<Config>(&[]);
    }
}

async fn providers(Here(instance): Here) -> Json<ConfiguredProviders> {
    let (providers, default) = (instance.providers.clone(), instance.default_models.clone());
    Json(ConfiguredProviders { providers, default, extra: Rest::NONE })
}
