//! Calls that another component makes in place of our own connections.

use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::{CallHeaders, Error, Headers};

/// Makes calls on behalf of a client. It need not enforce timeouts: the caller does, and drops calls that take
/// too long.
pub trait Carrier: Send + Sync + fmt::Debug {
    /// Makes a call up to the response headers. Dropping the future or the body ends it.
    fn carry(&self, call: Carried) -> BoxFuture<'static, Result<Reply, Error>>;
}

/// A call: a POST of JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Carried {
    /// Address; may contain a password.
    pub url: String,
    /// Headers including the key.
    pub headers: CallHeaders,
    pub body: String,
}

/// The response to a call.
pub struct Reply {
    pub status: u16,
    /// Headers with lower-case names.
    pub headers: Headers,
    /// Decompressed body.
    pub body: BoxStream<'static, Result<Bytes, Error>>,
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carried").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("status", &self.status).finish_non_exhaustive()
    }
}

/// A response from either kind of call.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: BoxStream<'static, Result<Bytes, Error>>,
}

impl From<reqwest::Response> for Response {
    fn from(response: reqwest::Response) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes_stream().map_err(|_| Error::Dropped).boxed(),
        }
    }
}

impl From<Reply> for Response {
    fn from(Reply { status, headers, body }: Reply) -> Self {
        let known = headers.into_iter().filter_map(|(name, value)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        });
        Self { status, headers: known.collect(), body }
    }
}

/// Headers in the form that a carrier receives.
pub(super) fn call_headers(headers: &HeaderMap) -> CallHeaders {
    let readable = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.to_string(), value.to_str().ok()?.to_owned()))
    };
    headers.iter().filter_map(readable).collect()
}
