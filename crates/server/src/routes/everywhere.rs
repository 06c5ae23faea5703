//! The sessions of all projects, for a search that is not about one directory.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use engine::ports::Listing;
use http::{HeaderName, HeaderValue};
use protocol::{Millis, Session, project::ProjectNote};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    App, Error,
    blocking::blocking,
    extract::{Directory, Query},
    openapi::{Gives, Operation, Route},
    project::{worktree_of, worktrees},
};

/// Sessions in a page, unless the client says otherwise.
const USUAL_SESSIONS: usize = 100;
/// Sessions in a page at most.
const MAX_SESSIONS: usize = 1_000;
/// Tells a client that there is more.
const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/experimental/session", "experimental.session.list", list)
            .summary("List the sessions of all projects, most recently updated first"),
    ]
}

/// Which sessions to list.
#[derive(Debug, Deserialize, JsonSchema)]
struct GlobalQuery {
    /// Only sessions without a parent.
    roots: Option<bool>,
    /// Only sessions updated at or after this moment, in milliseconds.
    start: Option<i64>,
    /// Only sessions updated before this moment, which the previous page gave.
    cursor: Option<i64>,
    /// Only sessions whose title contains this.
    search: Option<String>,
    /// At most so many; 100 if nothing is said.
    limit: Option<usize>,
    /// Archived sessions, too.
    archived: Option<bool>,
}

/// A session, and what its project is called.
#[derive(Debug, Serialize, JsonSchema)]
struct GlobalSession {
    /// The session.
    #[serde(flatten)]
    session: Session,
    /// Its project.
    project: ProjectSummary,
}

/// The little that a list shows of a project.
#[derive(Debug, Serialize, JsonSchema)]
struct ProjectSummary {
    /// Its id.
    id: String,
    /// Shown name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The top of its worktree.
    worktree: String,
}

/// A page of sessions, and where the next one begins.
struct Listed {
    sessions: Vec<GlobalSession>,
    next: Option<Millis>,
}

async fn list(
    State(app): State<App>,
    directory: Directory,
    Query(query): Query<GlobalQuery>,
) -> Result<Listed, Error> {
    let limit = query.limit.unwrap_or(USUAL_SESSIONS).clamp(1, MAX_SESSIONS);
    let listing = Listing {
        directory: directory.named.then_some(directory.path),
        roots: query.roots.unwrap_or(false),
        updated_since: query.start,
        updated_before: query.cursor,
        unarchived: !query.archived.unwrap_or(false),
        search: query.search,
        // One more than is shown tells whether there is more.
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
    Ok(Listed { sessions: sessions.await?, next })
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

impl IntoResponse for Listed {
    fn into_response(self) -> Response {
        let mut response = Json(self.sessions).into_response();
        if let Some(next) = self.next {
            response.headers_mut().insert(NEXT_CURSOR, HeaderValue::from(next));
        }
        response
    }
}

impl Gives for Listed {
    fn describe(operation: &mut Operation) {
        operation.gives::<Vec<GlobalSession>>(&[(
            "X-Next-Cursor",
            "The cursor of the page after this one, if there is one.",
        )]);
    }
}
