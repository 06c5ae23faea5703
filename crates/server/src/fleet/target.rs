//! Finds the workspace of a call.
//!
//! In this order: the workspace of the session that the path names, or that waits for the answer to the request it names;
//! the parent of a new session; the workspace that the query names; the directory, if this machine does not have it and
//! exactly one other node does. Any other call is for this node's own directories.

use axum::extract::{FromRequestParts, Query, RawPathParams};
use engine::{Sessions, ports::Listing};
use http::request::Parts;
use protocol::{SessionId, WorkspaceId};
use serde::Deserialize;

use super::errors;
use crate::{Error, extract::directory};

/// The workspace of a call.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) workspace: WorkspaceId,
    /// The directory that the call means without naming it, or that only another node has.
    pub(super) directory: Option<String>,
}

/// The names in a new session's body that decide where it belongs.
#[derive(Debug, Default, Deserialize)]
pub(super) struct NewSession {
    #[serde(rename = "parentID")]
    parent: Option<SessionId>,
    location: Option<Location>,
}

#[derive(Debug, Deserialize)]
struct Location {
    directory: String,
}

/// Finds the workspace of a call; `None` if the call is for this node, or is not valid and the handler refuses it.
pub(super) async fn find(
    sessions: &Sessions,
    call: &mut Parts,
    new_session: Option<&NewSession>,
) -> Result<Option<Target>, Error> {
    if let Some(session) = session(sessions, call).await? {
        let workspace = known(sessions.workspace_of(&session).await)?;
        return Ok(workspace.map(|workspace| Target { workspace, directory: None }));
    }
    let Ok((given, _)) = directory::given(call) else { return Ok(None) };
    if let Some(parent) = new_session.and_then(|new_session| new_session.parent.as_ref()) {
        return child(sessions, parent, given).await;
    }
    let given = new_session
        .and_then(|new_session| new_session.location.as_ref())
        .map(|it| it.directory.clone())
        .or(given);
    if let Some(workspace) = named(call) {
        return workspace_with_sessions(sessions, workspace, given).await;
    }
    match given {
        Some(given) => elsewhere(sessions, given).await,
        None => Ok(None),
    }
}

/// The session that the path names, or that asked what the path answers.
async fn session(sessions: &Sessions, call: &mut Parts) -> Result<Option<SessionId>, Error> {
    let Ok(names) = RawPathParams::from_request_parts(call, &()).await else { return Ok(None) };
    let value = |wanted: &str| names.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
    match (value("sessionID"), value("requestID")) {
        (Some(session), _) => Ok(session.parse().ok()),
        (None, Some(request)) => Ok(sessions.asker(request).await?),
        (None, None) => Ok(None),
    }
}

/// Turns a missing session into `None`: the handler knows how to say it.
fn known<T>(found: Result<T, engine::Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(engine::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A child belongs to its parent's workspace.
async fn child(
    sessions: &Sessions,
    parent: &SessionId,
    given: Option<String>,
) -> Result<Option<Target>, Error> {
    let Some(session) = known(sessions.get(parent).await)? else { return Ok(None) };
    let workspace = sessions.workspace_of(parent).await?;
    let directory = if given.is_none() { Some(session.directory) } else { None };
    Ok(Some(Target { workspace, directory }))
}

/// The workspace that the query names. OpenCode has workspaces of its own, whose ids mean nothing here.
fn named(call: &Parts) -> Option<WorkspaceId> {
    #[derive(Deserialize)]
    struct Named {
        workspace: Option<String>,
    }
    let Query(Named { workspace }) = Query::try_from_uri(&call.uri).ok()?;
    workspace?.parse().ok()
}

/// A workspace that a call may name: one in which there are sessions, because they know its directory.
async fn workspace_with_sessions(
    sessions: &Sessions,
    workspace: WorkspaceId,
    given: Option<String>,
) -> Result<Option<Target>, Error> {
    let listing = Listing { workspace: Some(workspace.clone()), limit: Some(1), ..Listing::default() };
    let newest = sessions.list(listing).await?.into_iter().next();
    Ok(newest.map(|session| Target { workspace, directory: Some(given.unwrap_or(session.directory)) }))
}

async fn elsewhere(sessions: &Sessions, given: String) -> Result<Option<Target>, Error> {
    if !given.starts_with('/') || !directory::is_missing(&given).await {
        return Ok(None);
    }
    let path = match given.trim_end_matches('/') {
        "" => "/",
        path => path,
    };
    let mut found = sessions.elsewhere(path).await?;
    match (found.pop(), found.is_empty()) {
        (Some(workspace), true) => Ok(Some(Target { workspace, directory: Some(path.to_owned()) })),
        (Some(workspace), false) => {
            found.push(workspace);
            Err(errors::ambiguous(path, &found))
        }
        (None, _) => Ok(None),
    }
}
