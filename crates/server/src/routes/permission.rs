//! Permissions that wait for a person.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use protocol::{
    ApprovalId, PermissionId, SessionId,
    request::{Approval, PermissionReply, PermissionReplyInput, PermissionRequest, Request},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, Params, Query},
    openapi::{Gives, Operation, Route},
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
        Route::get("/api/permission/saved", "v2.permission.saved.list", saved)
            .summary("List what people have allowed for good"),
        Route::delete("/api/permission/saved/{id}", "v2.permission.saved.remove", forget)
            .summary("Forget something that was allowed for good")
            .stores(),
    ]
}

/// Which requests to list.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Family {
    /// Only those of this session and the sessions below it (Baton's addition).
    #[serde(default)]
    session: Option<SessionId>,
}

impl Family {
    /// Whether a request is wanted.
    pub(super) fn has(&self, request: &Request) -> bool {
        let one = |id: &SessionId| request.session_id() == id || request.root_id() == id;
        self.session.as_ref().is_none_or(one)
    }
}

async fn list(
    State(app): State<App>,
    directory: Directory,
    Query(family): Query<Family>,
) -> Result<Json<Vec<PermissionRequest>>, Error> {
    let mut waiting = app.sessions.permissions(Some(&directory.path)).await?;
    waiting.retain(|request| family.has(&Request::Permission(request.clone())));
    Ok(Json(waiting))
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

/// Whose approvals to list.
#[derive(Debug, Deserialize, JsonSchema)]
struct Whose {
    /// Only those of this project.
    #[serde(rename = "projectID", default)]
    project_id: Option<String>,
}

/// What people have allowed for good.
#[derive(Debug, Serialize, JsonSchema)]
struct SavedPermissions {
    /// Oldest first.
    data: Vec<Approval>,
}

async fn saved(State(app): State<App>, Query(whose): Query<Whose>) -> Result<Json<SavedPermissions>, Error> {
    let data = app.sessions.approvals(whose.project_id.as_deref()).await?;
    Ok(Json(SavedPermissions { data }))
}

/// What is not known is as good as forgotten.
async fn forget(State(app): State<App>, Params(id): Params<ApprovalId>) -> Result<Forgotten, Error> {
    app.sessions.forget(&id).await?;
    Ok(Forgotten)
}

/// The approval does not count any more.
#[derive(Debug)]
struct Forgotten;

impl IntoResponse for Forgotten {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Gives for Forgotten {
    fn describe(operation: &mut Operation) {
        operation.gives_nothing("It is asked about again from now on");
    }
}
