//! Permissions that wait for a person.

use axum::{Json, extract::State};
use protocol::{
    PermissionId, SessionId,
    request::{PermissionReply, PermissionReplyInput, PermissionRequest},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, Params},
    openapi::Route,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/permission", "permission.list", list)
            .summary("List the permissions that wait for a person"),
        Route::post("/permission/{requestID}/reply", "permission.reply", reply)
            .summary("Answer a permission")
            .faults(&[Fault::PermissionGone])
            .stores(),
        Route::post("/session/{sessionID}/permissions/{permissionID}", "permission.respond", respond)
            .summary("Answer a permission, in the older form")
            .faults(&[Fault::NotFound, Fault::PermissionGone])
            .stores(),
    ]
}

async fn list(State(app): State<App>, directory: Directory) -> Result<Json<Vec<PermissionRequest>>, Error> {
    Ok(Json(app.sessions.permissions(Some(&directory.path)).await?))
}

/// Ids are unique, so unlike OpenCode this needs no directory.
async fn reply(
    State(app): State<App>,
    Params(id): Params<PermissionId>,
    Body(input): Body<PermissionReplyInput>,
) -> Result<Json<bool>, Error> {
    app.sessions.reply_permission(&id, input.reply, input.message).await?;
    Ok(Json(true))
}

/// The older form of a reply.
#[derive(Debug, Deserialize, JsonSchema)]
struct RespondInput {
    /// The reply.
    response: PermissionReply,
}

async fn respond(
    State(app): State<App>,
    Params((session, id)): Params<(SessionId, PermissionId)>,
    Body(input): Body<RespondInput>,
) -> Result<Json<bool>, Error> {
    app.sessions.get(&session).await?;
    let waiting = app.sessions.permissions(None).await?;
    if !waiting.iter().any(|request| request.id == id && request.session_id == session) {
        return Err(Error::permission_gone(&id));
    }
    app.sessions.reply_permission(&id, input.response, None).await?;
    Ok(Json(true))
}
