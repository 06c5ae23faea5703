//! Calls to the Graph API, and the mapping of its errors to faults.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use reqwest::{RequestBuilder, Response, Url};
use serde::Deserialize;
use serde_json::Value;

use super::wire::ApiError;
use crate::{AdapterError, Document, calls, settings::Secret};

/// More than 24 hours have passed since the user wrote.
pub(super) const TOO_LATE: i64 = 131_047;

/// The access token is invalid or has expired.
const WRONG_TOKEN: i64 = 190;

/// Timeout of a file transfer.
const FILE_TIMEOUT: Duration = Duration::from_mins(2);

/// The file server requires a user agent.
const AGENT: &str = concat!("baton/", env!("CARGO_PKG_VERSION"));

/// The Graph API with one token.
#[derive(Debug)]
pub(super) struct Graph {
    http: reqwest::Client,
    api: Url,
    token: Secret,
}

/// The description of a file.
#[derive(Debug, Deserialize)]
struct Media {
    url: String,
    /// In bytes, as a number or as text.
    #[serde(default)]
    file_size: Value,
}

#[derive(Debug, Deserialize)]
struct Refusal {
    error: ApiError,
}

impl Graph {
    pub(super) fn new(api: &str, token: Secret) -> Result<Self, AdapterError> {
        let http = calls::client(api)?;
        let api = Url::parse(api).map_err(|error| AdapterError::Refused(error.to_string()))?;
        Ok(Self { http, api, token })
    }

    /// Checks the token. It is not a fault if the token may not read the number, because sending needs a different
    /// right.
    pub(super) async fn check(&self, number: &str) -> Result<(), AdapterError> {
        let call = self.http.get(self.url(&[number])).bearer_auth(self.token.reveal());
        let answer = call.send().await.map_err(calls::fault)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if status.is_success() {
            return Ok(());
        }
        let body = calls::body(answer, calls::MAX_ANSWER).await.unwrap_or_default();
        let code = serde_json::from_slice::<Refusal>(&body).map(|refusal| refusal.error.code);
        match refusal(status, &headers, &body, &self.token) {
            AdapterError::Refused(reason)
                if !matches!(code, Ok(WRONG_TOKEN)) && status != StatusCode::UNAUTHORIZED =>
            {
                tracing::warn!(reason, "the token may not read the phone number; using it anyway");
                Ok(())
            }
            fault => Err(fault),
        }
    }

    /// Makes a call with a visible effect: after a lost connection its fault stays uncertain, so that it is not repeated.
    pub(super) async fn post(&self, path: &[&str], body: &Value) -> Result<Value, AdapterError> {
        let answer = self.call(self.http.post(self.url(path)).json(body)).await?;
        let answer = calls::body(answer, calls::MAX_ANSWER).await?;
        // The call was carried out, whatever the body says.
        Ok(serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// Uploads a file and returns its id.
    pub(super) async fn upload(&self, number: &str, file: &Document) -> Result<String, AdapterError> {
        let form = form(file);
        let call = self.http.post(self.url(&[number, "media"])).timeout(FILE_TIMEOUT);
        let call = call.header(header::CONTENT_TYPE, form.mime).body(form.body);
        let answer = self.call(call).await.map_err(harmless)?;
        let answer = calls::body(answer, calls::MAX_ANSWER).await.map_err(harmless)?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let id = answer.get("id").and_then(Value::as_str);
        id.map(ToOwned::to_owned)
            .ok_or_else(|| AdapterError::Refused("WhatsApp's answer to an upload has no id".to_owned()))
    }

    /// Downloads a file that a user sent.
    pub(super) async fn download(&self, id: &str, limit: u64) -> Result<Bytes, AdapterError> {
        let answer = self.call(self.http.get(self.url(&[id]))).await.map_err(harmless)?;
        let answer = calls::body(answer, calls::MAX_ANSWER).await.map_err(harmless)?;
        let media: Media = serde_json::from_slice(&answer).map_err(|error| {
            AdapterError::Refused(format!("the description of a file cannot be parsed: {error}"))
        })?;
        let size = media.file_size.as_u64().or_else(|| media.file_size.as_str()?.parse().ok());
        if size.is_some_and(|size| size > limit) {
            return Err(AdapterError::Refused(format!("the file is longer than {limit} bytes")));
        }
        let call = self.http.get(self.trusted(&media.url)?).timeout(FILE_TIMEOUT);
        let answer = self.call(call.header(header::USER_AGENT, AGENT)).await.map_err(harmless)?;
        calls::body(answer, limit).await.map_err(harmless)
    }

    /// Returns the address if it may receive the token.
    fn trusted(&self, address: &str) -> Result<Url, AdapterError> {
        let url = Url::parse(address)
            .map_err(|_| AdapterError::Refused("the address of a file is invalid".to_owned()))?;
        if url.scheme() == "https" || url.origin() == self.api.origin() {
            return Ok(url);
        }
        Err(AdapterError::Refused(
            "the address of a file is not HTTPS, so it may not receive the token".to_owned(),
        ))
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.api.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    async fn call(&self, call: RequestBuilder) -> Result<Response, AdapterError> {
        let answer = call.bearer_auth(self.token.reveal()).send().await.map_err(calls::fault)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if status.is_success() {
            return Ok(answer);
        }
        // The body only adds details to the error, so failing to read it is not an error.
        let body = calls::body(answer, calls::MAX_ANSWER).await.unwrap_or_default();
        Err(refusal(status, &headers, &body, &self.token))
    }
}

/// Maps an error to a fault. Removes the token, which some errors repeat.
fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8], token: &Secret) -> AdapterError {
    let ApiError { code, message, error_data } =
        serde_json::from_slice::<Refusal>(body).map(|refusal| refusal.error).unwrap_or_default();
    let said = error_data.and_then(|data| data.details).unwrap_or(message).replace(token.reveal(), "…");
    let reason = format!("{said} (HTTP {}, code {code})", status.as_u16());
    // The header with the pause is rarely present.
    let says = headers.contains_key(header::RETRY_AFTER).then(|| calls::retry_after(headers));
    let wait = |seconds| AdapterError::Busy { after: says.unwrap_or(Duration::from_secs(seconds)) };
    match code {
        TOO_LATE => AdapterError::Closed("the last message is more than 24 hours old".to_owned()),
        // A user can receive one message every six seconds; a burst uses up later slots.
        131_056 => wait(6),
        // The number or the app exceeded its rate limit.
        130_429 => wait(2),
        // The account exceeded its hourly limit.
        4 | 80_007 => wait(60),
        WRONG_TOKEN => AdapterError::Refused(format!("the access token is wrong or has expired: {reason}")),
        131_026 => AdapterError::Refused(format!("the user cannot receive this on WhatsApp: {reason}")),
        _ => calls::refusal(status, headers, reason),
    }
}

/// Makes a fault retryable, for calls without a visible effect.
fn harmless(fault: AdapterError) -> AdapterError {
    match fault {
        AdapterError::Uncertain(reason) => AdapterError::Unreachable(reason),
        fault => fault,
    }
}

/// A form with one file.
struct Form {
    mime: String,
    body: String,
}

/// WhatsApp accepts few file types, and only plain text among the text types.
const FILE_KIND: &str = "text/plain";

fn form(file: &Document) -> Form {
    let boundary = format!("baton-{:032x}", rand::random::<u128>());
    let name: String = file.name.chars().filter(|it| !it.is_control() && !matches!(it, '"' | '\\')).collect();
    let field = |name: &str, value: &str| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let body = format!(
        "{}{}--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         Content-Type: {FILE_KIND}\r\n\r\n{}\r\n--{boundary}--\r\n",
        field("messaging_product", "whatsapp"),
        field("type", FILE_KIND),
        file.text,
    );
    Form { mime: format!("multipart/form-data; boundary={boundary}"), body }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meaning(status: u16, code: i64) -> AdapterError {
        let body = json!({"error": {"message": "(#1) no, EAAsecret", "code": code}}).to_string();
        let status = StatusCode::from_u16(status).unwrap();
        refusal(status, &HeaderMap::new(), body.as_bytes(), &Secret::new("EAAsecret"))
    }

    #[test]
    fn a_refusal_names_the_cause_and_the_remedy() {
        let seconds = |fault| match fault {
            AdapterError::Busy { after } => after.as_secs(),
            other => panic!("{other}"),
        };
        assert_eq!(seconds(meaning(400, 131_056)), 6);
        assert_eq!(seconds(meaning(400, 130_429)), 2);
        assert_eq!(seconds(meaning(429, 80_007)), 60);
        assert_eq!(seconds(meaning(429, 0)), 5);
        assert!(matches!(meaning(400, 131_047), AdapterError::Closed(_)));
        assert!(matches!(meaning(400, 131_026), AdapterError::Refused(_)));
        assert!(matches!(meaning(400, 100), AdapterError::Refused(_)));
        assert!(matches!(meaning(500, 131_000), AdapterError::Uncertain(_)));
        assert!(matches!(meaning(503, 2), AdapterError::Unreachable(_)));
        assert!(meaning(400, 131_047).to_string().contains("only after the user has written"));
    }

    #[test]
    fn a_refusal_does_not_contain_the_token() {
        let AdapterError::Refused(reason) = meaning(401, 190) else { panic!("it is refused") };
        assert!(reason.contains("access token") && !reason.contains("EAAsecret"), "{reason}");
    }

    #[test]
    fn an_answer_without_json_is_still_a_fault() {
        let fault = refusal(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>", &Secret::new("t"));
        assert!(matches!(fault, AdapterError::Uncertain(_)), "{fault}");
    }

    #[test]
    fn the_token_goes_to_safe_addresses_only() {
        let graph = Graph::new("http://127.0.0.1:9/v1/", Secret::new("t")).unwrap();
        assert_eq!(graph.url(&["1", "../x"]).as_str(), "http://127.0.0.1:9/v1/1/..%2Fx");
        assert!(graph.trusted("https://lookaside.fbsbx.com/x").is_ok());
        assert!(graph.trusted("http://127.0.0.1:9/media/1").is_ok());
        for address in ["http://127.0.0.1:10/", "http://lookaside.fbsbx.com/", "file:///etc/passwd", ""] {
            assert!(graph.trusted(address).is_err(), "{address}");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_form() {
        let name = "a\"\r\nX: y\\.diff".to_owned();
        let form = form(&Document { name, mime: "text/x-diff".into(), text: "-1\n+2".into() });
        assert!(
            form.body.contains("filename=\"aX: y.diff\"\r\nContent-Type: text/plain\r\n\r\n-1\n+2\r\n--")
        );
    }
}
