//! `GET /` without a web page: the name and version of this server, for users who open its address.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, header};
use serde_json::json;

use crate::App;

const NAME: &str = "Baton";
const ABOUT: &str = "an agent session server with OpenCode's HTTP API";
/// The OpenAPI document.
const DOCUMENT: &str = "/doc";

/// Answers in JSON if the client asks for it, otherwise in one line of text.
pub(crate) fn greet(app: &App, headers: &HeaderMap) -> Response {
    let version = &app.facts.version;
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    if accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("application/json")) {
        let about =
            json!({ "name": NAME, "version": version, "description": ABOUT, "documentation": DOCUMENT });
        return Json(about).into_response();
    }
    format!("{NAME} {version}: {ABOUT}. The OpenAPI document is at {DOCUMENT}.\n").into_response()
}
