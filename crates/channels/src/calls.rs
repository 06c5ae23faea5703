//! HTTP calls to chat services: the client, reading an answer, and mapping failures to [`AdapterError`].

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use reqwest::{Response, Url, redirect};

use crate::AdapterError;

/// Timeout of a call, except long polling.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of an answer in bytes, except files.
pub const MAX_ANSWER: u64 = 8 << 20;

/// Pause after a rate limit without a `Retry-After` header.
const SOME_TIME: Duration = Duration::from_secs(5);

/// Builds an HTTP client for the service at this address.
pub fn client(address: &str) -> Result<reqwest::Client, AdapterError> {
    let refused = |reason: String| AdapterError::Refused(format!("invalid API address: {reason}"));
    let url = Url::parse(address).map_err(|error| refused(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("it must begin with http:// or https://".to_owned()));
    }
    reqwest::Client::builder()
        .tls_backend_preconfigured(net::tls::config_for(&url).map_err(|error| refused(error.to_string()))?)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(CALL_TIMEOUT)
        // A redirect must not carry the token to another host.
        .redirect(redirect::Policy::none())
        .build()
        .map_err(|error| refused(error.without_url().to_string()))
}

/// Maps a call without an answer to a fault. Leaves out the address, which may contain a token.
pub fn fault(error: reqwest::Error) -> AdapterError {
    let is_undone = error.is_connect() || error.is_builder();
    let reason = net::chain(&error.without_url());
    if is_undone { AdapterError::Unreachable(reason) } else { AdapterError::Uncertain(reason) }
}

/// Classifies an unsuccessful answer by its status alone. An adapter may classify it more exactly.
pub fn refusal(status: StatusCode, headers: &HeaderMap, reason: String) -> AdapterError {
    match status {
        StatusCode::TOO_MANY_REQUESTS => AdapterError::Busy { after: retry_after(headers) },
        StatusCode::SERVICE_UNAVAILABLE => AdapterError::Unreachable(reason),
        // A proxy or the service failed after it may have carried out the call.
        status if status.is_server_error() => AdapterError::Uncertain(reason),
        _ => AdapterError::Refused(reason),
    }
}

/// The pause that the service asks for in `Retry-After`.
pub fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    seconds.map_or(SOME_TIME, Duration::from_secs)
}

/// Reads the body of an answer of at most `limit` bytes.
pub async fn body(mut response: Response, limit: u64) -> Result<Bytes, AdapterError> {
    let too_long = || AdapterError::Refused(format!("the answer is longer than {limit} bytes"));
    if response.content_length().is_some_and(|length| length > limit) {
        return Err(too_long());
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(fault)? {
        body.extend_from_slice(&chunk);
        if u64::try_from(body.len()).is_ok_and(|length| length > limit) {
            return Err(too_long());
        }
    }
    Ok(body.freeze())
}
