//! Log entries of clients.

use axum::Json;
use protocol::Extra;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    Error,
    extract::Body,
    openapi::{Class, Route},
};

/// Maximum length of each text in a client's entry, in characters.
const MAX_ENTRY: usize = 8_192;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::post(Class::Node, "/log", "app.log", log).summary("Write an entry to the server's log")]
}

/// A log entry of a client.
#[derive(Debug, Deserialize, JsonSchema)]
struct LogInput {
    /// Name of the client's component.
    service: String,
    level: Level,
    message: String,
    /// Further fields.
    #[serde(default)]
    extra: Option<Extra>,
}

/// Severity of a log entry.
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
    // `Debug` quotes the texts, so that a client cannot forge log lines.
    match entry.level {
        Level::Debug => tracing::debug!(?service, ?message, ?extra, "log entry of a client"),
        Level::Info => tracing::info!(?service, ?message, ?extra, "log entry of a client"),
        Level::Warn => tracing::warn!(?service, ?message, ?extra, "log entry of a client"),
        Level::Error => tracing::error!(?service, ?message, ?extra, "log entry of a client"),
    }
    Ok(Json(true))
}
