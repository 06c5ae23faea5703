//! Contents of a directory: paths, version control, agents, commands and skills.

use axum::{Json, extract::State};
use protocol::{
    EventBody, Extra, Rest,
    agent::{Agent, Command},
    config::Skill,
    project::Paths,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    App,
    extract::Directory,
    instance::Here,
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Directory, "/path", "path.get", paths)
            .summary("Get the paths of a directory and of the server"),
        Route::get(Class::Directory, "/vcs", "vcs.get", vcs).summary("Get the git branch of a directory"),
        Route::get(Class::Directory, "/agent", "app.agents", agents).summary("List the agents"),
        Route::get(Class::Directory, "/command", "command.list", commands).summary("List the slash commands"),
        Route::get(Class::Directory, "/skill", "app.skills", skills).summary("List the skills"),
        Route::post(Class::Directory, "/instance/dispose", "instance.dispose", dispose)
            .summary("Reload the configuration of a directory; running turns continue"),
        Route::get(Class::Directory, "/lsp", "lsp.status", helpers)
            .summary("List the language servers; always empty"),
        Route::get(Class::Directory, "/formatter", "formatter.status", helpers)
            .summary("List the formatters; always empty"),
    ]
}

async fn paths(State(app): State<App>, directory: Directory) -> Json<Paths> {
    let place = app.projects.find(&directory.path).await;
    let facts = &app.facts;
    Json(Paths {
        home: facts.home.clone(),
        state: facts.state.clone(),
        config: facts.config_path.clone(),
        worktree: place.worktree,
        directory: place.directory,
        extra: Rest::NONE,
    })
}

/// Git branches of a directory.
#[derive(Debug, Serialize, JsonSchema)]
struct VcsInfo {
    /// The checked-out branch. Absent if none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// The repository's default branch. Absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_branch: Option<String>,
}

async fn vcs(State(app): State<App>, directory: Directory) -> Json<VcsInfo> {
    let (branch, default_branch) = match app.projects.find(&directory.path).await.repository {
        Some(repository) => futures::join!(repository.branch(), repository.default_branch()),
        None => (None, None),
    };
    Json(VcsInfo { branch, default_branch })
}

async fn agents(Here(instance): Here) -> Json<Vec<Agent>> {
    Json(instance.agents.clone())
}

async fn commands(Here(instance): Here) -> Json<Vec<Command>> {
    let mut commands = instance.commands.clone();
    let served = match &instance.mcp {
        Some(servers) => servers.commands().await,
        None => Vec::new(),
    };
    commands
        .extend(served.into_iter().filter(|it| instance.commands.iter().all(|ours| ours.name != it.name)));
    commands.sort_by(|one, other| one.name.cmp(&other.name));
    Json(commands)
}

async fn skills(Here(instance): Here) -> Json<Vec<Skill>> {
    Json(instance.skills.clone())
}

/// Unlike OpenCode's, this ends no turn and no stream. Clients reload their state all the same.
async fn dispose(State(app): State<App>, directory: Directory) -> Json<bool> {
    app.instances.forget(Some(&directory.path));
    announce(&app, directory).await;
    Json(true)
}

/// Publishes the event after which clients reload the state of a directory.
pub(super) async fn announce(app: &App, directory: Directory) {
    let place = app.projects.find(&directory.path).await;
    let place = app.sessions.place_in(place.directory, place.project);
    let body = Extra::from_iter([("directory".to_owned(), directory.path.into())]);
    app.sessions.publish(Some(&place), EventBody::ServerInstanceDisposed(body));
}

/// Always empty: OpenCode's clients ask for language servers and formatters at start and expect a list.
async fn helpers(_: Directory) -> Json<Vec<Extra>> {
    Json(Vec::new())
}
