//! Clients that want to say something in the server's log.

use axum::Json;
use protocol::Extra;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Error, extract::Body, openapi::Route};

/// Letters of a client's entry that are kept.
const MAX_ENTRY: usize = 8_192;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::post("/log", "app.log", log).summary("Write an entry to the server's log")]
}

/// An entry for the log.
#[derive(Debug, Deserialize, JsonSchema)]
struct LogInput {
    /// Who says it.
    service: String,
    /// How bad it is.
    level: Level,
    /// What is said.
    message: String,
    /// More of it.
    #[serde(default)]
    extra: Option<Extra>,
}

/// How bad an entry is.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

async fn log(Body(entry): Body<LogInput>) -> Result<Json<bool>, Error> {
    let cut = |text: &str| text.chars().take(MAX_ENTRY).collect::<String>();
    let (service, message) = (cut(&entry.service), cut(&entry.message));
    let extra =
        entry.extra.map(|extra| cut(&serde_json::Value::Object(extra).to_string())).unwrap_or_default();
    // Quoted, so that a client cannot write lines of its own.
    match entry.level {
        Level::Debug => tracing::debug!(?service, ?message, ?extra, "a client says"),
        Level::Info => tracing::info!(?service, ?message, ?extra, "a client says"),
        Level::Warn => tracing::warn!(?service, ?message, ?extra, "a client says"),
        Level::Error => tracing::error!(?service, ?message, ?extra, "a client says"),
    }
    Ok(Json(true))
}
