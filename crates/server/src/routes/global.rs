//! The server as a whole.

use axum::{Json, extract::State};
use protocol::{Rest, config::Health};

use crate::{App, openapi::Route};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/global/health", "global.health", health).summary("Whether the server is well")]
}

async fn health(State(app): State<App>) -> Json<Health> {
    Json(Health { healthy: true, version: app.facts.version.clone(), extra: Rest::NONE })
}
