//! The configuration, as far as clients may see it.

use axum::{Json, extract::State};
use protocol::{Rest, config::Config, provider::ConfiguredProviders};
use serde::Deserialize;

use crate::{App, Error, extract::Directory, openapi::Route};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/config", "config.get", config).summary("Get the configuration, without its secrets"),
        Route::get("/config/providers", "config.providers", providers)
            .summary("List the providers that can be used, and their models"),
    ]
}

async fn config(State(app): State<App>, _: Directory) -> Result<Json<Config>, Error> {
    // Going through the type leaves secrets out once more, should the wiring have missed one.
    let config = Config::deserialize(&app.facts.config);
    Ok(Json(config.map_err(|error| Error::broken(&format!("the configuration: {error}")))?))
}

async fn providers(State(app): State<App>, _: Directory) -> Json<ConfiguredProviders> {
    let (providers, default) = (app.facts.providers.clone(), app.facts.default_models.clone());
    Json(ConfiguredProviders { providers, default, extra: Rest::NONE })
}
