//! JSON bodies with limits on size, depth and time.

use std::{error::Error as _, time::Duration};

use axum::extract::{FromRequest, Request, rejection::JsonRejection};
use futures::StreamExt;
use http::{HeaderMap, header};
use protocol::wire_error::BadRequestKind;
use serde::de::DeserializeOwned;

use crate::{Error, error::Fault};

/// Largest body in bytes: enough for a prompt with a few pictures, but not for a video.
pub const MAX_BODY: usize = 10 * 1024 * 1024;
/// Bytes of an oversized body that are read and dropped, so that its sender gets to read the response.
const MAX_SKIPPED: usize = 8 * MAX_BODY;
/// Deepest nesting of a body. The JSON parser stops at twice that, and stored values are wrapped in a few more
/// levels before they are parsed again: an accepted body must never be too deep to read back.
pub const MAX_NESTING: usize = 64;
/// Most values in a body. A parsed value takes up to a hundred times more memory than its text.
pub const MAX_VALUES: usize = 100_000;
/// Timeout for a client to send its body.
pub const BODY_DEADLINE: Duration = Duration::from_mins(1);

/// A required JSON body.
#[derive(Debug)]
pub struct Body<T>(pub T);

/// An optional JSON body.
#[derive(Debug)]
pub struct OptionalBody<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Body<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let (headers, bytes) = receive(request).await?;
        if bytes.is_empty() {
            return Err(broken("a JSON body is required"));
        }
        parse(&headers, &bytes).map(Self)
    }
}

impl<T: DeserializeOwned + Default, S: Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self, Error> {
        let (headers, bytes) = receive(request).await?;
        if bytes.is_empty() { Ok(Self(T::default())) } else { parse(&headers, &bytes).map(Self) }
    }
}

fn broken(message: impl AsRef<str>) -> Error {
    Error::bad_request(BadRequestKind::Body, message)
}

/// Reads the whole body within its limits.
pub(crate) async fn receive(request: Request) -> Result<(HeaderMap, Vec<u8>), Error> {
    let (parts, body) = request.into_parts();
    let too_large = || Error::plain(Fault::TooLarge, format!("the body is larger than {MAX_BODY} bytes"));
    let announced =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let mut too_long = announced.is_some_and(|length: u64| length > MAX_BODY as u64);
    if too_long && parts.headers.contains_key(header::EXPECT) {
        return Err(too_large()); // the client waits for 100 Continue and has sent nothing yet
    }
    let mut chunks = body.into_data_stream();
    let (mut bytes, mut skipped) = (Vec::new(), 0);
    let read = async {
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| broken(format!("the body ended early: {error}")))?;
            too_long |= bytes.len() + chunk.len() > MAX_BODY;
            if too_long {
                // Many clients read the response only after they have sent everything, so the rest is read
                // within a limit.
                skipped += chunk.len();
                if skipped > MAX_SKIPPED {
                    break;
                }
            } else {
                bytes.extend_from_slice(&chunk);
            }
        }
        if too_long { Err(too_large()) } else { Ok(()) }
    };
    let late = || {
        Error::plain(Fault::TooSlow, format!("the body took longer than {} seconds", BODY_DEADLINE.as_secs()))
    };
    tokio::time::timeout(BODY_DEADLINE, read).await.map_err(|_| late())??;
    Ok((parts.headers, bytes))
}

fn parse<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Error> {
    if !is_json(headers) {
        // Also keeps a page of another site from posting here without a preflight.
        return Err(Error::plain(
            Fault::UnsupportedMedia,
            "send the body with `content-type: application/json`",
        ));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| broken(format!("the body is not UTF-8 from byte {} on", error.valid_up_to())))?;
    measure(text)?;
    match axum::Json::from_bytes(bytes) {
        Ok(axum::Json(value)) => Ok(value),
        Err(rejection) => Err(explain(&rejection)),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// Rejects JSON that is cheap to send and expensive to hold, before it is parsed.
fn measure(text: &str) -> Result<(), Error> {
    let (mut depth, mut values, mut line) = (0_usize, 1_usize, 1_usize);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            b'\n' => line += 1,
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(broken(format!("the body nests deeper than {MAX_NESTING} levels in line {line}")));
        }
        if values > MAX_VALUES {
            return Err(broken(format!("the body holds more than {MAX_VALUES} values")));
        }
    }
    Ok(())
}

/// Uses the innermost error, which names the field and the line.
fn explain(rejection: &JsonRejection) -> Error {
    let reason = rejection.source().map_or_else(|| rejection.body_text(), ToString::to_string);
    match rejection {
        JsonRejection::JsonDataError(_) => Error::bad_request(BadRequestKind::Payload, reason),
        _ => broken(format!("the body is not JSON: {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use protocol::prompt::PromptInput;

    use super::*;

    fn headers(kind: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().unwrap())])
    }

    fn refusal(body: impl AsRef<[u8]>) -> String {
        parse::<PromptInput>(&headers("application/json"), body.as_ref()).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_cause_and_the_position() {
        let refusals = [
            refusal("{"),
            refusal("{\"parts\": [],\n}"),
            refusal("{\"nope\": 1}"),
            refusal("{\"parts\": 1}"),
            refusal("{\"parts\": [], \"model\": {\"providerID\": 5}}"),
            refusal("{\"parts\": [{\"type\": \"text\"}]}"),
            refusal("{\"parts\": [{\"type\": \"song\"}]}"),
            refusal("{\"parts\": [], \"messageID\": \"../etc\"}"),
            refusal("{\"parts\": []} trailing"),
            refusal("\"\\ud800\""),
            refusal(b"{\"parts\": [\xff]}"),
            refusal("[".repeat(MAX_NESTING + 1)),
            refusal(format!("[{}]", ",".repeat(MAX_VALUES))),
        ];
        insta::assert_json_snapshot!(refusals);
    }

    #[test]
    fn brackets_and_commas_in_text_do_not_count() {
        let text = "\\\"[{,".repeat(MAX_VALUES);
        assert!(measure(&format!("{{\"text\": \"{text}\"}}")).is_ok());
    }

    #[test]
    fn a_body_needs_a_json_content_type() {
        for kind in ["application/json", "application/json; charset=utf-8", "Application/Problem+JSON"] {
            assert!(is_json(&headers(kind)), "{kind}");
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
            assert!(!is_json(&headers(kind)), "{kind}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
