//! The search over the texts of all sessions.

use axum::extract::State;
use protocol::{found::FoundMessage, wire_error::BadRequestKind};
use schemars::JsonSchema;
use serde::Deserialize;

use super::page::Page;
use crate::{
    App, Error,
    extract::Query,
    openapi::{Class, Route},
};

/// Default number of texts per page.
const USUAL_TEXTS: usize = 20;
/// Longest query in characters.
const MAX_QUERY: usize = 500;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Record, "/find/message", "find.messages", find)
            .summary("Find texts of users and models in all sessions, newest first"),
    ]
}

/// Query of a search over all sessions.
#[derive(Debug, Deserialize, JsonSchema)]
struct MessageQuery {
    /// Words; each must begin a word of the text. Upper and lower case are the same.
    query: String,
    /// Maximum number of texts, up to 100. Default: 20.
    limit: Option<usize>,
    /// Returns only older texts. Use the cursor of the previous page.
    cursor: Option<u64>,
}

async fn find(
    State(app): State<App>,
    Query(query): Query<MessageQuery>,
) -> Result<Page<FoundMessage, u64>, Error> {
    if query.query.chars().count() > MAX_QUERY {
        let message = format!("query: longer than {MAX_QUERY} characters");
        return Err(Error::bad_request(BadRequestKind::Query, message));
    }
    let limit = query.limit.unwrap_or(USUAL_TEXTS);
    let (entries, next) = app.sessions.find(&query.query, query.cursor, limit).await?;
    Ok(Page { entries, next })
}
