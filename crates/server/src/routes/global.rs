//! Routes about the server as a whole.

use std::borrow::Cow;

use axum::{Json, extract::State};
use protocol::{Event, EventBody, Extra, OPENCODE_VERSION, Rest, config::Health};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::{App, Error, error::Fault, extract::Body, openapi::Route, sse};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/global/health", "global.health", health).summary("Get the health of the server"),
        Route::get("/global/event", "global.event", sse::global_event)
            .summary("Follow the events of all directories")
            .streams::<GlobalEvent>(),
        Route::post("/global/dispose", "global.dispose", dispose)
            .summary("Reload the configuration of all directories; running turns continue"),
        Route::post("/global/upgrade", "global.upgrade", upgrade)
            .summary("Upgrade the server; always refused")
            .faults(&[Fault::NotBuilt]),
    ]
}

async fn health(State(app): State<App>) -> Json<Health> {
    let (version, baton) = (OPENCODE_VERSION.to_owned(), Some(app.facts.version.clone()));
    Json(Health { healthy: true, version, baton, problem: app.sessions.problem(), extra: Rest::NONE })
}

async fn dispose(State(app): State<App>) -> Json<bool> {
    app.instances.forget(None);
    app.sessions.publish(None, EventBody::GlobalDisposed(Extra::new()));
    Json(true)
}

/// Body of an upgrade.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "never upgraded, but the body must still be valid")]
struct Upgrade {
    /// Version to install.
    target: String,
}

/// Always refuses: the user who runs the server upgrades it, not one of its clients.
async fn upgrade(_: Body<Upgrade>) -> Error {
    let message =
        "This server does not upgrade itself. Install the new version where it runs, and restart it.";
    Error::plain(Fault::NotBuilt, message)
}

/// An event with its directory and project. The bus serialises it once for all subscribers, so this type has no
/// values, only a schema.
enum GlobalEvent {}

impl JsonSchema for GlobalEvent {
    fn schema_name() -> Cow<'static, str> {
        "GlobalEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "An event with its directory and project.",
            "properties": {
                "directory": { "type": "string", "description": "The session's directory." },
                "project": { "type": "string", "description": "The session's project." },
                "payload": generator.subschema_for::<Event>(),
            },
            "required": ["payload"],
        })
    }
}
