//! Sessions in the shapes of `/api`.

use std::collections::BTreeMap;

use axum::{Extension, Json, extract::State};
use engine::ports::Listing;
use protocol::{
    MessageId, SessionId,
    prompt::{PromptInput, SessionInput, SessionPatch},
    v2::{self, Active, Cursors, Data, Page},
    wire_error::BadRequestKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Done, Order, page_size, read_cursor, write_cursor};
use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, OptionalBody, Params, Query, directory::Elsewhere},
    fleet::Offered,
    openapi::{Class, Route},
};

/// Default number of sessions per page.
const PAGE: usize = 50;
/// Maximum number of sessions per page.
const MAX_PAGE: usize = 200;

pub(super) fn routes() -> Vec<Route> {
    let missing = &[Fault::NotFound];
    vec![
        Route::get(Class::Record, "/api/session", "v2.session.list", list)
            .summary("List sessions, page by page"),
        Route::post(Class::Session, "/api/session", "v2.session.create", create)
            .summary("Create a session")
            .stores(),
        Route::get(Class::Record, "/api/session/active", "v2.session.active", active)
            .summary("List the sessions with a running turn"),
        Route::get(Class::Record, "/api/session/{sessionID}", "v2.session.get", get)
            .summary("Get a session")
            .faults(missing),
        Route::post(Class::Session, "/api/session/{sessionID}/agent", "v2.session.switchAgent", switch_agent)
            .summary("Select the agent for the next prompts")
            .faults(missing)
            .stores(),
        Route::post(Class::Session, "/api/session/{sessionID}/model", "v2.session.switchModel", switch_model)
            .summary("Select the model for the next prompts")
            .faults(missing)
            .stores(),
        Route::post(Class::Session, "/api/session/{sessionID}/compact", "v2.session.compact", compact)
            .summary("Summarise the conversation after the running turn")
            .faults(missing)
            .stores(),
        Route::post(Class::Session, "/api/session/{sessionID}/wait", "v2.session.wait", wait)
            .summary("Wait until the session is idle")
            .faults(missing)
            .stores(),
        Route::post(Class::Session, "/api/session/{sessionID}/interrupt", "v2.session.interrupt", interrupt)
            .summary("Abort the running turn and wait until the session is idle")
            .faults(missing)
            .stores(),
        Route::post(
            Class::Session,
            "/api/session/{sessionID}/revert/stage",
            "v2.session.revert.stage",
            stage,
        )
        .summary("Revert a message and all later ones; fails while the session is busy")
        .faults(&[Fault::NotFound, Fault::Busy])
        .stores(),
        Route::post(
            Class::Session,
            "/api/session/{sessionID}/revert/clear",
            "v2.session.revert.clear",
            clear,
        )
        .summary("Undo a pending revert; fails while the session is busy")
        .faults(&[Fault::NotFound, Fault::Busy])
        .stores(),
        Route::post(
            Class::Session,
            "/api/session/{sessionID}/revert/commit",
            "v2.session.revert.commit",
            commit,
        )
        .summary("Make a pending revert final; fails while the session is busy")
        .faults(&[Fault::NotFound, Fault::Busy])
        .stores(),
    ]
}

/// Query of a session list.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListQuery {
    /// Maximum number of sessions, up to 200. Default: 50.
    limit: Option<f64>,
    /// Sort order. Default: newest first.
    #[serde(default)]
    order: Order,
    /// Returns only sessions whose title contains this text.
    search: Option<String>,
    /// Returns only sessions of this directory.
    directory: Option<String>,
    /// Returns only sessions of this project.
    project: Option<String>,
    /// Returns only sessions whose directory, relative to the worktree, is this path or below.
    subpath: Option<String>,
    /// Cursor from the previous or next page.
    cursor: Option<String>,
    /// Id of an experimental OpenCode workspace. Baton has none, so the list is empty.
    workspace: Option<String>,
}

/// A position in a session list.
#[derive(Debug, Serialize, Deserialize)]
struct Offset {
    offset: usize,
}

async fn list(
    State(app): State<App>,
    elsewhere: Option<Extension<Elsewhere>>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<v2::Session>>, Error> {
    let size = page_size(query.limit, PAGE, MAX_PAGE)?;
    let cursor = query.cursor.as_deref().map(read_cursor::<Offset>).transpose()?;
    let offset = cursor.map_or(0, |cursor| cursor.offset);
    if query.workspace.is_some() {
        return Ok(Json(Page { data: Vec::new(), cursor: Cursors::default() }));
    }
    let newest_first = query.order == Order::Desc;
    // One extra session tells whether there is another page. The oldest sessions can only be found by reading all.
    let limit = newest_first.then(|| offset.saturating_add(size).saturating_add(1));
    let mut sessions = app
        .sessions
        .list(Listing {
            project: query.project,
            workspace: query.directory.map(|directory| match elsewhere {
                Some(Extension(elsewhere)) => elsewhere.workspace,
                None => app.sessions.workspace(&directory),
            }),
            path: query.subpath,
            search: query.search,
            limit,
            ..Listing::default()
        })
        .await?;
    if !newest_first {
        sessions.reverse();
    }
    let at = |offset| write_cursor(&Offset { offset });
    let cursor = Cursors {
        previous: (offset > 0).then(|| at(offset.saturating_sub(size))),
        next: (sessions.len() > offset.saturating_add(size)).then(|| at(offset.saturating_add(size))),
    };
    let data = sessions.into_iter().skip(offset).take(size).map(v2::Session::from).collect();
    Ok(Json(Page { data, cursor }))
}

async fn create(
    State(app): State<App>,
    directory: Directory,
    Offered(offered): Offered<SessionId>,
    OptionalBody(input): OptionalBody<v2::SessionInput>,
) -> Result<Json<Data<v2::Session>>, Error> {
    let v2::SessionInput { id, agent, model, location, .. } = input;
    let id = id.or(offered);
    let (directory, workspace_id) = match location {
        Some(location) => (Directory::named(location.directory, &app).await?.path, location.workspace_id),
        None => (directory.path, None),
    };
    let home = app.projects.find(&directory).await.home();
    let model = model.map(Into::into);
    let input = SessionInput { id, agent, model, workspace_id, ..SessionInput::default() };
    let session = app.sessions.create(home, input).await?;
    Ok(Json(Data { data: session.into() }))
}

#[expect(clippy::zero_sized_map_values, reason = "the wire format has a value for each key")]
async fn active(State(app): State<App>) -> Result<Json<Data<BTreeMap<String, Active>>>, Error> {
    let busy = app.sessions.statuses(None).await?;
    Ok(Json(Data { data: busy.into_keys().map(|id| (id.to_string(), Active::Running)).collect() }))
}

async fn get(
    State(app): State<App>,
    Params(id): Params<SessionId>,
) -> Result<Json<Data<v2::Session>>, Error> {
    Ok(Json(Data { data: app.sessions.get(&id).await?.into() }))
}

/// Body that selects an agent for the next prompts.
#[derive(Debug, Deserialize, JsonSchema)]
struct AgentChoice {
    agent: String,
}

async fn switch_agent(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(choice): Body<AgentChoice>,
) -> Result<Done, Error> {
    let patch = SessionPatch { agent: Some(choice.agent), ..SessionPatch::default() };
    app.sessions.update(&id, patch).await?;
    Ok(Done)
}

/// Body that selects a model for the next prompts.
#[derive(Debug, Deserialize, JsonSchema)]
struct ModelChoice {
    model: v2::Model,
}

async fn switch_model(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(choice): Body<ModelChoice>,
) -> Result<Done, Error> {
    let patch = SessionPatch { model: Some(choice.model.into()), ..SessionPatch::default() };
    app.sessions.update(&id, patch).await?;
    Ok(Done)
}

async fn compact(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Done, Error> {
    app.sessions.submit(&id, PromptInput::compaction(false)).await?;
    Ok(Done)
}

async fn wait(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Done, Error> {
    app.sessions.wait(&id).await?;
    Ok(Done)
}

async fn interrupt(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Done, Error> {
    app.sessions.get(&id).await?;
    app.sessions.abort(&id).await?;
    Ok(Done)
}

/// Body of a revert.
#[derive(Debug, Deserialize, JsonSchema)]
struct StageInput {
    #[serde(rename = "messageID")]
    message_id: MessageId,
    /// True to restore files, too, which is the only supported value.
    #[serde(default)]
    files: Option<bool>,
}

async fn stage(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Body(input): Body<StageInput>,
) -> Result<Json<Data<v2::Revert>>, Error> {
    if input.files == Some(false) {
        let message = "files: reverting messages without their files is not supported";
        return Err(Error::bad_request(BadRequestKind::Payload, message));
    }
    let session = app.sessions.revert(&id, input.message_id, None).await?;
    let staged = session.revert.map(v2::Revert::from);
    let staged = staged.ok_or_else(|| Error::broken(&"the reverted session has no revert mark"))?;
    Ok(Json(Data { data: staged }))
}

async fn clear(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Done, Error> {
    app.sessions.unrevert(&id).await?;
    Ok(Done)
}

async fn commit(State(app): State<App>, Params(id): Params<SessionId>) -> Result<Done, Error> {
    app.sessions.settle_revert(&id).await?;
    Ok(Done)
}
