//! Providers, their models and their keys.

mod list;

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use protocol::{Extra, login::Login, wire_error::BadRequestKind};

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, Params},
    openapi::{Method, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/provider", "provider.list", list::list)
            .summary("List all providers, and which can be used"),
        Route::get("/provider/auth", "provider.auth", methods)
            .summary("List the ways to log in other than with a key; there are none"),
        browser("/provider/{providerID}/oauth/authorize", "provider.oauth.authorize", "Begin a login"),
        browser("/provider/{providerID}/oauth/callback", "provider.oauth.callback", "Complete a login"),
        Route::put("/auth/{providerID}", "auth.set", log_in).summary("Keep a provider's key"),
        Route::delete("/auth/{providerID}", "auth.remove", log_out).summary("Remove a provider's key"),
    ]
}

/// Clients offer to enter a key for whoever is not in this list.
async fn methods(_: Directory) -> Json<BTreeMap<String, Vec<Extra>>> {
    Json(BTreeMap::new())
}

fn browser(path: &'static str, id: &'static str, summary: &'static str) -> Route {
    let refuse = async |Params(provider): Params<String>| {
        let message = format!(
            "There are no logins with a browser in this version; PUT /auth/{provider} keeps a key instead."
        );
        Error::plain(Fault::NotBuilt, message)
    };
    Route::new(Method::Post, path, id, refuse).summary(summary).faults(&[Fault::NotBuilt])
}

/// The key is kept and never sent back; the next prompt can use it.
async fn log_in(
    State(app): State<App>,
    Params(provider): Params<String>,
    Body(login): Body<Login>,
) -> Result<Json<bool>, Error> {
    keep(&app, &provider, login).await?;
    Ok(Json(true))
}

/// Keeps what lets somebody in, unless it cannot.
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
