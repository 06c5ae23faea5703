//! Files of a directory: found, listed and shown. Paths that lead out of it, and the repository's own files, are
//! refused.

use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

use axum::{Json, extract::State};
use base64::{Engine, prelude::BASE64_STANDARD};
use protocol::{Extra, wire_error::BadRequestKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workspace::{
    diff::{self, Hunk},
    files::{self, Closed, Root},
    git::{Base, Repository, Status},
    search::{self, Kind, Scope, Wanted},
};

use crate::{
    App, Error,
    blocking::blocking,
    error::Fault,
    extract::{Directory, Query},
    openapi::Route,
};

/// How long a search may take; what was found by then is the answer. A person waits for it.
const DEADLINE: Duration = Duration::from_secs(10);
/// Names in an answer, unless the client says otherwise.
const USUAL_NAMES: usize = 10;
/// Names in an answer, whatever the client says.
const MAX_NAMES: usize = 200;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/find", "find.text", find_text).summary("Find lines with a regular expression"),
        Route::get("/find/file", "find.files", find_files).summary("Find files and directories by name"),
        Route::get("/find/symbol", "find.symbols", find_symbols).summary("Find symbols; there are none"),
        Route::get("/file", "file.list", list).summary("List a directory").faults(&[Fault::NotFound]),
        Route::get("/file/content", "file.read", read)
            .summary("Get a file, and how it differs from the last commit")
            .faults(&[Fault::NotFound]),
        Route::get("/file/status", "file.status", status).summary("List the files that git calls changed"),
    ]
}

/// What to look for.
#[derive(Debug, Deserialize, JsonSchema)]
struct TextQuery {
    /// A regular expression.
    pattern: String,
}

/// Text as ripgrep wraps it.
#[derive(Debug, Serialize, JsonSchema)]
struct Words {
    /// The text.
    text: String,
}

/// A line that fits.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundLine {
    /// The file, as seen from the directory.
    path: Words,
    /// The line, or of a long one the part around what fits.
    lines: Words,
    /// Counted from 1.
    line_number: u64,
    /// Where the line begins in the file, in bytes.
    absolute_offset: u64,
    /// What fits in it.
    submatches: Vec<FoundWords>,
}

/// A piece of a line that fits.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundWords {
    /// What it says.
    r#match: Words,
    /// Where it begins in the line, in bytes.
    start: usize,
    /// Where it ends.
    end: usize,
}

async fn find_text(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<TextQuery>,
) -> Result<Json<Vec<FoundLine>>, Error> {
    let scope = scope(&app, &directory.path)?;
    // Nobody waits for a search whose caller has left.
    let _leaving = scope.cancel.clone().drop_guard();
    let found = blocking(move || search::grep(&query.pattern, None, &scope)).await?;
    let lines = found.files.into_iter().flat_map(|file| {
        let path = shown(&directory.path, &file.path);
        file.lines.into_iter().map(move |line| found_line(&path, line))
    });
    Ok(Json(lines.collect()))
}

/// Where a call may search. The root of the file system is no project, and would keep the disk busy for long.
fn scope(app: &App, directory: &str) -> Result<Scope, Error> {
    if directory == "/" {
        let message = "the root of the file system is not searched: name a project's directory";
        return Err(Error::bad_request(BadRequestKind::Query, message));
    }
    let closed = app.facts.closed.clone();
    closed.check(Path::new(directory))?;
    Ok(Scope { deadline: DEADLINE, closed, ..Scope::new(directory) })
}

fn found_line(path: &str, line: search::Line) -> FoundLine {
    let piece = |span: &std::ops::Range<usize>| {
        let text = line.text.get(span.clone()).unwrap_or_default().to_owned();
        FoundWords { r#match: Words { text }, start: span.start, end: span.end }
    };
    FoundLine {
        path: Words { text: path.to_owned() },
        submatches: line.spans.iter().map(piece).collect(),
        lines: Words { text: line.text },
        line_number: line.number,
        absolute_offset: line.offset,
    }
}

fn shown(directory: &str, path: &Path) -> String {
    path.strip_prefix(directory).unwrap_or(path).to_string_lossy().into_owned()
}

/// Which names to look for.
#[derive(Debug, Deserialize, JsonSchema)]
struct NameQuery {
    /// Letters of the name, in their order.
    query: String,
    /// Whether directories are wanted too; they are if nothing is said.
    dirs: Option<bool>,
    /// Only of this kind.
    r#type: Option<NodeKind>,
    /// At most so many, up to 200; 10 if nothing is said.
    limit: Option<usize>,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum NodeKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

impl From<NodeKind> for Kind {
    fn from(kind: NodeKind) -> Self {
        match kind {
            NodeKind::File => Self::File,
            NodeKind::Directory => Self::Directory,
        }
    }
}

impl From<Kind> for NodeKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::File => Self::File,
            Kind::Directory => Self::Directory,
        }
    }
}

async fn find_files(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<NameQuery>,
) -> Result<Json<Vec<String>>, Error> {
    let files_only = (query.dirs == Some(false)).then_some(Kind::File);
    let kind = query.r#type.map(Kind::from).or(files_only);
    let found = names(&app, &directory.path, query.query, kind, query.limit).await?;
    Ok(Json(found.into_iter().map(|name| name.path).collect()))
}

/// What fits a query best, the best first.
pub(super) async fn names(
    app: &App,
    directory: &str,
    query: String,
    kind: Option<Kind>,
    limit: Option<usize>,
) -> Result<Vec<search::Name>, Error> {
    let wanted = Wanted { kind, limit: limit.unwrap_or(USUAL_NAMES).clamp(1, MAX_NAMES) };
    let scope = scope(app, directory)?;
    let _leaving = scope.cancel.clone().drop_guard();
    blocking(move || search::names(&query, wanted, &scope)).await
}

/// What to look for.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "there are no language servers to ask")]
struct SymbolQuery {
    /// A part of the symbol's name.
    query: String,
}

/// A symbol of a program.
#[derive(Debug, Serialize, JsonSchema)]
struct Symbol {
    /// Its name.
    name: String,
    /// What it is.
    kind: u32,
    /// Where it is.
    location: Extra,
}

async fn find_symbols(_: Directory, _: Query<SymbolQuery>) -> Json<Vec<Symbol>> {
    Json(Vec::new())
}

/// Which file or directory.
#[derive(Debug, Deserialize, JsonSchema)]
struct PathQuery {
    /// As seen from the directory of the call; empty for that directory.
    path: String,
}

/// Where a path of a call leads: inside the directory, not into the repository's own files, and not into a closed place.
pub(super) fn resolve(directory: &str, path: &str, closed: &Closed) -> Result<(Root, PathBuf), Error> {
    if path.contains('\0') {
        return Err(Error::bad_request(BadRequestKind::Query, "path: it contains a NUL"));
    }
    let root = Root::new(directory.as_ref())?.without(closed)?;
    let found = root.resolve(path)?;
    let inside = found.strip_prefix(root.top()).unwrap_or(&found);
    if inside.components().any(|piece| piece == Component::Normal(".git".as_ref())) {
        let message = format!("path: {path:?} is one of the repository's own files, which are not shown");
        return Err(Error::bad_request(BadRequestKind::Query, message));
    }
    Ok((root, found))
}

/// An entry of a directory.
#[derive(Debug, Serialize, JsonSchema)]
struct FileNode {
    /// Its name.
    name: String,
    /// Its path, as seen from the directory of the call.
    path: String,
    /// Its absolute path.
    absolute: String,
    /// What it is.
    r#type: NodeKind,
    /// Whether git ignores it.
    ignored: bool,
}

async fn list(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<PathQuery>,
) -> Result<Json<Vec<FileNode>>, Error> {
    let closed = app.facts.closed.clone();
    let nodes = blocking(move || {
        let (root, path) = resolve(&directory.path, &query.path, &closed)?;
        let node = |node: files::Node| {
            let absolute = path.join(&node.name);
            FileNode {
                path: shown(&directory.path, &absolute),
                absolute: absolute.to_string_lossy().into_owned(),
                name: node.name,
                r#type: node.kind.into(),
                ignored: node.ignored,
            }
        };
        Ok::<_, Error>(files::nodes(&root, &path)?.into_iter().map(node).collect())
    });
    Ok(Json(nodes.await?))
}

/// A file.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FileContent {
    /// Text or not.
    r#type: ContentKind,
    /// The text, or the bytes in base64.
    content: String,
    /// How it differs from the last commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// The same, taken apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<FilePatch>,
    /// How the content is written, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<Encoding>,
    /// What it is, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ContentKind {
    #[default]
    Text,
    Binary,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Base64,
}

/// How a file differs from the last commit.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FilePatch {
    /// The file at the last commit.
    old_file_name: String,
    /// The file now.
    new_file_name: String,
    /// Where they differ.
    hunks: Vec<PatchHunk>,
}

/// A place where a file differs, with the lines around it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PatchHunk {
    /// First line at the last commit, counted from 1.
    old_start: usize,
    /// How many lines of it.
    old_lines: usize,
    /// First line now.
    new_start: usize,
    /// How many lines of it.
    new_lines: usize,
    /// The lines, each with its sign in front.
    lines: Vec<String>,
}

impl From<Hunk> for PatchHunk {
    fn from(hunk: Hunk) -> Self {
        let Hunk { old_start, old_lines, new_start, new_lines, lines } = hunk;
        Self { old_start, old_lines, new_start, new_lines, lines }
    }
}

async fn read(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<PathQuery>,
) -> Result<Json<FileContent>, Error> {
    let (place, shown, closed) = (directory.path.clone(), query.path.clone(), app.facts.closed.clone());
    let (path, content) = blocking(move || {
        let (_, path) = resolve(&place, &query.path, &closed)?;
        let bytes = files::load(&path)?;
        Ok::<_, Error>((path.clone(), content(path, &bytes)?))
    })
    .await?;
    let repository = app.projects.find(&directory.path).await.repository;
    match (content.r#type, repository) {
        (ContentKind::Text, Some(repository)) => Ok(Json(compare(&repository, &path, shown, content).await)),
        _ => Ok(Json(content)),
    }
}

fn content(path: PathBuf, bytes: &[u8]) -> Result<FileContent, Error> {
    if !files::is_binary(bytes) {
        let content = String::from_utf8_lossy(bytes).into_owned();
        return Ok(FileContent { content, ..FileContent::default() });
    }
    let mime = files::mime(bytes).unwrap_or("application/octet-stream");
    let size = bytes.len() as u64;
    if size > files::MAX_MEDIA {
        return Err(files::Error::MediaTooLarge { path, mime, size }.into());
    }
    Ok(FileContent {
        r#type: ContentKind::Binary,
        content: BASE64_STANDARD.encode(bytes),
        encoding: Some(Encoding::Base64),
        mime_type: Some(mime.to_owned()),
        ..FileContent::default()
    })
}

async fn compare(repository: &Repository, path: &Path, shown: String, content: FileContent) -> FileContent {
    let Some(before) = repository.committed(path).await.filter(|before| *before != content.content) else {
        return content;
    };
    let diff = diff::unified(&shown, &before, &content.content).patch;
    let hunks = diff::hunks(&before, &content.content).into_iter().map(PatchHunk::from).collect();
    let patch = FilePatch { old_file_name: shown.clone(), new_file_name: shown, hunks };
    FileContent { diff: Some(diff), patch: Some(patch), ..content }
}

/// A file that changed since the last commit.
#[derive(Debug, Serialize, JsonSchema)]
struct ChangedFile {
    /// As seen from the top of the worktree.
    path: String,
    /// Lines added.
    added: u64,
    /// Lines removed.
    removed: u64,
    /// What happened to it.
    status: Change,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Change {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// It is another one.
    Modified,
}

impl From<Status> for Change {
    fn from(status: Status) -> Self {
        match status {
            Status::Added => Self::Added,
            Status::Deleted => Self::Deleted,
            Status::Modified => Self::Modified,
        }
    }
}

async fn status(State(app): State<App>, directory: Directory) -> Result<Json<Vec<ChangedFile>>, Error> {
    let Some(repository) = app.projects.find(&directory.path).await.repository else {
        return Ok(Json(Vec::new()));
    };
    let file = |it: workspace::git::Changed| ChangedFile {
        path: it.path,
        added: it.additions,
        removed: it.deletions,
        status: it.status.into(),
    };
    Ok(Json(repository.changes(Base::Head, &app.facts.closed).await?.into_iter().map(file).collect()))
}
