//! Sessions: list, create, look at, change, remove, stop and fork.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use engine::ports::Listing;
use protocol::{
    Message, MessageId, Session, SessionId, SessionStatus, Todo,
    continuation::ContinuationInput,
    project::FileDiff,
    prompt::{ForkInput, RevertInput, SessionInput, SessionPatch},
    turn::LastTurn,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, OptionalBody, Params, Query},
    openapi::Route,
};

/// Sessions in a list, unless the client says otherwise.
const USUAL_SESSIONS: usize = 100;
/// Sessions in a list, whatever the client says.
const MAX_SESSIONS: usize = 10_000;

pub(super) fn routes() -> Vec<Route> {
    let missing = &[Fault::NotFound];
    vec![
        Route::get("/session", "session.list", list).summary("List sessions, most recently updated first"),
        Route::post("/session", "session.create", create)
            .summary("Create a session")
            .faults(missing)
            .stores(),
        Route::get("/session/status", "session.status", statuses)
            .summary("Sessions that are not idle; all others are"),
        Route::get("/session/{sessionID}", "session.get", get).summary("Get a session").faults(missing),
        Route::delete("/session/{sessionID}", "session.delete", delete)
            .summary("Stop and delete a session and its children")
            .faults(missing)
            .stores(),
        Route::patch("/session/{sessionID}", "session.update", update)
            .summary("Change title, metadata, rules, archiving, or whether turns go on by themselves")
            .faults(missing)
            .stores(),
        Route::get("/session/{sessionID}/children", "session.children", children)
            .summary("List the children of a session")
            .faults(missing),
        Route::get("/session/{sessionID}/todo", "session.todo", todos)
            .summary("Get the todo list of a session")
            .faults(missing),
        Route::get("/session/{sessionID}/diff", "session.diff", diff)
            .summary("Get what a prompt's turn changed in the tree")
            .faults(missing),
        Route::get("/session/{sessionID}/turn", "session.turn", turn)
            .summary("Get the newest prompt that a person wrote and all that came of it")
            .faults(missing),
        Route::post("/session/{sessionID}/continuation", "session.continuation", continuation)
            .summary("Keep a session from going on by itself, or let it again")
            .faults(missing)
            .stores(),
        Route::post("/session/{sessionID}/abort", "session.abort", abort)
            .summary("Stop whatever the session does and wait until it is idle")
            .stores(),
        Route::post("/session/{sessionID}/revert", "session.revert", revert)
            .summary(
                "Take back everything from a message or part on, with what it did to files; not while busy",
            )
            .faults(&[Fault::NotFound, Fault::Busy])
            .stores(),
        Route::post("/session/{sessionID}/unrevert", "session.unrevert", unrevert)
            .summary("Take a revert back; not while busy")
            .faults(&[Fault::NotFound, Fault::Busy])
            .stores(),
        Route::post(
            "/experimental/session/{sessionID}/background",
            "experimental.session.background",
            background,
        )
        .summary("Let a turn go on without waiting for its subagents"),
        Route::post("/session/{sessionID}/fork", "session.fork", fork)
            .summary("Copy a session's messages into a new session")
            .faults(missing)
            .stores(),
    ]
}

/// Which sessions to list.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListQuery {
    /// With `project`, sessions of all directories of the project.
    scope: Option<Scope>,
    /// Only sessions whose path within the worktree is this or below.
    path: Option<String>,
    /// Only sessions without a parent.
    roots: Option<bool>,
    /// Only sessions updated at or after this moment, in milliseconds.
    start: Option<i64>,
    /// Only sessions whose title contains this.
    search: Option<String>,
    /// At most so many; 100 if nothing is said.
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
    let place = app.projects.find(&directory.path).await;
    let exact = directory.named && query.scope.is_none() && query.path.is_none();
    let listing = Listing {
        project: Some(place.project),
        directory: exact.then_some(place.directory),
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
    OptionalBody(input): OptionalBody<SessionInput>,
) -> Result<Json<Session>, Error> {
    let place = app.projects.find(&directory.path).await;
    Ok(Json(app.sessions.create(place.home(), input).await?))
}

/// By id; a plain string, as every client's language has it for keys.
async fn statuses(
    State(app): State<App>,
    directory: Directory,
) -> Result<Json<BTreeMap<String, SessionStatus>>, Error> {
    let statuses = app.sessions.statuses(Some(&directory.path)).await?;
    Ok(Json(statuses.into_iter().map(|(id, status)| (id.to_string(), status)).collect()))
}

async fn get(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<Session>, Error> {
    Ok(Json(app.sessions.get(&id).await?))
}

async fn delete(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<bool>, Error> {
    app.sessions.delete(&id).await?;
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

async fn todos(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<Vec<Todo>>, Error> {
    Ok(Json(app.sessions.todos(&id).await?))
}

/// Which prompt.
#[derive(Debug, Deserialize, JsonSchema)]
struct DiffQuery {
    /// The prompt whose turn is asked about; without it the answer is empty.
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

async fn abort(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Json<bool>, Error> {
    match app.sessions.abort(&id).await {
        // As OpenCode has it: what nobody knows is not running, which is all that was asked for.
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

/// False if there was no subagent that it waited for.
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
