//! Providers, their models and their credentials.

mod list;

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use protocol::{
    login::{Authorization, Login, LoginBegin, LoginComplete, LoginMethod},
    wire_error::BadRequestKind,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, Params},
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Directory, "/provider", "provider.list", list::list)
            .summary("List all providers and the available ones"),
        Route::get(Class::Directory, "/provider/auth", "provider.auth", methods)
            .summary("List the login methods of plugins by provider"),
        Route::post(
            Class::Directory,
            "/provider/{providerID}/oauth/authorize",
            "provider.oauth.authorize",
            begin,
        )
        .summary("Start a login")
        .faults(&[Fault::LogIn]),
        Route::post(
            Class::Directory,
            "/provider/{providerID}/oauth/callback",
            "provider.oauth.callback",
            complete,
        )
        .summary("Complete a login")
        .faults(&[Fault::LogIn, Fault::Full]),
        Route::put(Class::Node, "/auth/{providerID}", "auth.set", log_in)
            .summary("Store a provider's credential")
            .faults(&[Fault::Full]),
        Route::delete(Class::Node, "/auth/{providerID}", "auth.remove", log_out)
            .summary("Delete a provider's credential")
            .faults(&[Fault::Full]),
    ]
}

/// For providers that are not in this map, clients ask the user for an API key.
async fn methods(
    State(app): State<App>,
    directory: Directory,
) -> Result<Json<BTreeMap<String, Vec<LoginMethod>>>, Error> {
    Ok(Json(app.instances.login_methods(&directory.path).await?))
}

/// Next step of a login. Empty if the method only stores a key, as in OpenCode.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct Begun(#[schemars(with = "Authorization")] Option<Authorization>);

async fn begin(
    State(app): State<App>,
    Params(provider): Params<String>,
    directory: Directory,
    Body(how): Body<LoginBegin>,
) -> Result<Json<Begun>, Error> {
    let begun = app.instances.begin_login(&directory.path, &provider, how).await;
    Ok(Json(Begun(begun.map_err(|fault| fault.about(&provider))?)))
}

/// Stores the credential before it answers. The next prompt uses it.
async fn complete(
    State(app): State<App>,
    Params(provider): Params<String>,
    directory: Directory,
    Body(how): Body<LoginComplete>,
) -> Result<Json<bool>, Error> {
    let completed = app.instances.complete_login(&directory.path, &provider, how).await;
    if let Some(login) = completed.map_err(|fault| fault.about(&provider))? {
        keep(&app, &provider, login).await?;
    }
    Ok(Json(true))
}

/// Stores the credential and never returns it. The next prompt uses it.
async fn log_in(
    State(app): State<App>,
    Params(provider): Params<String>,
    Body(login): Body<Login>,
) -> Result<Json<bool>, Error> {
    keep(&app, &provider, login).await?;
    Ok(Json(true))
}

/// Stores a credential. Refuses an empty key.
pub(super) async fn keep(app: &App, provider: &str, login: Login) -> Result<(), Error> {
    if matches!(&login, Login::Api { key, .. } if key.reveal().trim().is_empty()) {
        return Err(Error::bad_request(BadRequestKind::Payload, "the key is empty"));
    }
    Ok(app.instances.log_in(provider, Some(login)).await?)
}

async fn log_out(State(app): State<App>, Params(provider): Params<String>) -> Result<Json<bool>, Error> {
    app.instances.log_in(&provider, None).await?;
    Ok(Json(true))
}
