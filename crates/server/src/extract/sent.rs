//! Determines the sender of a prompt.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::{HeaderName, HeaderValue, request::Parts};
use protocol::prompt::Sender;

/// Header with which the plugin host marks the calls of plugins.
const HEADER: HeaderName = HeaderName::from_static("x-baton-sender");
const PLUGIN: HeaderValue = HeaderValue::from_static("plugin");

/// The sender of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent(pub Sender);

impl<S: Sync> FromRequestParts<S> for Sent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let is_plugin = parts.headers.get(HEADER) == Some(&PLUGIN);
        Ok(Self(if is_plugin { Sender::Plugin } else { Sender::Client }))
    }
}
