//! Query parameters of a call.

use std::error::Error as _;

use axum::extract::FromRequestParts;
use http::request::Parts;
use protocol::wire_error::BadRequestKind;
use serde::de::DeserializeOwned;

use crate::Error;

/// Query parameters by name. Unknown names are ignored, as in OpenCode.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        match axum::extract::Query::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => {
                let reason = rejection.source().map_or_else(|| rejection.body_text(), ToString::to_string);
                Err(Error::bad_request(BadRequestKind::Query, reason))
            }
        }
    }
}
