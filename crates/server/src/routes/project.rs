//! Projects: the worktrees that sessions belong to. Nothing about them is stored; they follow from the
//! sessions there are.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use engine::ports::{Clock, Listing, SystemClock};
use protocol::{
    Extra, Session,
    project::{Project, ProjectTime},
};

use crate::{
    App, Error,
    extract::Directory,
    openapi::Route,
    project::{Place, worktree_of},
};

/// Sessions to look through for projects, the most recently used first.
const MAX_SESSIONS: usize = 10_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/project", "project.list", list).summary("List the projects that have sessions"),
        Route::get("/project/current", "project.current", current).summary("Get the project of a directory"),
    ]
}

async fn list(State(app): State<App>, directory: Directory) -> Result<Json<Vec<Project>>, Error> {
    let sessions = app.sessions.list(Listing { limit: Some(MAX_SESSIONS), ..Listing::default() }).await?;
    let mut projects = BTreeMap::new();
    for session in &sessions {
        let project = projects.entry(session.project_id.clone()).or_insert_with(|| of_session(session));
        project.time.created = project.time.created.min(session.time.created);
        project.time.updated = project.time.updated.max(session.time.updated);
    }
    let here = app.projects.find(&directory.path).await;
    projects.entry(here.project.clone()).or_insert_with(|| of_place(&here));
    let mut projects: Vec<_> = projects.into_values().collect();
    projects.sort_by_key(|project| std::cmp::Reverse(project.time.updated));
    Ok(Json(projects))
}

async fn current(State(app): State<App>, directory: Directory) -> Result<Json<Project>, Error> {
    let place = app.projects.find(&directory.path).await;
    let listing =
        Listing { project: Some(place.project.clone()), limit: Some(MAX_SESSIONS), ..Listing::default() };
    let sessions = app.sessions.list(listing).await?;
    let mut project = of_place(&place);
    if let Some(created) = sessions.iter().map(|session| session.time.created).min() {
        project.time.created = created;
    }
    if let Some(updated) = sessions.iter().map(|session| session.time.updated).max() {
        project.time.updated = updated;
    }
    Ok(Json(project))
}

fn of_session(session: &Session) -> Project {
    let worktree = worktree_of(&session.directory, session.path.as_deref().unwrap_or_default());
    let (created, updated) = (session.time.created, session.time.updated);
    project(&session.project_id, worktree, created, updated)
}

fn of_place(place: &Place) -> Project {
    let now = SystemClock.now();
    let vcs = place.repository.is_some().then(|| "git".to_owned());
    Project { vcs, ..project(&place.project, place.worktree.clone(), now, now) }
}

fn project(id: &str, worktree: String, created: i64, updated: i64) -> Project {
    // Outside any repository the worktree is the root of the file system.
    let vcs = (worktree != "/").then(|| "git".to_owned());
    let time = ProjectTime { created, updated, initialized: None, extra: Extra::new() };
    Project { id: id.into(), worktree, vcs, name: None, time, sandboxes: Vec::new(), extra: Extra::new() }
}
