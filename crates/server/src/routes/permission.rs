//! Pending permissions and stored approvals.

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
    extract::{Body, ClientName, Directory, Params, Query},
    openapi::{Class, Gives, Operation, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Record, "/permission", "permission.list", list)
            .summary("List the pending permission requests"),
        Route::post(Class::Session, "/permission/{requestID}/reply", "permission.reply", reply)
            .summary("Answer a permission")
            .faults(&[Fault::PermissionGone])
            .stores(),
        Route::post(
            Class::Session,
            "/session/{sessionID}/permissions/{permissionID}",
            "permission.respond",
            respond,
        )
        .summary("Answer a permission (older form)")
        .faults(&[Fault::NotFound, Fault::PermissionGone])
        .stores(),
        Route::get(Class::Record, "/api/permission/saved", "v2.permission.saved.list", saved)
            .summary("List the stored approvals"),
        Route::delete(Class::Record, "/api/permission/saved/{id}", "v2.permission.saved.remove", forget)
            .summary("Delete a stored approval")
            .stores(),
    ]
}

/// Query of a request list.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Family {
    /// Returns only requests of this session and its descendants (Baton's addition).
    #[serde(default)]
    session: Option<SessionId>,
}

impl Family {
    /// Returns true if the request matches the query.
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
    let mut waiting = app.sessions.permissions(Some(&directory.workspace(&app.sessions))).await?;
    waiting.retain(|request| family.has(&Request::Permission(request.clone())));
    Ok(Json(waiting))
}

/// Unlike in OpenCode, the directory does not matter, because ids are unique.
async fn reply(
    State(app): State<App>,
    Params(id): Params<PermissionId>,
    ClientName(client): ClientName,
    Body(input): Body<PermissionReplyInput>,
) -> Result<Json<bool>, Error> {
    app.sessions.answers_of(client).permission(&id, input.reply, input.message).await?;
    Ok(Json(true))
}

/// A reply in the older form.
#[derive(Debug, Deserialize, JsonSchema)]
struct RespondInput {
    response: PermissionReply,
}

async fn respond(
    State(app): State<App>,
    Params((session, id)): Params<(SessionId, PermissionId)>,
    ClientName(client): ClientName,
    Body(input): Body<RespondInput>,
) -> Result<Json<bool>, Error> {
    app.sessions.get(&session).await?;
    let waiting = app.sessions.permissions(None).await?;
    if !waiting.iter().any(|request| request.id == id && request.session_id == session) {
        return Err(Error::permission_gone(&id));
    }
    app.sessions.answers_of(client).permission(&id, input.response, None).await?;
    Ok(Json(true))
}

/// Query of an approval list.
#[derive(Debug, Deserialize, JsonSchema)]
struct ApprovalQuery {
    /// Returns only approvals of this project.
    #[serde(rename = "projectID", default)]
    project_id: Option<String>,
}

/// The stored approvals.
#[derive(Debug, Serialize, JsonSchema)]
struct SavedPermissions {
    /// Approvals, oldest first.
    data: Vec<Approval>,
}

async fn saved(
    State(app): State<App>,
    Query(whose): Query<ApprovalQuery>,
) -> Result<Json<SavedPermissions>, Error> {
    let data = app.sessions.approvals(whose.project_id.as_deref()).await?;
    Ok(Json(SavedPermissions { data }))
}

/// Deleting an unknown approval succeeds, too.
async fn forget(State(app): State<App>, Params(id): Params<ApprovalId>) -> Result<Forgotten, Error> {
    app.sessions.forget(&id).await?;
    Ok(Forgotten)
}

/// Answer to the deletion of an approval.
#[derive(Debug)]
struct Forgotten;

impl IntoResponse for Forgotten {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Gives for Forgotten {
    fn describe(operation: &mut Operation) {
        operation.gives_nothing("The approval is deleted");
    }
}
