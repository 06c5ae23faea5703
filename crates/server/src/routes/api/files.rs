//! Files of a directory, for OpenCode's terminal UI.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::header;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workspace::{files, search::Kind};

use super::{
    super::file::{NodeKind, names, resolve},
    location::{Located, locate},
};
use crate::{
    App, Error,
    blocking::blocking,
    error::Fault,
    extract::{Directory, Params, Query, Tail},
    openapi::{Class, Gives, Operation, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Directory, "/api/fs/list", "v2.fs.list", list)
            .summary("List a directory")
            .faults(&[Fault::NotFound]),
        Route::get(Class::Directory, "/api/fs/find", "v2.fs.find", find)
            .summary("Find files and directories by name"),
        Route::get(Class::Directory, "/api/fs/read/*", "v2.fs.read", read)
            .summary("Read a file as bytes")
            .faults(&[Fault::NotFound]),
    ]
}

/// A file or directory.
#[derive(Debug, Serialize, JsonSchema)]
struct FileSystemEntry {
    /// Path relative to the directory of the call. A directory found by name ends with a slash.
    path: String,
    r#type: NodeKind,
}

/// Query of a directory listing.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListQuery {
    /// Path relative to the directory of the call. Default: that directory.
    path: Option<String>,
}

async fn list(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<ListQuery>,
) -> Result<Json<Located<Vec<FileSystemEntry>>>, Error> {
    let location = locate(&app, &directory).await;
    let closed = app.facts.closed.clone();
    let data = blocking(move || {
        let (root, path) = resolve(&directory.path, query.path.as_deref().unwrap_or_default(), &closed)?;
        let entry = |node: files::Node| {
            let path = path.join(&node.name);
            let path = path.strip_prefix(root.directory()).unwrap_or(&path);
            FileSystemEntry { path: path.to_string_lossy().into_owned(), r#type: node.kind.into() }
        };
        Ok::<_, Error>(files::nodes(&root, &path)?.into_iter().map(entry).collect())
    });
    Ok(Json(Located { location, data: data.await? }))
}

/// Query of a search by name.
#[derive(Debug, Deserialize, JsonSchema)]
struct FindQuery {
    /// Letters that the name contains in this order.
    query: String,
    /// Restricts the results to files or directories.
    r#type: Option<NodeKind>,
    /// Maximum number of results, up to 200. Default: 10.
    limit: Option<usize>,
}

async fn find(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<FindQuery>,
) -> Result<Json<Located<Vec<FileSystemEntry>>>, Error> {
    let location = locate(&app, &directory).await;
    let found = names(&app, &directory.path, query.query, query.r#type.map(Kind::from), query.limit).await?;
    let entry = |name: workspace::search::Name| FileSystemEntry { path: name.path, r#type: name.kind.into() };
    Ok(Json(Located { location, data: found.into_iter().map(entry).collect() }))
}

/// The bytes of a file.
#[derive(Debug)]
struct Contents(Vec<u8>);

impl IntoResponse for Contents {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, BYTES), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")], self.0).into_response()
    }
}

impl Gives for Contents {
    fn describe(operation: &mut Operation) {
        operation.gives_text(BYTES);
    }
}

/// Always sent as plain bytes: a browser must not run an HTML file of a project with the server's origin.
const BYTES: &str = "application/octet-stream";

async fn read(
    State(app): State<App>,
    directory: Directory,
    Params(Tail(path)): Params<Tail>,
) -> Result<Contents, Error> {
    let closed = app.facts.closed.clone();
    let bytes = blocking(move || {
        let (_, path) = resolve(&directory.path, &path, &closed)?;
        Ok::<_, Error>(files::load(&path)?)
    });
    Ok(Contents(bytes.await?))
}
