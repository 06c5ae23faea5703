//! Changes in a git repository: status, diffs and applying a patch.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use protocol::wire_error::{NamedError, WireError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use workspace::git::{Base, Repository};

use super::file::Change;
use crate::{
    App, Error,
    error::Fault,
    extract::{Body, Directory, Query},
    openapi::{Class, Gives, Operation, Route},
};

/// Default number of unchanged lines around a change.
const USUAL_CONTEXT: u32 = 3;
/// Maximum number of unchanged lines around a change.
const MAX_CONTEXT: u32 = 100_000;
/// Content type of a diff.
const KIND: &str = "text/x-diff; charset=utf-8";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Directory, "/vcs/status", "vcs.status", status).summary("List the changed files"),
        Route::get(Class::Directory, "/vcs/diff", "vcs.diff", diff)
            .summary("List the changed files with their patches"),
        Route::get(Class::Directory, "/vcs/diff/raw", "vcs.diff.raw", raw)
            .summary("Get all changes as one patch"),
        Route::post(Class::Directory, "/vcs/apply", "vcs.apply", apply)
            .summary("Apply a patch to the worktree")
            .faults(&[Fault::NotApplied]),
    ]
}

/// A changed file.
#[derive(Debug, Serialize, JsonSchema)]
struct VcsFileStatus {
    /// Path relative to the root of the worktree.
    file: String,
    /// Number of added lines.
    additions: u64,
    /// Number of removed lines.
    deletions: u64,
    status: Change,
}

async fn status(State(app): State<App>, directory: Directory) -> Result<Json<Vec<VcsFileStatus>>, Error> {
    let Some(repository) = app.projects.find(&directory.path).await.repository else {
        return Ok(Json(Vec::new()));
    };
    let changes = repository.changes(Base::Head, &app.facts.closed).await?.into_iter();
    let file = |it: workspace::git::Changed| VcsFileStatus {
        file: it.path,
        additions: it.additions,
        deletions: it.deletions,
        status: it.status.into(),
    };
    Ok(Json(changes.map(file).collect()))
}

/// Query of a diff.
#[derive(Debug, Deserialize, JsonSchema)]
struct DiffQuery {
    /// `git` compares with the last commit, `branch` with the point where the branch left the default branch.
    mode: Mode,
    /// Number of unchanged lines around a change. Default: 3.
    context: Option<u32>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Git,
    Branch,
}

/// A changed file with its patch.
#[derive(Debug, Serialize, JsonSchema)]
struct VcsFileDiff {
    #[serde(flatten)]
    file: VcsFileStatus,
    /// Patch in git's format. Absent if it is too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
}

async fn diff(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<DiffQuery>,
) -> Result<Json<Vec<VcsFileDiff>>, Error> {
    let Some(repository) = app.projects.find(&directory.path).await.repository else {
        return Ok(Json(Vec::new()));
    };
    let base = match query.mode {
        Mode::Git => Base::Head,
        Mode::Branch => Base::Branch,
    };
    let context = query.context.unwrap_or(USUAL_CONTEXT).min(MAX_CONTEXT);
    let patches = repository.patches(base, context, &app.facts.closed).await?.into_iter();
    let diffs = patches.map(|(it, patch)| {
        let (additions, deletions, status) = (it.additions, it.deletions, it.status.into());
        VcsFileDiff { file: VcsFileStatus { file: it.path, additions, deletions, status }, patch }
    });
    Ok(Json(diffs.collect()))
}

/// A patch as plain text.
struct Patch(String);

impl IntoResponse for Patch {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, HeaderValue::from_static(KIND))], self.0).into_response()
    }
}

impl Gives for Patch {
    fn describe(operation: &mut Operation) {
        operation.gives_text(KIND);
    }
}

async fn raw(State(app): State<App>, directory: Directory) -> Result<Patch, Error> {
    let Some(repository) = app.projects.find(&directory.path).await.repository else {
        return Ok(Patch(String::new()));
    };
    let patches = repository.patches(Base::Head, USUAL_CONTEXT, &app.facts.closed).await?;
    Ok(Patch(patches.into_iter().filter_map(|(_, patch)| patch).collect()))
}

/// Body with a patch to apply.
#[derive(Debug, Deserialize, JsonSchema)]
struct ApplyInput {
    /// Patch in git's format.
    patch: String,
}

/// Answer to an applied patch.
#[derive(Debug, Serialize, JsonSchema)]
struct Applied {
    /// Always true; a patch that does not apply is an error.
    applied: bool,
}

async fn apply(
    State(app): State<App>,
    directory: Directory,
    Body(input): Body<ApplyInput>,
) -> Result<Json<Applied>, Error> {
    let Some(repository) = app.projects.find(&directory.path).await.repository else {
        let message = format!("{} is not in a git repository; applying a patch requires one", directory.path);
        return Err(refuse("non-git", &message));
    };
    match write(&repository, input.patch).await {
        Ok(()) => Ok(Json(Applied { applied: true })),
        Err(message) => Err(refuse("not-clean", &message)),
    }
}

/// Writes the patch to a file in git's own directory, so that it does not appear as a file of the project.
async fn write(repository: &Repository, patch: String) -> Result<(), String> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let file = repository.common.join(format!("baton-{}-{number}.patch", std::process::id()));
    tokio::fs::write(&file, patch)
        .await
        .map_err(|error| format!("cannot write the patch to a file: {error}"))?;
    let applied = repository.apply(&file).await.map_err(|error| error.to_string());
    if let Err(error) = tokio::fs::remove_file(&file).await {
        tracing::warn!(file = %file.display(), %error, "cannot remove the file of an applied patch");
    }
    applied
}

fn refuse(reason: &str, message: &str) -> Error {
    let data = json!({ "message": message, "reason": reason });
    Error::new(
        Fault::NotApplied,
        WireError::Named(NamedError::Other { name: Fault::NotApplied.name().into(), data }),
    )
}
