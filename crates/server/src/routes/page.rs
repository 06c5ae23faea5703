//! A page of a list whose next page has a cursor.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Serialize;

use crate::openapi::{Gives, Operation};

/// Header with the cursor of the next page; absent on the last page.
pub(super) const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// The entries of a page and the cursor of the next one.
pub(super) struct Page<T, C> {
    pub(super) entries: Vec<T>,
    pub(super) next: Option<C>,
}

impl<T: Serialize, C: Into<HeaderValue>> IntoResponse for Page<T, C> {
    fn into_response(self) -> Response {
        let mut response = Json(self.entries).into_response();
        if let Some(next) = self.next {
            response.headers_mut().insert(NEXT_CURSOR, next.into());
        }
        response
    }
}

impl<T: JsonSchema, C> Gives for Page<T, C> {
    fn describe(operation: &mut Operation) {
        operation.gives::<Vec<T>>(&[("X-Next-Cursor", "Cursor of the next page. Absent on the last page.")]);
    }
}
