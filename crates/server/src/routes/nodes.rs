//! The nodes that share a database, for operators and load balancers.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use protocol::fleet::{FleetNode, FleetWorkspace};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    App, Error,
    error::Fault,
    extract::Params,
    openapi::{Class, Gives, Operation, Route},
};

pub(super) fn routes() -> Vec<Route> {
    let missing = &[Fault::NotFound];
    vec![
        Route::get(Class::Node, "/baton/ready", "baton.ready", ready)
            .summary("Tell a load balancer whether this node takes calls: 200, or 503 with the reason; needs no password"),
        Route::get(Class::Node, "/baton/nodes", "baton.nodes", nodes)
            .summary("List the nodes that share the database; empty for a server that is no node"),
        Route::get(Class::Node, "/baton/workspaces", "baton.workspaces", workspaces)
            .summary("List the directories of all nodes"),
        Route::post(Class::Node, "/baton/nodes/{name}/drain", "baton.nodes.drain", drain)
            .summary("Let a node finish its turns and take no new sessions and prompts")
            .faults(missing),
        Route::post(Class::Node, "/baton/nodes/{name}/resume", "baton.nodes.resume", resume)
            .summary("Let a drained node take new work again")
            .faults(missing),
    ]
}

async fn ready(State(app): State<App>) -> Readiness {
    Readiness { reason: app.sessions.fleet().unready() }
}

/// The answer to a load balancer.
#[derive(Debug, Serialize, JsonSchema)]
struct Readiness {
    /// The reason why this node takes no calls. Absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl IntoResponse for Readiness {
    fn into_response(self) -> Response {
        let status = if self.reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, Json(self)).into_response()
    }
}

impl Gives for Readiness {
    fn describe(operation: &mut Operation) {
        operation.gives::<Self>(&[]);
    }
}

async fn nodes(State(app): State<App>) -> Result<Json<Vec<FleetNode>>, Error> {
    Ok(Json(app.sessions.fleet().nodes().await.map_err(engine::Error::from)?))
}

async fn workspaces(State(app): State<App>) -> Result<Json<Vec<FleetWorkspace>>, Error> {
    Ok(Json(app.sessions.fleet().workspaces().await.map_err(engine::Error::from)?))
}

async fn drain(State(app): State<App>, Params(node): Params<String>) -> Result<Json<bool>, Error> {
    set_drain(&app, &node, true).await
}

async fn resume(State(app): State<App>, Params(node): Params<String>) -> Result<Json<bool>, Error> {
    set_drain(&app, &node, false).await
}

/// Stores what the user wants. The node reads it within a second.
async fn set_drain(app: &App, node: &str, wanted: bool) -> Result<Json<bool>, Error> {
    if app.sessions.fleet().drain(node, wanted).await.map_err(engine::Error::from)? {
        return Ok(Json(true));
    }
    Err(Error::plain(Fault::NotFound, format!("No node named \"{node}\" is up; `baton nodes` lists them.")))
}
