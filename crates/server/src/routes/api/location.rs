//! The directory of a call, and answers that name it.

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    App,
    extract::Directory,
    openapi::{Class, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Directory, "/api/location", "v2.location.get", location)
            .summary("Get the directory and project of a call"),
    ]
}

/// Directory and project of a call.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LocationInfo {
    /// Absolute path of the directory.
    directory: String,
    project: LocationProject,
}

/// Project of a directory.
#[derive(Debug, Serialize, JsonSchema)]
struct LocationProject {
    id: String,
    /// Root of the worktree.
    directory: String,
}

/// An answer with the directory it applies to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Located{T}")]
pub(super) struct Located<T> {
    /// Directory and project of the call.
    pub(super) location: LocationInfo,
    pub(super) data: T,
}

pub(super) async fn locate(app: &App, directory: &Directory) -> LocationInfo {
    let place = app.projects.find(&directory.path).await;
    let project = LocationProject { id: place.project, directory: place.worktree };
    LocationInfo { directory: place.directory, project }
}

/// Wraps an answer with the directory of the call.
pub(super) async fn located<T>(app: &App, directory: &Directory, data: T) -> Json<Located<T>> {
    Json(Located { location: locate(app, directory).await, data })
}

async fn location(State(app): State<App>, directory: Directory) -> Json<LocationInfo> {
    Json(locate(&app, &directory).await)
}
