//! Sessions of all projects, for searches across directories.

use std::collections::BTreeMap;

use axum::extract::State;
use engine::ports::Listing;
use protocol::{Millis, Session, project::ProjectNote};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page::Page;
use crate::{
    App, Error,
    blocking::blocking,
    extract::{Directory, Query},
    openapi::{Class, Route},
    project::{worktree_of, worktrees},
};

/// Default number of sessions per page.
const USUAL_SESSIONS: usize = 100;
/// Maximum number of sessions per page.
const MAX_SESSIONS: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Record, "/experimental/session", "experimental.session.list", list)
            .summary("List the sessions of all projects, most recently updated first"),
    ]
}

/// Query of a session list across projects.
#[derive(Debug, Deserialize, JsonSchema)]
struct GlobalQuery {
    /// True to leave out child sessions.
    roots: Option<bool>,
    /// Returns only sessions updated at or after this time, in milliseconds since the Unix epoch.
    start: Option<i64>,
    /// Returns only sessions updated before this time. Use the cursor of the previous page.
    cursor: Option<i64>,
    /// Returns only sessions whose title contains this text.
    search: Option<String>,
    /// Maximum number of sessions, up to 1,000. Default: 100.
    limit: Option<usize>,
    /// True to include archived sessions.
    archived: Option<bool>,
}

/// A session with its project.
#[derive(Debug, Serialize, JsonSchema)]
struct GlobalSession {
    #[serde(flatten)]
    session: Session,
    project: ProjectSummary,
}

/// Summary of a project.
#[derive(Debug, Serialize, JsonSchema)]
struct ProjectSummary {
    id: String,
    /// Name that clients display.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// Root of the worktree.
    worktree: String,
}

async fn list(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<GlobalQuery>,
) -> Result<Page<GlobalSession, Millis>, Error> {
    let limit = query.limit.unwrap_or(USUAL_SESSIONS).clamp(1, MAX_SESSIONS);
    let listing = Listing {
        workspace: directory.named.then(|| directory.workspace(&app.sessions)),
        roots: query.roots.unwrap_or(false),
        updated_since: query.start,
        updated_before: query.cursor,
        unarchived: !query.archived.unwrap_or(false),
        search: query.search,
        // One extra session tells whether there is another page.
        limit: Some(limit + 1),
        ..Listing::default()
    };
    let mut sessions = app.sessions.list(listing).await?;
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let next = sessions.last().filter(|_| more).map(|last| last.time.updated);
    let notes = app.sessions.notes().await?;
    let sessions = blocking(move || {
        let sessions = sessions.into_iter().map(|session| with_project(session, &notes));
        Ok::<_, Error>(sessions.collect())
    });
    Ok(Page { entries: sessions.await?, next })
}

fn with_project(session: Session, notes: &BTreeMap<String, ProjectNote>) -> GlobalSession {
    let top = worktree_of(&session.directory, session.path.as_deref().unwrap_or_default());
    let project = ProjectSummary {
        id: session.project_id.clone(),
        name: notes.get(&session.project_id).and_then(|note| note.name.clone()),
        worktree: if top == "/" { top } else { worktrees(&top).0 },
    };
    GlobalSession { session, project }
}
