//! Calls to chat services: one way to connect, to read an answer, and to say what a failure means.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use reqwest::{Response, Url, redirect};

use crate::Fault;

/// How long a call may take, unless it is one that waits on purpose.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer that is read, apart from files.
pub const MAX_ANSWER: u64 = 8 << 20;

/// How long to wait if a service asks to wait and does not say how long.
const SOME_TIME: Duration = Duration::from_secs(5);

/// A client for the service at this address.
pub fn client(address: &str) -> Result<reqwest::Client, Fault> {
    let refused = |reason: String| Fault::Refused(format!("the address of the interface: {reason}"));
    let url = Url::parse(address).map_err(|error| refused(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("it has to begin with http:// or https://".to_owned()));
    }
    reqwest::Client::builder()
        .tls_backend_preconfigured(net::tls::config_for(&url).map_err(|error| refused(error.to_string()))?)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(CALL_TIMEOUT)
        // A token must not follow a redirect.
        .redirect(redirect::Policy::none())
        .build()
        .map_err(|error| refused(error.without_url().to_string()))
}

/// What a call that brought no answer means. Addresses may contain tokens and are left out.
pub fn fault(error: reqwest::Error) -> Fault {
    let is_undone = error.is_connect() || error.is_builder();
    let reason = net::chain(&error.without_url());
    if is_undone { Fault::Unreachable(reason) } else { Fault::Uncertain(reason) }
}

/// What an answer means that is not a success, by its status alone; a service may know better.
pub fn refusal(status: StatusCode, headers: &HeaderMap, reason: String) -> Fault {
    match status {
        StatusCode::TOO_MANY_REQUESTS => Fault::Busy { after: retry_after(headers) },
        StatusCode::SERVICE_UNAVAILABLE => Fault::Unreachable(reason),
        // Somebody between us and the service, or the service itself, stumbled on the way.
        status if status.is_server_error() => Fault::Uncertain(reason),
        _ => Fault::Refused(reason),
    }
}

/// How long a service asks to wait.
pub fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    seconds.map_or(SOME_TIME, Duration::from_secs)
}

/// Reads an answer's body, if it is not longer than `limit` bytes.
pub async fn body(mut response: Response, limit: u64) -> Result<Bytes, Fault> {
    let too_long = || Fault::Refused(format!("longer than {limit} bytes"));
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
