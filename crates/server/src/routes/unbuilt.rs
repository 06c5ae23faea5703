//! What OpenCode has and Baton has not: a typed refusal instead of a silent 404, so that a client can tell "not here"
//! from "no such session". Each says why, or what to do instead.

use crate::{
    Error,
    error::Fault,
    openapi::{Method, Route},
};

/// Nothing is published anywhere.
const SHARE: &str = "Sessions are not published anywhere from here.";
/// A session's place is part of its history.
const MOVE: &str = "A session stays in the directory it was created in; fork it or create one elsewhere.";
/// Somebody else's service.
const CONSOLE: &str = "There are no accounts of OpenCode's console here.";
/// Directories of this machine are all there is.
const WORKSPACE: &str = "There are no workspaces on other machines here; work in a directory of this one.";
/// One server owns one log.
const SYNC: &str = "This server is the only one that writes its log; POST /sync/history reads it.";
/// Experimental there, and bound to its own way of keeping copies.
const COPY: &str =
    "Projects are not copied from here; POST /experimental/worktree makes a directory to work in.";
/// A login with a browser.
const LOGIN: &str =
    "There are no logins with a browser here; POST /api/integration/{integrationID}/connect/key keeps a key.";
/// One key each.
const LABEL: &str = "A provider has one key here, which goes by the provider's name.";
/// Permissions are asked for by tools.
const ASK: &str = "Permissions are asked for by the tools of a turn, not by clients.";

/// Method, path, operation, summary and reason.
type Refused = (Method, &'static str, &'static str, &'static str, &'static str);

const ROUTES: &[Refused] = &[
    (Method::Post, "/session/{sessionID}/share", "session.share", "Publish a session", SHARE),
    (Method::Delete, "/session/{sessionID}/share", "session.unshare", "Take a published session back", SHARE),
    (
        Method::Post,
        "/experimental/control-plane/move-session",
        "experimental.controlPlane.moveSession",
        "Move a session to another directory",
        MOVE,
    ),
    (
        Method::Post,
        "/experimental/console/switch",
        "experimental.console.switchOrg",
        "Switch the organisation of OpenCode's console",
        CONSOLE,
    ),
    (
        Method::Post,
        "/experimental/workspace",
        "experimental.workspace.create",
        "Create a workspace",
        WORKSPACE,
    ),
    (
        Method::Post,
        "/experimental/workspace/sync-list",
        "experimental.workspace.syncList",
        "Look for workspaces again",
        WORKSPACE,
    ),
    (
        Method::Delete,
        "/experimental/workspace/{id}",
        "experimental.workspace.remove",
        "Remove a workspace",
        WORKSPACE,
    ),
    (
        Method::Post,
        "/experimental/workspace/warp",
        "experimental.workspace.warp",
        "Move a session to a workspace",
        WORKSPACE,
    ),
    (Method::Post, "/experimental/project/{projectID}/copy", "v2.projectCopy.create", "Copy a project", COPY),
    (
        Method::Delete,
        "/experimental/project/{projectID}/copy",
        "v2.projectCopy.remove",
        "Remove a copy of a project",
        COPY,
    ),
    (
        Method::Post,
        "/experimental/project/{projectID}/copy/refresh",
        "v2.projectCopy.refresh",
        "Look for copies of a project again",
        COPY,
    ),
    (
        Method::Post,
        "/experimental/project/{projectID}/copy/generate-name",
        "experimental.projectCopy.generateName",
        "Make up a name for a copy of a project",
        COPY,
    ),
    (Method::Post, "/sync/replay", "sync.replay", "Take over the events of another server", SYNC),
    (Method::Post, "/sync/steal", "sync.steal", "Take over a session of another server", SYNC),
    (
        Method::Post,
        "/api/integration/{integrationID}/connect/oauth",
        "v2.integration.connect.oauth",
        "Begin a login with a browser",
        LOGIN,
    ),
    (
        Method::Get,
        "/api/integration/attempt/{attemptID}",
        "v2.integration.attempt.status",
        "See how a login with a browser goes",
        LOGIN,
    ),
    (
        Method::Delete,
        "/api/integration/attempt/{attemptID}",
        "v2.integration.attempt.cancel",
        "Give a login with a browser up",
        LOGIN,
    ),
    (
        Method::Post,
        "/api/integration/attempt/{attemptID}/complete",
        "v2.integration.attempt.complete",
        "Complete a login with a browser",
        LOGIN,
    ),
    (Method::Patch, "/api/credential/{credentialID}", "v2.credential.update", "Name a provider's key", LABEL),
    (
        Method::Post,
        "/api/session/{sessionID}/permission",
        "v2.session.permission.create",
        "Ask for a permission",
        ASK,
    ),
];

pub(super) fn routes() -> Vec<Route> {
    let route = |&(method, path, id, summary, why): &Refused| {
        let refuse = async move || {
            let message = format!("{id} is not available in this version. {why}");
            Error::plain(Fault::NotBuilt, message)
        };
        Route::new(method, path, id, refuse).summary(summary).takes_names().faults(&[Fault::NotBuilt])
    };
    ROUTES.iter().map(route).collect()
}
