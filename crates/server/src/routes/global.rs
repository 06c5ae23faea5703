//! Routes about the server as a whole.

use std::borrow::Cow;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use protocol::{Event, EventBody, Extra, OPENCODE_VERSION, Rest, config::Health};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::json;

use crate::{
    App, Error,
    error::Fault,
    extract::Body,
    openapi::{Class, Gives, Operation, Route},
    security::Caller,
    sse,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Node, "/global/health", "global.health", health)
            .summary("Get the health of the server; without the password, only whether it is up"),
        Route::get(Class::Record, "/global/event", "global.event", sse::global_event)
            .summary("Follow the events of all directories")
            .streams::<GlobalEvent>(),
        Route::post(Class::Node, "/global/dispose", "global.dispose", dispose)
            .summary("Reload the configuration of all directories; running turns continue"),
        Route::post(Class::Node, "/global/upgrade", "global.upgrade", upgrade)
            .summary("Upgrade the server; always refused")
            .faults(&[Fault::NotBuilt]),
    ]
}

async fn health(State(app): State<App>, caller: Caller) -> Healthy {
    Healthy(caller.is_signed_in().then(|| Health {
        healthy: true,
        version: OPENCODE_VERSION.to_owned(),
        baton: Some(app.facts.version.clone()),
        problem: app.sessions.problem(),
        extra: Rest::NONE,
    }))
}

/// The health, without details for a caller who has not given the password.
struct Healthy(Option<Health>);

impl IntoResponse for Healthy {
    fn into_response(self) -> Response {
        match self.0 {
            Some(health) => Json(health).into_response(),
            None => Json(json!({ "healthy": true })).into_response(),
        }
    }
}

impl Gives for Healthy {
    fn describe(operation: &mut Operation) {
        operation.gives::<Health>(&[]);
    }
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
