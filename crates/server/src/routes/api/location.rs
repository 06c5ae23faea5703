//! The place a call is about, and answers that name it.

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{App, extract::Directory, openapi::Route};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/api/location", "v2.location.get", location).summary("Get the place a call is about")]
}

/// The place a call is about.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LocationInfo {
    /// The directory.
    directory: String,
    /// Its project.
    project: LocationProject,
}

/// The project of a place.
#[derive(Debug, Serialize, JsonSchema)]
struct LocationProject {
    /// Its id.
    id: String,
    /// The top of its worktree.
    directory: String,
}

/// What there is, and where.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Located{T}")]
pub(super) struct Located<T> {
    /// The place the call was about.
    pub(super) location: LocationInfo,
    /// What there is.
    pub(super) data: T,
}

pub(super) async fn locate(app: &App, directory: &Directory) -> LocationInfo {
    let place = app.projects.find(&directory.path).await;
    let project = LocationProject { id: place.project, directory: place.worktree };
    LocationInfo { directory: place.directory, project }
}

/// An answer about a place.
pub(super) async fn located<T>(app: &App, directory: &Directory, data: T) -> Json<Located<T>> {
    Json(Located { location: locate(app, directory).await, data })
}

async fn location(State(app): State<App>, directory: Directory) -> Json<LocationInfo> {
    Json(locate(&app, &directory).await)
}
