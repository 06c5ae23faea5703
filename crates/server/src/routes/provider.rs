//! Providers and their models.

use axum::{Json, extract::State};
use protocol::{Rest, provider::AllProviders};

use crate::{App, extract::Directory, openapi::Route};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/provider", "provider.list", list).summary("List all providers, and which can be used")]
}

async fn list(State(app): State<App>, _: Directory) -> Json<AllProviders> {
    let all = app.facts.providers.clone();
    let connected = all.iter().map(|provider| provider.id.clone()).collect();
    Json(AllProviders { all, default: app.facts.default_models.clone(), connected, extra: Rest::NONE })
}
