//! The configuration, as far as clients may see it.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use protocol::{Rest, config::Config, provider::ConfiguredProviders, secret::without_secrets};
use serde_json::Value;

use crate::{
    instance::Here,
    openapi::{Gives, Operation, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/config", "config.get", config).summary("Get the configuration, without its secrets"),
        Route::get("/config/providers", "config.providers", providers)
            .summary("List the providers that can be used, and their models"),
    ]
}

async fn config(Here(instance): Here) -> Shown {
    // Once more, should the wiring have missed one.
    Shown(without_secrets(&instance.config))
}

/// A configuration as it was read, which may hold more than this version has types for.
struct Shown(Value);

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
