//! Search, listing and reading of files in a directory. Paths outside of the directory and the files of `.git` are
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
    search::{self, Kind, SearchScope, Wanted},
};

use crate::{
    App, Error,
    blocking::blocking,
    error::Fault,
    extract::{Directory, Query},
    openapi::{Class, Route},
};

/// Timeout of a search. The answer contains the results up to then.
const DEADLINE: Duration = Duration::from_secs(10);
/// Default number of names per answer.
const USUAL_NAMES: usize = 10;
/// Maximum number of names per answer.
const MAX_NAMES: usize = 200;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Directory, "/find", "find.text", find_text)
            .summary("Find lines that match a regular expression"),
        Route::get(Class::Directory, "/find/file", "find.files", find_files)
            .summary("Find files and directories by name"),
        Route::get(Class::Directory, "/find/symbol", "find.symbols", find_symbols)
            .summary("Find symbols; always empty"),
        Route::get(Class::Directory, "/file", "file.list", list)
            .summary("List a directory")
            .faults(&[Fault::NotFound]),
        Route::get(Class::Directory, "/file/content", "file.read", read)
            .summary("Read a file and its diff to the last commit")
            .faults(&[Fault::NotFound]),
        Route::get(Class::Directory, "/file/status", "file.status", status)
            .summary("List the files that differ from the last commit"),
    ]
}

/// Query of a text search.
#[derive(Debug, Deserialize, JsonSchema)]
struct TextQuery {
    pattern: String,
}

/// Text in the form of ripgrep's JSON output.
#[derive(Debug, Serialize, JsonSchema)]
struct Words {
    text: String,
}

/// A matching line.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundLine {
    /// Path relative to the directory.
    path: Words,
    /// The line. A long line is cut to the part around the match.
    lines: Words,
    /// Line number, starting at 1.
    line_number: u64,
    /// Byte offset of the line in the file.
    absolute_offset: u64,
    submatches: Vec<FoundWords>,
}

/// A match within a line.
#[derive(Debug, Serialize, JsonSchema)]
struct FoundWords {
    /// The matching text.
    r#match: Words,
    /// Byte offset of the match in the line.
    start: usize,
    /// Byte offset of the end of the match in the line.
    end: usize,
}

async fn find_text(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<TextQuery>,
) -> Result<Json<Vec<FoundLine>>, Error> {
    let scope = scope(&app, &directory.path)?;
    // Cancels the search when the caller disconnects.
    let _leaving = scope.cancel.clone().drop_guard();
    let found = blocking(move || search::grep(&query.pattern, None, &scope)).await?;
    let lines = found.files.into_iter().flat_map(|file| {
        let path = shown(&directory.path, &file.path);
        file.lines.into_iter().map(move |line| found_line(&path, line))
    });
    Ok(Json(lines.collect()))
}

/// Returns the scope of a search. The root of the file system is refused: it is no project, and a search would keep
/// the disk busy for long.
fn scope(app: &App, directory: &str) -> Result<SearchScope, Error> {
    if directory == "/" {
        let message = "the root of the file system cannot be searched; name a project's directory";
        return Err(Error::bad_request(BadRequestKind::Query, message));
    }
    let closed = app.facts.closed.clone();
    closed.check(Path::new(directory))?;
    Ok(SearchScope { deadline: DEADLINE, closed, ..SearchScope::new(directory) })
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

/// Query of a search by name.
#[derive(Debug, Deserialize, JsonSchema)]
struct NameQuery {
    /// Letters that the name contains in this order.
    query: String,
    /// False to find files only. Default: true.
    dirs: Option<bool>,
    /// Restricts the results to files or directories.
    r#type: Option<NodeKind>,
    /// Maximum number of results, up to 200. Default: 10.
    limit: Option<usize>,
}

/// Kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum NodeKind {
    File,
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

/// Returns the names that match a query, best match first.
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

/// Query of a symbol search.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "symbols need language servers, which Baton does not run")]
struct SymbolQuery {
    /// Part of the symbol's name.
    query: String,
}

/// A symbol in source code.
#[derive(Debug, Serialize, JsonSchema)]
struct Symbol {
    name: String,
    /// Kind, as in the language server protocol.
    kind: u32,
    location: Extra,
}

async fn find_symbols(_: Directory, _: Query<SymbolQuery>) -> Json<Vec<Symbol>> {
    Json(Vec::new())
}

/// Query that names a file or directory.
#[derive(Debug, Deserialize, JsonSchema)]
struct PathQuery {
    /// Path relative to the directory of the call. Empty for that directory.
    path: String,
}

/// Resolves a path of a call. Refuses paths outside of the directory, in `.git` and in closed places.
pub(super) fn resolve(directory: &str, path: &str, closed: &Closed) -> Result<(Root, PathBuf), Error> {
    if path.contains('\0') {
        return Err(Error::bad_request(BadRequestKind::Query, "path: must not contain a NUL character"));
    }
    let root = Root::new(directory.as_ref())?.without(closed)?;
    let found = root.resolve(path)?;
    let inside = found.strip_prefix(root.top()).unwrap_or(&found);
    if inside.components().any(|piece| piece == Component::Normal(".git".as_ref())) {
        let message = format!("path: {path:?} is in the `.git` directory, which cannot be read");
        return Err(Error::bad_request(BadRequestKind::Query, message));
    }
    Ok((root, found))
}

/// A directory entry.
#[derive(Debug, Serialize, JsonSchema)]
struct FileNode {
    name: String,
    /// Path relative to the directory of the call.
    path: String,
    absolute: String,
    r#type: NodeKind,
    /// True if git ignores the entry.
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

/// Content of a file.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FileContent {
    r#type: ContentKind,
    /// The text, or the bytes in base64.
    content: String,
    /// Unified diff to the last commit. Absent if the file is unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// The same diff as hunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<FilePatch>,
    /// Encoding of `content`. Absent for text.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<Encoding>,
    /// Media type. Absent for text.
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

/// Difference of a file to the last commit.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FilePatch {
    /// Path at the last commit.
    old_file_name: String,
    /// Current path.
    new_file_name: String,
    hunks: Vec<PatchHunk>,
}

/// A changed section with the lines around it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PatchHunk {
    /// First line at the last commit, starting at 1.
    old_start: usize,
    /// Number of lines at the last commit.
    old_lines: usize,
    /// First line now, starting at 1.
    new_start: usize,
    /// Number of lines now.
    new_lines: usize,
    /// Lines, each with its sign as the first character.
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

/// A file that differs from the last commit.
#[derive(Debug, Serialize, JsonSchema)]
struct ChangedFile {
    /// Path relative to the root of the worktree.
    path: String,
    /// Number of added lines.
    added: u64,
    /// Number of removed lines.
    removed: u64,
    status: Change,
}

/// Kind of a file's change.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Change {
    Added,
    Deleted,
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
