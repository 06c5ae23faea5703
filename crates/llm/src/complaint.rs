//! Extracts the provider's error code and message from a response of any shape.

use serde_json::Value;

use crate::json;
use crate::retry;
use crate::wording;
use crate::{Error, Headers};

/// Longest message of a provider that is quoted, in characters.
const LONGEST_SENTENCE: usize = 2_000;

/// Error code for an overlong conversation; most providers say it only in the message.
const OVERFLOW_CODE: &str = "context_length_exceeded";

/// A provider's error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// Its code, type or status.
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
}

impl Complaint {
    /// Parses `{error: {message, code | type | status}}` and its many variants.
    pub(crate) fn read(value: &Value) -> Self {
        let root = match value {
            Value::Array(items) => items.first().unwrap_or(&Value::Null),
            value => value,
        };
        let error = root.get("error").unwrap_or(&Value::Null);
        Self { code: code(error).or_else(|| code(root)), message: message(root, error) }
    }

    /// Parses a body of any kind.
    fn of_body(body: &str) -> Self {
        if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(body) {
            return Self::read(&value);
        }
        let text = body.trim();
        let plain = !text.is_empty() && !text.starts_with('<');
        Self { code: None, message: plain.then(|| shorten(text)) }
    }

    /// The error for a failure reported inside a stream.
    pub(crate) fn in_stream(self, payload: &Value) -> Error {
        let code = self.code;
        let message = self.message.or_else(|| code.clone()).unwrap_or_else(|| {
            let said = payload.to_string();
            format!("the provider reported an error: {}", shorten(&said))
        });
        if is_overflow(code.as_deref(), &message) {
            return Error::Overflow { message, body: Some(payload.to_string()) };
        }
        Error::InStream { code, message }
    }
}

/// The error for a refused call.
pub(crate) fn refusal(status: u16, headers: Headers, body: String) -> Error {
    let complaint = Complaint::of_body(&body);
    let bodiless = body.trim().is_empty();
    let message = complaint.message.unwrap_or_else(|| plainly(status, &body));
    // Two providers answer an overlong prompt with nothing but a status.
    let silent_overflow = bodiless && matches!(status, 400 | 413);
    if status == 413 || silent_overflow || is_overflow(complaint.code.as_deref(), &message) {
        return Error::Overflow { message, body: (!bodiless).then_some(body) };
    }
    Error::Http { status, message, headers, body }
}

fn is_overflow(code: Option<&str>, message: &str) -> bool {
    code == Some(OVERFLOW_CODE) || wording::is_overflow(message) || code.is_some_and(wording::is_overflow)
}

/// The error code of a refused call, which its message need not contain.
pub(crate) fn code_of_body(body: &str) -> Option<String> {
    Complaint::of_body(body).code
}

/// The retry delay that Google puts into the body, where others use a header.
pub(crate) fn delay_in_body(body: &str) -> Option<std::time::Duration> {
    let value: Value = serde_json::from_str(body).ok()?;
    let root = value.get(0).unwrap_or(&value);
    let details = json::list(json::at(root, &["error"]), "details");
    let delay = details.iter().find_map(|detail| json::maybe(detail, "retryDelay"))?;
    retry::duration_in_text(delay)
}

fn code(value: &Value) -> Option<String> {
    ["code", "type", "status"].iter().find_map(|key| match value.get(key)? {
        Value::String(code) if !code.is_empty() && code != "error" => Some(code.clone()),
        // Google has the number in `code` and the name in `status`; the name is more specific.
        Value::Number(code) if value.get("status").is_none_or(|name| !name.is_string()) => {
            Some(code.to_string())
        }
        _ => None,
    })
}

fn message(root: &Value, error: &Value) -> Option<String> {
    let found = json::maybe(error, "message")
        .or_else(|| error.as_str())
        .or_else(|| json::maybe(json::at(error, &["error"]), "message"))
        .or_else(|| json::maybe(root, "message"))
        .or_else(|| json::maybe(root, "detail"))
        .or_else(|| json::list(root, "detail").first().and_then(|detail| json::maybe(detail, "msg")))
        .or_else(|| json::list(root, "errors").first().and_then(|error| json::maybe(error, "message")))
        .or_else(|| json::maybe(root, "error_description"))
        .filter(|text| !text.trim().is_empty())?;
    // A router's own message is generic; the provider's message is beside it.
    match json::maybe(json::at(error, &["metadata"]), "raw") {
        Some(raw) => Some(shorten(&format!("{found}: {raw}"))),
        None => Some(shorten(found)),
    }
}

/// A message for a response that has none.
fn plainly(status: u16, body: &str) -> String {
    let name = reqwest::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let name = name.map(|name| format!(" {name}")).unwrap_or_default();
    if body.trim_start().starts_with('<') {
        format!("the provider answered {status}{name} with a web page; a gateway or proxy may be in the way")
    } else {
        format!("the provider answered {status}{name}")
    }
}

fn shorten(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST_SENTENCE) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(body: &Value, code: Option<&str>, message: Option<&str>) {
        let complaint = Complaint::of_body(&body.to_string());
        assert_eq!((complaint.code.as_deref(), complaint.message.as_deref()), (code, message), "{body}");
    }

    #[test]
    fn the_message_is_found_in_every_shape() {
        let says = Some("no");
        check(
            &json!({ "type": "error", "error": { "type": "overloaded_error", "message": "no" } }),
            Some("overloaded_error"),
            says,
        );
        check(
            &json!({ "error": { "message": "no", "type": "t", "param": null, "code": "c" } }),
            Some("c"),
            says,
        );
        check(
            &json!({ "error": { "message": "no", "type": "server_error", "code": null } }),
            Some("server_error"),
            says,
        );
        check(
            &json!({ "error": { "code": 503, "message": "no", "status": "UNAVAILABLE" } }),
            Some("UNAVAILABLE"),
            says,
        );
        check(
            &json!([{ "error": { "code": 400, "message": "no", "status": "INVALID_ARGUMENT" } }]),
            Some("INVALID_ARGUMENT"),
            says,
        );
        check(&json!({ "error": "no" }), None, says);
        check(&json!({ "error": { "error": { "message": "no" } } }), None, says);
        check(&json!({ "object": "error", "message": "no", "code": 404 }), Some("404"), says);
        check(&json!({ "detail": "no" }), None, says);
        check(&json!({ "detail": [{ "msg": "no", "loc": [] }] }), None, says);
        check(
            &json!({ "error": { "message": "Provider returned error", "code": 502, "metadata": { "raw": "no" } } }),
            Some("502"),
            Some("Provider returned error: no"),
        );
        check(&json!({ "something": "else" }), None, None);
    }

    #[test]
    fn responses_without_a_message_get_one() {
        let message = |status, body: &str| refusal(status, Headers::new(), body.to_owned()).to_string();
        assert_eq!(message(503, ""), "the provider answered 503 Service Unavailable");
        assert_eq!(message(500, "out of cheese"), "out of cheese");
        assert!(message(502, "<html><body>nginx</body></html>").contains("a gateway or proxy"));
        assert!(message(500, &"x".repeat(9_000)).len() < 2_100);
    }

    #[test]
    fn overflow_is_detected_by_status_code_or_wording() {
        let overflows = |status, body: &str| {
            matches!(refusal(status, Headers::new(), body.to_owned()), Error::Overflow { .. })
        };
        assert!(overflows(413, "<html>"));
        assert!(overflows(400, ""));
        assert!(overflows(400, r#"{"error":{"code":"context_length_exceeded","message":"no"}}"#));
        assert!(overflows(400, r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#));
        assert!(!overflows(400, r#"{"error":{"message":"tools.0 is bad"}}"#));
        assert!(!overflows(429, ""));
    }

    #[test]
    fn googles_delay_is_read_from_the_body() {
        let body = r#"{"error":{"code":429,"details":[{"a":1},{"retryDelay":"34.4s"}]}}"#;
        assert_eq!(delay_in_body(body), Some(Duration::from_millis(34_400)));
        assert_eq!(delay_in_body("[]"), None);
    }
}
