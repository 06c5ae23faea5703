//! Sessions: list, create, read, change, delete, abort, revert and fork.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use engine::ports::Listing;
use protocol::{
    Message, MessageId, Session, SessionId, SessionStatus, Todo,
    continuation::ContinuationInput,
    family::Family,
    project::FileDiff,
    prompt::{ForkInput, RevertInput, SeenInput, SessionInput, SessionPatch},
    turn::LastTurn,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, OptionalBody, Params, Query},
    fleet::Offered,
    openapi::{Class, Route},
};

/// Default number of sessions per list.
const USUAL_SESSIONS: usize = 100;
/// Maximum number of sessions per list.
const MAX_SESSIONS: usize = 10_000;

pub(super) fn routes() -> Vec<Route> {
    let missing = &[Fault::NotFound];
    vec![
        Route::get(Class::Record, "/session", "session.list", list)
            .summary("List sessions, most recently updated first"),
        Route::post(Class::Session, "/session", "session.create", create)
            .summary("Create a session")
            .faults(missing)
            .stores(),
        Route::get(Class::Record, "/session/status", "session.status", statuses)
            .summary("Get the status of the sessions that are not idle"),
        Route::get(Class::Record, "/session/{sessionID}", "session.get", get)
            .summary("Get a session")
            .faults(missing),
        Route::delete(Class::Session, "/session/{sessionID}", "session.delete", delete)
            .summary(
                "Abort and delete a session and its children, or with `unusedSince` only if none is in use",
            )
            .faults(&[Fault::NotFound, Fault::Busy])
            .stores(),
        Route::patch(Class::Session, "/session/{sessionID}", "session.update", update)
            .summary("Change title, metadata, permission rules, archiving or automatic continuation")
            .faults(missing)
            .stores(),
        Route::get(Class::Record, "/session/{sessionID}/children", "session.children", children)
            .summary("List the children of a session")
            .faults(missing),
        Route::get(Class::Record, "/session/{sessionID}/family", "session.family", family)
            .summary("Get the root of a session and all sessions below it, with their statuses and totals")
            .faults(missing),
        Route::get(Class::Record, "/session/{sessionID}/todo", "session.todo", todos)
            .summary("Get the todo list of a session")
            .faults(missing),
        Route::get(Class::Record, "/session/{sessionID}/diff", "session.diff", diff)
            .summary("Get the file changes of a prompt's turn")
            .faults(missing),
        Route::get(Class::Record, "/session/{sessionID}/turn", "session.turn", turn)
            .summary("Get the newest user prompt and its answer")
            .faults(missing),
        Route::post(
            Class::Session,
            "/session/{sessionID}/continuation",
            "session.continuation",
            continuation,
        )
        .summary("Stop or resume automatic continuation")
        .faults(missing)
        .stores(),
        Route::put(Class::Session, "/session/{sessionID}/seen", "session.seen", seen)
            .summary("Mark a session as seen up to an event, or as unread")
            .faults(missing)
            .stores(),
        Route::post(Class::Session, "/session/{sessionID}/abort", "session.abort", abort)
            .summary("Abort the running turn and wait until the session is idle")
            .stores(),
        Route::post(Class::Session, "/session/{sessionID}/revert", "session.revert", revert)
            .summary(
                "Revert a message or part and everything after it, including file changes; fails while busy",
            )
            .faults(&[Fault::NotFound, Fault::Busy])
            .stores(),
        Route::post(Class::Session, "/session/{sessionID}/unrevert", "session.unrevert", unrevert)
            .summary("Undo a pending revert; fails while busy")
            .faults(&[Fault::NotFound, Fault::Busy])
            .stores(),
        Route::post(
            Class::Session,
            "/experimental/session/{sessionID}/background",
            "experimental.session.background",
            background,
        )
        .summary("Continue a turn without waiting for its subagents"),
        Route::post(Class::Session, "/session/{sessionID}/fork", "session.fork", fork)
            .summary("Copy a session's messages into a new session")
            .faults(missing)
            .stores(),
    ]
}

/// Query of a session list.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListQuery {
    /// `project` to include sessions of all directories of the project.
    scope: Option<Scope>,
    /// Returns only sessions whose path within the worktree is this or below.
    path: Option<String>,
    /// True to leave out child sessions.
    roots: Option<bool>,
    /// Returns only sessions updated at or after this time, in milliseconds since the Unix epoch.
    start: Option<i64>,
    /// Returns only sessions whose title contains this text.
    search: Option<String>,
    /// Maximum number of sessions, up to 10,000. Default: 100.
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Scope {
    Project,
}

async fn list(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<ListQuery>,
) -> Result<Json<Vec<Session>>, Error> {
    let exact = directory.named && query.scope.is_none() && query.path.is_none();
    // The project of a directory on another node cannot be looked up here, so its list is that of the workspace.
    let project = match &directory.elsewhere {
        Some(_) => None,
        None => Some(app.projects.find(&directory.path).await.project),
    };
    let listing = Listing {
        workspace: (exact || project.is_none()).then(|| directory.workspace(&app.sessions)),
        project,
        path: query.path,
        roots: query.roots.unwrap_or(false),
        updated_since: query.start,
        search: query.search,
        limit: Some(query.limit.unwrap_or(USUAL_SESSIONS).min(MAX_SESSIONS)),
        ..Listing::default()
    };
    Ok(Json(app.sessions.list(listing).await?))
}

async fn create(
    State(app): State<App>,
    directory: Directory,
    Offered(id): Offered<SessionId>,
    OptionalBody(input): OptionalBody<SessionInput>,
) -> Result<Json<Session>, Error> {
    let input = SessionInput { id, ..input };
    let place = app.projects.find(&directory.path).await;
    Ok(Json(app.sessions.create(place.home(), input).await?))
}

/// Returns a map by session id, with plain strings as keys.
async fn statuses(
    State(app): State<App>,
    directory: Directory,
) -> Result<Json<BTreeMap<String, SessionStatus>>, Error> {
    let statuses = app.sessions.statuses(Some(&directory.workspace(&app.sessions))).await?;
    Ok(Json(statuses.into_iter().map(|(id, status)| (id.to_string(), status)).collect()))
}

async fn get(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<Session>, Error> {
    Ok(Json(app.sessions.get(&id).await?))
}

/// Query of a deletion (Baton's addition).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DeleteQuery {
    /// Deletes only if the session and its children are idle, not shared, and were last updated before this time, in
    /// milliseconds since the Unix epoch. Otherwise the call fails with 409.
    unused_since: Option<i64>,
}

async fn delete(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Query(query): Query<DeleteQuery>,
) -> Result<Json<bool>, Error> {
    match query.unused_since {
        Some(since) => app.sessions.delete_unused(&id, since).await?,
        None => app.sessions.delete(&id).await?,
    }
    Ok(Json(true))
}

async fn update(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(patch): Body<SessionPatch>,
) -> Result<Json<Session>, Error> {
    Ok(Json(app.sessions.update(&id, patch).await?))
}

async fn children(
    State(app): State<App>,
    Params(id): Params<SessionId>,
) -> Result<Json<Vec<Session>>, Error> {
    app.sessions.get(&id).await?;
    Ok(Json(app.sessions.children(&id).await?))
}

async fn family(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<Family>, Error> {
    Ok(Json(app.sessions.family(&id).await?))
}

async fn todos(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<Vec<Todo>>, Error> {
    Ok(Json(app.sessions.todos(&id).await?))
}

/// Query of a diff.
#[derive(Debug, Deserialize, JsonSchema)]
struct DiffQuery {
    /// User message whose changes to return. Without it, the answer is empty.
    #[serde(rename = "messageID")]
    message_id: Option<MessageId>,
}

async fn diff(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Query(query): Query<DiffQuery>,
) -> Result<Json<Vec<FileDiff>>, Error> {
    let Some(message) = query.message_id else {
        app.sessions.get(&id).await?;
        return Ok(Json(Vec::new()));
    };
    let diffs = match app.sessions.message(&id, &message).await?.info {
        Message::User(prompt) => prompt.summary.map(|summary| summary.diffs),
        Message::Assistant(_) => None,
    };
    Ok(Json(diffs.unwrap_or_default()))
}

async fn turn(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<LastTurn>, Error> {
    Ok(Json(app.sessions.last_turn(&id).await?))
}

async fn continuation(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(input): Body<ContinuationInput>,
) -> Result<Json<Session>, Error> {
    Ok(Json(app.sessions.continuation(&id, input.action).await?))
}

async fn seen(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(input): Body<SeenInput>,
) -> Result<Json<bool>, Error> {
    app.sessions.mark_seen(&id, input.cursor).await?;
    Ok(Json(true))
}

async fn abort(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<bool>, Error> {
    match app.sessions.abort(&id).await {
        // As in OpenCode: an unknown session is not running, so the abort succeeds.
        Ok(()) | Err(engine::Error::NotFound { .. }) => Ok(Json(true)),
        Err(error) => Err(error.into()),
    }
}

async fn revert(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(input): Body<RevertInput>,
) -> Result<Json<Session>, Error> {
    Ok(Json(app.sessions.revert(&id, input.message_id, input.part_id).await?))
}

async fn unrevert(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<Session>, Error> {
    Ok(Json(app.sessions.unrevert(&id).await?))
}

/// Returns false if the turn waits for no subagent.
async fn background(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<bool>, Error> {
    Ok(Json(app.sessions.background(&id).await?))
}

async fn fork(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    OptionalBody(input): OptionalBody<ForkInput>,
) -> Result<Json<Session>, Error> {
    Ok(Json(app.sessions.fork(&id, input.message_id.as_ref()).await?))
}
