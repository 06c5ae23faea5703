//! Routes of OpenCode that Baton does not support. They answer with a typed error instead of a 404, so that a
//! client can tell an unsupported route from a missing session. Each error names the reason or an alternative.

use crate::{
    Error,
    error::Fault,
    openapi::{Class, Method, Route},
};

/// Baton publishes nothing.
const SHARE: &str = "This server does not publish sessions.";
/// The directory of a session is part of its history.
const MOVE: &str = "A session stays in the directory in which it was created; fork it or create another one.";
/// OpenCode's commercial service.
const CONSOLE: &str = "This server has no OpenCode console accounts.";
/// Baton only works in directories of its own machine.
const WORKSPACE: &str = "This server has no workspaces on other machines; use a directory of this machine.";
/// Each log has exactly one writer.
const SYNC: &str = "This server is the only one that writes its log; POST /sync/history reads it.";
/// Experimental in OpenCode, and tied to its implementation of copies.
const COPY: &str = "This server does not copy projects; POST /experimental/worktree creates a worktree.";
/// Browser logins.
const LOGIN: &str = "This route does not support browser logins; POST /api/integration/{integrationID}/connect/key stores a key.";
/// Each provider has one key, so it needs no label.
const LABEL: &str = "A provider has only one key, which has the provider's name.";
/// Only tools ask for permissions.
const ASK: &str = "Only the tools of a turn ask for permissions, not clients.";

/// Method, path, operation, summary and reason.
type Refused = (Method, &'static str, &'static str, &'static str, &'static str);

const ROUTES: &[Refused] = &[
    (Method::Post, "/session/{sessionID}/share", "session.share", "Publish a session", SHARE),
    (Method::Delete, "/session/{sessionID}/share", "session.unshare", "Unpublish a session", SHARE),
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
        "Refresh the list of workspaces",
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
        "Refresh the copies of a project",
        COPY,
    ),
    (
        Method::Post,
        "/experimental/project/{projectID}/copy/generate-name",
        "experimental.projectCopy.generateName",
        "Generate a name for a copy of a project",
        COPY,
    ),
    (Method::Post, "/sync/replay", "sync.replay", "Import the events of another server", SYNC),
    (Method::Post, "/sync/steal", "sync.steal", "Take over a session of another server", SYNC),
    (
        Method::Post,
        "/api/integration/{integrationID}/connect/oauth",
        "v2.integration.connect.oauth",
        "Start a browser login",
        LOGIN,
    ),
    (
        Method::Get,
        "/api/integration/attempt/{attemptID}",
        "v2.integration.attempt.status",
        "Get the status of a browser login",
        LOGIN,
    ),
    (
        Method::Delete,
        "/api/integration/attempt/{attemptID}",
        "v2.integration.attempt.cancel",
        "Cancel a browser login",
        LOGIN,
    ),
    (
        Method::Post,
        "/api/integration/attempt/{attemptID}/complete",
        "v2.integration.attempt.complete",
        "Complete a browser login",
        LOGIN,
    ),
    (
        Method::Patch,
        "/api/credential/{credentialID}",
        "v2.credential.update",
        "Change the label of a provider's key",
        LABEL,
    ),
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
        Route::new(Class::Node, method, path, id, refuse)
            .summary(summary)
            .takes_names()
            .faults(&[Fault::NotBuilt])
    };
    ROUTES.iter().map(route).collect()
}
