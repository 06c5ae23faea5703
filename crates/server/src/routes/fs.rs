//! Files and places in the newer form of OpenCode's interface, as its terminal interface asks for them.

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workspace::{files, search::Kind};

use super::file::{NodeKind, names, resolve};
use crate::{
    App, Error,
    blocking::blocking,
    error::Fault,
    extract::{Directory, Query},
    openapi::Route,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/location", "v2.location.get", location).summary("Get the place a call is about"),
        Route::get("/api/fs/list", "v2.fs.list", list).summary("List a directory").faults(&[Fault::NotFound]),
        Route::get("/api/fs/find", "v2.fs.find", find).summary("Find files and directories by name"),
    ]
}

/// The place a call is about.
#[derive(Debug, Serialize, JsonSchema)]
struct LocationInfo {
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

async fn locate(app: &App, directory: &Directory) -> LocationInfo {
    let place = app.projects.find(&directory.path).await;
    let project = LocationProject { id: place.project, directory: place.worktree };
    LocationInfo { directory: place.directory, project }
}

async fn location(State(app): State<App>, directory: Directory) -> Json<LocationInfo> {
    Json(locate(&app, &directory).await)
}

/// Entries, and where they are.
#[derive(Debug, Serialize, JsonSchema)]
struct Entries {
    /// The place the call was about.
    location: LocationInfo,
    /// What there is.
    data: Vec<FileSystemEntry>,
}

/// A file or a directory.
#[derive(Debug, Serialize, JsonSchema)]
struct FileSystemEntry {
    /// As seen from the directory of the call; a directory that was found ends with a slash.
    path: String,
    /// What it is.
    r#type: NodeKind,
}

/// Which directory.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListQuery {
    /// As seen from the directory of the call; that directory if nothing is said.
    path: Option<String>,
}

async fn list(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<ListQuery>,
) -> Result<Json<Entries>, Error> {
    let location = locate(&app, &directory).await;
    let data = blocking(move || {
        let (root, path) = resolve(&directory.path, query.path.as_deref().unwrap_or_default())?;
        let entry = |node: files::Node| {
            let path = path.join(&node.name);
            let path = path.strip_prefix(root.directory()).unwrap_or(&path);
            FileSystemEntry { path: path.to_string_lossy().into_owned(), r#type: node.kind.into() }
        };
        Ok::<_, Error>(files::nodes(&root, &path)?.into_iter().map(entry).collect())
    });
    Ok(Json(Entries { location, data: data.await? }))
}

/// Which names to look for.
#[derive(Debug, Deserialize, JsonSchema)]
struct FindQuery {
    /// Letters of the name, in their order.
    query: String,
    /// Only of this kind.
    r#type: Option<NodeKind>,
    /// At most so many, up to 200; 10 if nothing is said.
    limit: Option<usize>,
}

async fn find(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<FindQuery>,
) -> Result<Json<Entries>, Error> {
    let location = locate(&app, &directory).await;
    let found = names(&directory.path, query.query, query.r#type.map(Kind::from), query.limit).await?;
    let entry = |name: workspace::search::Name| FileSystemEntry { path: name.path, r#type: name.kind.into() };
    Ok(Json(Entries { location, data: found.into_iter().map(entry).collect() }))
}
