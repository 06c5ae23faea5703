//! Errors of calls, and whether a retry makes sense.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::{Secret, complaint, retry, wording};

/// Response headers with lower-case names.
pub type Headers = BTreeMap<String, String>;

/// A failed call. Its text is a sentence fragment for the user.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{message}")]
    Http {
        status: u16,
        /// The provider's message, or one derived from the status.
        message: String,
        /// Response headers with lower-case names.
        headers: Headers,
        body: String,
    },
    #[error("cannot reach the provider: {0}")]
    Connect(String),
    /// The connection was lost during the response.
    #[error("the connection was lost in the middle of the answer")]
    Dropped,
    /// The provider was silent for too long.
    #[error("{}", .deadline.sentence(*.after))]
    Stalled { deadline: Deadline, after: Duration },
    /// The provider reported an error inside the stream.
    #[error("{message}")]
    InStream {
        /// The provider's code or type of the error, if it gave one.
        code: Option<String>,
        message: String,
    },
    /// There is no usable key for the provider.
    #[error("{message}")]
    Auth { provider: String, message: String },
    /// The conversation does not fit into the model's context.
    #[error("{message}")]
    Overflow {
        message: String,
        /// The response body, if there was one.
        body: Option<String>,
    },
    /// The response is not valid in the provider's dialect.
    #[error("invalid response from the provider: {0}")]
    Garbled(String),
    /// The response exceeds its size limit.
    #[error("the answer is longer than {limit} bytes")]
    TooLong {
        /// Limit in bytes.
        limit: usize,
    },
    #[error("unknown model `{0}`")]
    UnknownModel(String),
    /// Any other error; a retry would not help.
    #[error("{0}")]
    Other(String),
}

/// A timeout of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deadline {
    /// Connection, including TLS.
    Connect,
    /// From the call to the response headers.
    Headers,
    /// From the headers (or from the call, if the implementation cannot tell) to the first event.
    FirstChunk,
    /// From one event to the next.
    NextChunk,
    /// The whole call.
    Total,
}

impl Deadline {
    fn sentence(self, after: Duration) -> String {
        let time = Seconds(after);
        match self {
            Self::Connect => format!("the provider could not be reached within {time}"),
            Self::Headers => format!("the provider did not answer within {time}"),
            Self::FirstChunk => format!("the provider sent nothing for {time}"),
            Self::NextChunk => format!("the provider sent nothing more for {time}"),
            Self::Total => format!("the answer took longer than {time}"),
        }
    }
}

/// Formats a duration for the user.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.subsec_nanos() == 0 {
            write!(f, "{} s", self.0.as_secs())
        } else {
            write!(f, "{} ms", self.0.as_millis())
        }
    }
}

/// Advice on retrying a failed call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Retry {
    /// A retry would fail in the same way.
    Never,
    /// A retry may succeed.
    After {
        /// Delay that the provider asked for.
        delay_hint: Option<Duration>,
    },
}

/// Error codes that are final regardless of the message.
const FINAL_CODES: [&str; 8] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "usage_not_included",
    "invalid_prompt",
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
];

/// Final codes that arrive with a status which alone would suggest a retry.
const FINAL_WHATEVER_THE_STATUS: [&str; 4] =
    ["insufficient_quota", "billing_hard_limit_reached", "usage_not_included", "invalid_prompt"];

/// Header that states whether to retry; two large providers and compatible servers send it.
const SHOULD_RETRY: &str = "x-should-retry";

impl Error {
    /// Returns whether a retry makes sense, and the delay that the provider asked for.
    pub fn retry(&self) -> Retry {
        let delay_hint = match self {
            Self::Http { status, message, headers, body } => {
                if !http_is_transient(*status, message, headers, body) {
                    return Retry::Never;
                }
                retry::hint(headers)
                    .or_else(|| complaint::delay_in_body(body))
                    .or_else(|| delay_in_sentence(message))
            }
            Self::Connect(_) | Self::Dropped | Self::Garbled(_) => None,
            Self::Stalled { deadline, .. } if *deadline != Deadline::Total => None,
            Self::InStream { code, message } => {
                if !in_stream_is_transient(code.as_deref().unwrap_or_default(), message) {
                    return Retry::Never;
                }
                delay_in_sentence(message)
            }
            Self::Auth { .. }
            | Self::Overflow { .. }
            | Self::UnknownModel(_)
            | Self::Stalled { .. }
            | Self::TooLong { .. }
            | Self::Other(_) => return Retry::Never,
        };
        Retry::After { delay_hint: delay_hint.filter(|delay| !delay.is_zero()) }
    }

    /// Like [`Error::retry`] for a certain provider: `OpenAI` sometimes does not find models that exist.
    pub fn retry_at(&self, provider: &str) -> Retry {
        match (self.retry(), self) {
            (Retry::Never, Self::Http { status: 404, headers, .. }) if provider.starts_with("openai") => {
                Retry::After { delay_hint: retry::hint(headers) }
            }
            (retry, _) => retry,
        }
    }

    /// Returns true if the provider limits the rate of calls, so that waiting helps.
    pub fn is_rate_limit(&self) -> bool {
        match self {
            Self::Http { status, message, .. } => *status == 429 || wording::is_rate_limit(message),
            Self::InStream { code, message } => {
                let code = code.as_deref().unwrap_or_default();
                code == "429" || wording::is_rate_limit(code) || wording::is_rate_limit(message)
            }
            _ => false,
        }
    }

    /// Replaces the key wherever a provider quoted it.
    pub(crate) fn redacted(self, key: &Secret) -> Self {
        match self {
            Self::Http { status, message, headers, body } => Self::Http {
                status,
                message: key.redact(message),
                headers: headers.into_iter().map(|(name, value)| (name, key.redact(value))).collect(),
                body: key.redact(body),
            },
            Self::Connect(message) => Self::Connect(key.redact(message)),
            Self::InStream { code, message } => Self::InStream { code, message: key.redact(message) },
            Self::Overflow { message, body } => {
                Self::Overflow { message: key.redact(message), body: body.map(|body| key.redact(body)) }
            }
            Self::Garbled(message) => Self::Garbled(key.redact(message)),
            Self::Other(message) => Self::Other(key.redact(message)),
            error @ (Self::Dropped
            | Self::Stalled { .. }
            | Self::Auth { .. }
            | Self::TooLong { .. }
            | Self::UnknownModel(_)) => error,
        }
    }

    /// Returns true if the conversation must become shorter.
    pub fn is_overflow(&self) -> bool {
        matches!(self, Self::Overflow { .. })
    }
}

fn http_is_transient(status: u16, message: &str, headers: &Headers, body: &str) -> bool {
    match headers.get(SHOULD_RETRY).map(String::as_str) {
        Some("true") => return true,
        Some("false") => return false,
        _ => {}
    }
    if complaint::code_of_body(body).is_some_and(|code| FINAL_WHATEVER_THE_STATUS.contains(&code.as_str())) {
        return false;
    }
    is_transient_status(status)
        || wording::is_trouble(message)
        || wording::is_trouble(body)
        // A wrong key is often refused with the advice to correct it and try again.
        || (!matches!(status, 401..=404 | 422) && wording::is_invitation(message))
}

fn in_stream_is_transient(code: &str, message: &str) -> bool {
    if FINAL_CODES.contains(&code) {
        return false;
    }
    code.parse().is_ok_and(is_transient_status)
        || wording::is_trouble(code)
        || wording::is_trouble(message)
        || wording::is_invitation(message)
}

fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429) || status >= 500
}

fn delay_in_sentence(message: &str) -> Option<Duration> {
    message.to_ascii_lowercase().contains("try again in").then(|| retry::duration_in_text(message))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(status: u16, body: &str) -> Error {
        Error::Http { status, message: "refused".into(), headers: Headers::new(), body: body.into() }
    }

    fn retries(error: &Error) -> bool {
        error.retry() != Retry::Never
    }

    #[test]
    fn overload_and_server_failures_are_retried() {
        for status in [408, 429, 500, 502, 503, 529] {
            assert!(retries(&http(status, "")), "{status}");
        }
        for status in [400, 401, 403, 404, 413, 422] {
            assert!(!retries(&http(status, "")), "{status}");
        }
    }

    #[test]
    fn a_refusal_that_says_overloaded_is_retried_at_any_status() {
        assert!(retries(&http(400, r#"{"error":{"message":"Model is Overloaded"}}"#)));
    }

    #[test]
    fn the_providers_delay_is_passed_on() {
        let error = Error::Http {
            status: 429,
            message: "slow down".into(),
            headers: Headers::from([("retry-after".into(), "7".into())]),
            body: String::new(),
        };
        assert_eq!(error.retry(), Retry::After { delay_hint: Some(Duration::from_secs(7)) });
    }

    #[test]
    fn lost_and_silent_streams_are_retried() {
        assert!(retries(&Error::Dropped));
        let stalled = Error::Stalled { deadline: Deadline::NextChunk, after: Duration::from_secs(90) };
        assert!(retries(&stalled));
        assert_eq!(stalled.to_string(), "the provider sent nothing more for 90 s");
    }

    #[test]
    fn in_stream_failures_are_judged_by_code_and_wording() {
        let said = |code: &str, message: &str| Error::InStream {
            code: (!code.is_empty()).then(|| code.to_owned()),
            message: message.to_owned(),
        };
        assert!(retries(&said("overloaded_error", "Overloaded")));
        assert!(retries(&said("", "Internal server error")));
        assert!(!retries(&said("insufficient_quota", "please try again with more money")));
        assert!(!retries(&said("", "the schema of tool 3 is wrong")));
        assert!(retries(&said("502", "upstream")), "the code may be a status");
        assert!(!retries(&said("400", "upstream")));
        assert!(retries(&said("UNAVAILABLE", "The model is busy.")));
        let busy = said("rate_limit_exceeded", "Rate limit reached. Please try again in 1.5s.");
        assert_eq!(busy.retry(), Retry::After { delay_hint: Some(Duration::from_millis(1500)) });
    }

    #[test]
    fn rate_limits_are_distinguished_from_other_failures() {
        let in_stream = |code: &str| Error::InStream { code: Some(code.into()), message: "no".into() };
        assert!(http(429, "").is_rate_limit() && in_stream("rate_limit_error").is_rate_limit());
        for other in [http(500, ""), http(529, ""), in_stream("overloaded_error"), Error::Dropped] {
            assert!(!other.is_rate_limit(), "{other}");
        }
    }

    #[test]
    fn the_retry_header_takes_precedence() {
        let told = |status, answer: &str| Error::Http {
            status,
            message: "no".into(),
            headers: Headers::from([("x-should-retry".into(), answer.into())]),
            body: String::new(),
        };
        assert!(!retries(&told(500, "false")));
        assert!(retries(&told(400, "true")));
    }

    #[test]
    fn an_exhausted_quota_is_not_retried() {
        assert!(!retries(&http(429, r#"{"error":{"code":"insufficient_quota","message":"no money"}}"#)));
        assert!(retries(&http(429, r#"{"error":{"code":"rate_limit_exceeded","message":"slow down"}}"#)));
    }

    #[test]
    fn a_wrong_key_is_not_retried_despite_the_message() {
        let refused = Error::Http {
            status: 401,
            message: "Incorrect key. Correct it and try again later.".into(),
            headers: Headers::new(),
            body: String::new(),
        };
        assert!(!retries(&refused));
    }

    #[test]
    fn a_missing_model_is_retried_only_at_openai() {
        assert!(!retries(&http(404, "")));
        assert_ne!(http(404, "").retry_at("openai"), Retry::Never);
        assert_eq!(http(404, "").retry_at("anthropic"), Retry::Never);
    }

    #[test]
    fn googles_delay_is_read_from_the_body() {
        let body = r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED",
            "details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}"#;
        assert_eq!(http(429, body).retry(), Retry::After { delay_hint: Some(Duration::from_secs(34)) });
    }

    #[test]
    fn a_total_timeout_is_not_retried() {
        let stalled = |deadline| Error::Stalled { deadline, after: Duration::from_millis(1500) };
        for deadline in [Deadline::Connect, Deadline::Headers, Deadline::FirstChunk, Deadline::NextChunk] {
            assert!(retries(&stalled(deadline)), "{deadline:?}");
        }
        assert!(!retries(&stalled(Deadline::Total)));
        assert_eq!(stalled(Deadline::Headers).to_string(), "the provider did not answer within 1500 ms");
    }

    #[test]
    fn overflow_and_missing_keys_are_final() {
        assert!(!retries(&Error::Overflow { message: "too long, try again".into(), body: None }));
        assert!(!retries(&Error::Auth { provider: "anthropic".into(), message: "no key".into() }));
    }
}
