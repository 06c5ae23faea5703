//! The name of the calling client.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::{HeaderName, request::Parts};

/// Header in which a client names itself, such as `web` or `telegram`, so that other clients can show the origin of an
/// answer. It is a label and proves nothing.
const HEADER: HeaderName = HeaderName::from_static("x-baton-client");

/// Longest name in bytes; a longer one is cut.
const MAX_NAME: usize = 64;

/// The name that the client gave itself, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientName(pub Option<String>);

impl<S: Sync> FromRequestParts<S> for ClientName {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // Only visible ASCII passes, so a cut never splits a character.
        let name = parts.headers.get(HEADER).and_then(|value| value.to_str().ok()).map(str::trim);
        let name = name.filter(|name| !name.is_empty());
        Ok(Self(name.map(|name| name.chars().take(MAX_NAME).collect())))
    }
}
