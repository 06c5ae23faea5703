//! MCP servers. There are none yet, but OpenCode's clients ask at start.

use std::collections::BTreeMap;

use axum::Json;
use protocol::Extra;

use crate::{extract::Directory, openapi::Route};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/mcp", "mcp.status", status).summary("Get the status of the MCP servers, by name")]
}

async fn status(_: Directory) -> Json<BTreeMap<String, Extra>> {
    Json(BTreeMap::new())
}
