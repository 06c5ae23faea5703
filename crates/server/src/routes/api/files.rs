//! Files of a directory, as OpenCode's terminal interface asks for them.

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
    openapi::{Gives, Operation, Route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/fs/list", "v2.fs.list", list).summary("List a directory").faults(&[Fault::NotFound]),
        Route::get("/api/fs/find", "v2.fs.find", find).summary("Find files and directories by name"),
        Route::get("/api/fs/read/*", "v2.fs.read", read)
            .summary("Get the bytes of a file")
            .faults(&[Fault::NotFound]),
    ]
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
) -> Result<Json<Located<Vec<FileSystemEntry>>>, Error> {
    let location = locate(&app, &directory).await;
    let found = names(&app, &directory.path, query.query, query.r#type.map(Kind::from), query.limit).await?;
    let entry = |name: workspace::search::Name| FileSystemEntry { path: name.path, r#type: name.kind.into() };
    Ok(Json(Located { location, data: found.into_iter().map(entry).collect() }))
}

/// The bytes of a file, whatever it is.
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

/// Never what the file claims to be: a page among a project's files must not run in a browser as the server's own.
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
