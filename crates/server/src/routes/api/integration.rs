//! Credentials of providers: API keys only.

use axum::{Json, extract::State};
use protocol::{
    config::{Secret, Variables},
    login::Login,
    v2::Integration,
    wire_error::BadRequestKind,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    super::provider::keep,
    Done,
    location::{Located, located},
};
use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, Params},
    instance::Here,
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Directory, "/api/integration", "v2.integration.list", list)
            .summary("List the integrations of providers and the credentials in use"),
        Route::get(Class::Directory, "/api/integration/{integrationID}", "v2.integration.get", get)
            .summary("Get the integration of a provider"),
        Route::post(
            Class::Node,
            "/api/integration/{integrationID}/connect/key",
            "v2.integration.connect.key",
            connect,
        )
        .summary("Store a provider's API key")
        .faults(&[Fault::Full]),
        Route::delete(Class::Node, "/api/credential/{credentialID}", "v2.credential.remove", disconnect)
            .summary("Delete a provider's API key")
            .faults(&[Fault::Full]),
    ]
}

/// Returns the integrations of all known providers that need a credential.
async fn all(app: &App, directory: &Directory, Here(instance): Here) -> Result<Vec<Integration>, Error> {
    let others = app.instances.others(&directory.path).await?;
    Ok(instance.providers.iter().chain(&others).filter_map(Integration::of).collect())
}

async fn list(
    State(app): State<App>,
    directory: Directory,
    here: Here,
) -> Result<Json<Located<Vec<Integration>>>, Error> {
    let all = all(&app, &directory, here).await?;
    Ok(located(&app, &directory, all).await)
}

async fn get(
    State(app): State<App>,
    directory: Directory,
    here: Here,
    Params(id): Params<String>,
) -> Result<Json<Located<Integration>>, Error> {
    let found = all(&app, &directory, here).await?.into_iter().find(|integration| integration.id == id);
    let message = || format!("integrationID: there is no integration {id:?}; GET /api/integration lists all");
    let found = found.ok_or_else(|| Error::bad_request(BadRequestKind::Params, message()))?;
    Ok(located(&app, &directory, found).await)
}

/// An API key to store.
#[derive(Debug, Deserialize, JsonSchema)]
struct KeyInput {
    /// The server stores the key and never returns it.
    key: Secret,
    /// Accepted for OpenCode's clients and ignored: each provider has one key.
    #[serde(rename = "label")]
    _label: Option<String>,
}

async fn connect(
    State(app): State<App>,
    Params(integration): Params<String>,
    Body(input): Body<KeyInput>,
) -> Result<Done, Error> {
    keep(&app, &integration, Login::Api { key: input.key, metadata: Variables::default() }).await?;
    Ok(Done)
}

/// The id of a credential is the id of its provider.
async fn disconnect(State(app): State<App>, Params(credential): Params<String>) -> Result<Done, Error> {
    app.instances.log_in(&credential, None).await?;
    Ok(Done)
}
