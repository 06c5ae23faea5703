//! The server as a whole.

use std::borrow::Cow;

use axum::{Json, extract::State};
use protocol::{Event, EventBody, Extra, Rest, config::Health};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::{App, Error, error::Fault, extract::Body, openapi::Route, sse};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/global/health", "global.health", health).summary("Whether the server is well"),
        Route::get("/global/event", "global.event", sse::global_event)
            .summary("Follow the events of all directories")
            .streams::<GlobalEvent>(),
        Route::post("/global/dispose", "global.dispose", dispose)
            .summary("Read the configuration of all directories again; turns go on"),
        Route::post("/global/upgrade", "global.upgrade", upgrade)
            .summary("Upgrade the server; it never does so itself")
            .faults(&[Fault::NotBuilt]),
    ]
}

async fn health(State(app): State<App>) -> Json<Health> {
    let version = app.facts.version.clone();
    Json(Health { healthy: true, version, problem: app.sessions.problem(), extra: Rest::NONE })
}

async fn dispose(State(app): State<App>) -> Json<bool> {
    app.instances.forget(None);
    app.sessions.publish(None, EventBody::GlobalDisposed(Extra::new()));
    Json(true)
}

/// What to upgrade to.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "nothing is upgraded, but a call still has to fit")]
struct Upgrade {
    /// The version.
    target: String,
}

/// A server that many sessions depend on is replaced by whoever runs it, not by one of its clients.
async fn upgrade(_: Body<Upgrade>) -> Error {
    let message =
        "This server does not upgrade itself. Install the new version where it runs, and restart it.";
    Error::plain(Fault::NotBuilt, message)
}

/// An event with the place it happened at. It is written by the bus, once for all subscribers, and so has no
/// value here, only a schema.
enum GlobalEvent {}

impl JsonSchema for GlobalEvent {
    fn schema_name() -> Cow<'static, str> {
        "GlobalEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "An event with the place it happened at.",
            "properties": {
                "directory": { "type": "string", "description": "The session's directory." },
                "project": { "type": "string", "description": "The session's project." },
                "payload": generator.subschema_for::<Event>(),
            },
            "required": ["payload"],
        })
    }
}
