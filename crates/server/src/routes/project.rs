//! Projects: the worktrees that sessions belong to. The server derives them from the sessions and stores only the
//! user's settings.

use std::collections::{BTreeMap, BTreeSet};

use axum::{Json, extract::State};
use engine::ports::{Clock, Listing, SystemClock};
use protocol::{
    EventBody, Extra, Rest, Session,
    project::{Project, ProjectNote, ProjectTime},
    wire_error::{BadRequestKind, TaggedError, WireError},
};
use schemars::JsonSchema;
use serde::Serialize;
use workspace::git::Repository;

use crate::{
    App, Error,
    blocking::blocking,
    error::Fault,
    extract::{Body, Directory, Params},
    openapi::{Class, Route},
    project::{ResolvedDirectory, worktree_of, worktrees},
};

/// Maximum number of sessions to derive projects from, the most recently used first.
const MAX_SESSIONS: usize = 10_000;
/// The root of the file system.
const GROUND: &str = "/";
/// The directory under which OpenCode publishes events that concern no directory.
const EVERYWHERE: &str = "global";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Record, "/project", "project.list", list)
            .summary("List the projects that have sessions"),
        Route::get(Class::Directory, "/project/current", "project.current", current)
            .summary("Get the project of a directory"),
        Route::post(Class::Directory, "/project/git/init", "project.initGit", init_git)
            .summary("Create a git repository in a directory"),
        Route::patch(Class::Record, "/project/{projectID}", "project.update", update)
            .summary("Change the name, icon or start command of a project")
            .faults(&[Fault::ProjectGone])
            .stores(),
        Route::get(Class::Record, "/project/{projectID}/directories", "project.directories", directories)
            .summary("List the directories of a project"),
    ]
}

async fn list(State(app): State<App>, directory: Directory) -> Result<Json<Vec<Project>>, Error> {
    let projects = all(&app, &directory).await?;
    let mut projects: Vec<_> = projects.into_values().collect();
    projects.sort_by_key(|project| std::cmp::Reverse(project.time.updated));
    let located = blocking(move || {
        projects.iter_mut().for_each(locate);
        Ok::<_, Error>(projects)
    });
    Ok(Json(located.await?))
}

/// Returns all projects that have sessions, and the project of the directory.
async fn all(app: &App, directory: &Directory) -> Result<BTreeMap<String, Project>, Error> {
    let sessions = app.sessions.list(Listing { limit: Some(MAX_SESSIONS), ..Listing::default() }).await?;
    let mut projects = BTreeMap::new();
    for session in &sessions {
        let project = projects.entry(session.project_id.clone()).or_insert_with(|| of_session(session));
        project.time.created = project.time.created.min(session.time.created);
        project.time.updated = project.time.updated.max(session.time.updated);
    }
    let here = app.projects.find(&directory.path).await;
    projects.entry(here.project.clone()).or_insert_with(|| of_place(&here));
    for (id, note) in app.sessions.notes().await? {
        if let Some(project) = projects.get_mut(&id) {
            apply(note, project);
        }
    }
    Ok(projects)
}

async fn current(State(app): State<App>, directory: Directory) -> Result<Json<Project>, Error> {
    let place = app.projects.find(&directory.path).await;
    Ok(Json(describe(&app, &place).await?))
}

async fn describe(app: &App, place: &ResolvedDirectory) -> Result<Project, Error> {
    let sessions = app.sessions.list(of_project(&place.project)).await?;
    let mut project = of_place(place);
    if let Some(created) = sessions.iter().map(|session| session.time.created).min() {
        project.time.created = created;
    }
    if let Some(updated) = sessions.iter().map(|session| session.time.updated).max() {
        project.time.updated = updated;
    }
    if let Some(note) = app.sessions.notes().await?.remove(&place.project) {
        apply(note, &mut project);
    }
    located(project).await
}

async fn located(mut project: Project) -> Result<Project, Error> {
    blocking(move || {
        locate(&mut project);
        Ok::<_, Error>(project)
    })
    .await
}

/// Sets the main worktree of a repository: sessions may be in any of its worktrees.
fn locate(project: &mut Project) {
    if project.vcs.is_some() {
        (project.worktree, project.sandboxes) = worktrees(&project.worktree);
    }
}

/// Does nothing if the directory is already in a repository.
async fn init_git(State(app): State<App>, directory: Directory) -> Result<Json<Project>, Error> {
    if [GROUND, app.facts.home.as_str()].contains(&directory.path.as_str()) {
        // A mistake that would turn everything below into one project.
        let message =
            format!("{:?} must not become a git repository; name a project's directory", directory.path);
        return Err(Error::bad_request(BadRequestKind::Query, message));
    }
    if app.projects.find(&directory.path).await.repository.is_none() {
        let made = Repository::init(directory.path.as_ref()).await;
        made.map_err(|error| Error::bad_request(BadRequestKind::Query, error.to_string()))?;
        app.projects.forget(&directory.path);
    }
    let project = describe(&app, &app.projects.find(&directory.path).await).await?;
    announce(&app, &project);
    Ok(Json(project))
}

async fn update(
    State(app): State<App>,
    Params(id): Params<String>,
    directory: Directory,
    Body(note): Body<ProjectNote>,
) -> Result<Json<Project>, Error> {
    let Some(mut project) = all(&app, &directory).await?.remove(&id) else { return Err(gone(id)) };
    apply(app.sessions.note(&id, note).await?, &mut project);
    let project = located(project).await?;
    announce(&app, &project);
    Ok(Json(project))
}

/// A directory of a project.
#[derive(Debug, Serialize, JsonSchema)]
struct ProjectDirectory {
    /// Absolute path of the directory.
    directory: String,
}

/// Returns the directories of the project's sessions, and its worktrees if the call's directory belongs to it. An
/// unknown project has none.
async fn directories(
    State(app): State<App>,
    Params(id): Params<String>,
    directory: Directory,
) -> Result<Json<Vec<ProjectDirectory>>, Error> {
    let sessions = app.sessions.list(of_project(&id)).await?;
    let mut found: BTreeSet<String> = sessions.iter().map(top).collect();
    let here = app.projects.find(&directory.path).await;
    if here.project == id {
        match &here.repository {
            Some(repository) => {
                let worktrees = repository.worktrees().await.unwrap_or_default();
                found.extend(worktrees.into_iter().map(|it| it.path.to_string_lossy().into_owned()));
            }
            None => drop(found.insert(here.directory)),
        }
    }
    Ok(Json(found.into_iter().map(|directory| ProjectDirectory { directory }).collect()))
}

/// Returns the worktree of a session, or its directory outside of any repository, where the worktree would be `/`.
fn top(session: &Session) -> String {
    match worktree_of(&session.directory, session.path.as_deref().unwrap_or_default()) {
        top if top == GROUND => session.directory.clone(),
        top => top,
    }
}

fn announce(app: &App, project: &Project) {
    let place = app.sessions.place_in(EVERYWHERE, project.id.as_str());
    app.sessions.publish(Some(&place), EventBody::ProjectUpdated(project.clone()));
}

fn gone(project_id: String) -> Error {
    let message = format!("There is no project {project_id:?}. GET /project lists all.");
    let body = TaggedError::ProjectNotFound { project_id, message, extra: Rest::NONE };
    Error::new(Fault::ProjectGone, WireError::Tagged(body))
}

fn of_project(id: &str) -> Listing {
    Listing { project: Some(id.to_owned()), limit: Some(MAX_SESSIONS), ..Listing::default() }
}

fn of_session(session: &Session) -> Project {
    let worktree = worktree_of(&session.directory, session.path.as_deref().unwrap_or_default());
    let (created, updated) = (session.time.created, session.time.updated);
    project(&session.project_id, worktree, created, updated)
}

fn of_place(place: &ResolvedDirectory) -> Project {
    let now = SystemClock.now();
    let vcs = place.repository.is_some().then(|| "git".to_owned());
    Project { vcs, ..project(&place.project, place.worktree.clone(), now, now) }
}

fn project(id: &str, worktree: String, created: i64, updated: i64) -> Project {
    Project {
        id: id.into(),
        // Outside of any repository the worktree is `/`.
        vcs: (worktree != GROUND).then(|| "git".to_owned()),
        worktree,
        name: None,
        icon: None,
        commands: None,
        time: ProjectTime { created, updated, initialized: None, extra: Extra::new() },
        sandboxes: Vec::new(),
        extra: Extra::new(),
    }
}

fn apply(note: ProjectNote, project: &mut Project) {
    (project.name, project.icon, project.commands) = (note.name, note.icon, note.commands);
}
