//! Providers and their models.

use axum::Json;
use protocol::{Rest, provider::AllProviders};

use crate::{instance::Here, openapi::Route};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/provider", "provider.list", list).summary("List all providers, and which can be used")]
}

async fn list(Here(instance): Here) -> Json<AllProviders> {
    let all = instance.providers.clone();
    let connected = all.iter().map(|provider| provider.id.clone()).collect();
    Json(AllProviders { all, default: instance.default_models.clone(), connected, extra: Rest::NONE })
}
