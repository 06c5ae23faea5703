//! The search over the texts of all sessions.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderName, HeaderValue};
use protocol::{found::FoundMessage, wire_error::BadRequestKind};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    App, Error,
    extract::Query,
    openapi::{Gives, Operation, Route},
};

/// Default number of texts per page.
const USUAL_TEXTS: usize = 20;
/// Longest query in characters.
const MAX_QUERY: usize = 500;
/// Header with the cursor of the next page; absent on the last page.
const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/find/message", "find.messages", find)
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

/// A page of texts and the cursor of the next one.
struct Listed {
    texts: Vec<FoundMessage>,
    next: Option<u64>,
}

async fn find(State(app): State<App>, Query(query): Query<MessageQuery>) -> Result<Listed, Error> {
    if query.query.chars().count() > MAX_QUERY {
        let message = format!("query: longer than {MAX_QUERY} characters");
        return Err(Error::bad_request(BadRequestKind::Query, message));
    }
    let limit = query.limit.unwrap_or(USUAL_TEXTS);
    let (texts, next) = app.sessions.find(&query.query, query.cursor, limit).await?;
    Ok(Listed { texts, next })
}

impl IntoResponse for Listed {
    fn into_response(self) -> Response {
        let mut response = Json(self.texts).into_response();
        if let Some(next) = self.next {
            response.headers_mut().insert(NEXT_CURSOR, HeaderValue::from(next));
        }
        response
    }
}

impl Gives for Listed {
    fn describe(operation: &mut Operation) {
        operation.gives::<Vec<FoundMessage>>(&[(
            "X-Next-Cursor",
            "Cursor of the next page. Absent on the last page.",
        )]);
    }
}
