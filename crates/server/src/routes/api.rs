//! The newer interface under `/api`: the same sessions in the shapes of `protocol::v2`.

mod catalogue;
mod event;
mod files;
mod history;
mod integration;
mod location;
mod message;
mod prompt;
mod pty;
mod request;
mod session;

use axum::response::{IntoResponse, Response};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use http::StatusCode;
use protocol::{
    Rest,
    wire_error::{BadRequestKind, TaggedError, WireError},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Error,
    error::Fault,
    openapi::{Gives, Operation, Route},
};

pub(super) fn routes() -> Vec<Route> {
    [
        location::routes(),
        files::routes(),
        catalogue::routes(),
        integration::routes(),
        event::routes(),
        session::routes(),
        prompt::routes(),
        message::routes(),
        history::routes(),
        request::routes(),
        pty::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A successful answer without a body.
#[derive(Debug)]
struct Done;

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Gives for Done {
    fn describe(operation: &mut Operation) {
        operation.gives_nothing("Done");
    }
}

/// Parses a number in a query that OpenCode's OpenAPI document declares as a string.
fn number(name: &str, text: Option<&str>) -> Result<Option<u64>, Error> {
    let refuse = |_| Error::bad_request(BadRequestKind::Query, format!("{name}: expected a whole number"));
    text.map(str::parse).transpose().map_err(refuse)
}

/// Returns the number of entries per page.
fn page_size(asked: Option<f64>, usual: usize, most: usize) -> Result<usize, Error> {
    let Some(asked) = asked else { return Ok(usual) };
    if asked.fract() != 0.0 || asked < 1.0 {
        return Err(Error::bad_request(
            BadRequestKind::Query,
            "limit: expected a whole number of at least 1",
        ));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked above, and bounded below"
    )]
    let asked = asked as usize;
    Ok(asked.min(most))
}

/// Sort order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    /// Oldest first.
    Asc,
    /// Newest first.
    #[default]
    Desc,
}

fn write_cursor<T: Serialize>(cursor: &T) -> String {
    BASE64.encode(serde_json::to_vec(cursor).unwrap_or_default())
}

fn read_cursor<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let bytes = BASE64.decode(text.trim_end_matches('=')).ok();
    let refuse = || {
        let message = "cursor: not a cursor of this server".to_owned();
        let body = TaggedError::InvalidCursor { message, extra: Rest::NONE };
        Error::new(Fault::BadRequest, WireError::Tagged(body))
    };
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(refuse)
}
