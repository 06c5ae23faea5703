//! What can go wrong in a call, and whether trying again makes sense.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::retry;

/// Response headers with lower-case names.
pub type Headers = BTreeMap<String, String>;

/// A failed call. Display is a sentence fragment that can be shown to a person.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The provider refused the call.
    #[error("{message}")]
    Http {
        /// The status code.
        status: u16,
        /// The provider's message, or one made from the status.
        message: String,
        /// The response headers, names in lower case.
        headers: Headers,
        /// The response body as text.
        body: String,
    },
    /// The provider could not be reached.
    #[error("cannot reach the provider: {0}")]
    Connect(String),
    /// The connection was lost in the middle of an answer.
    #[error("the connection was lost in the middle of the answer")]
    Dropped,
    /// The provider stayed silent for too long.
    #[error("the provider sent {deadline} for {} s", .after.as_secs())]
    Stalled {
        /// Which deadline passed.
        deadline: Deadline,
        /// How long it was.
        after: Duration,
    },
    /// The provider reported a failure inside the stream.
    #[error("{message}")]
    InStream {
        /// The provider's code or type for it, when it gave one.
        code: Option<String>,
        /// The provider's message.
        message: String,
    },
    /// There is no usable key for the provider.
    #[error("{message}")]
    Auth {
        /// The provider's id.
        provider: String,
        /// What is missing or wrong.
        message: String,
    },
    /// The conversation does not fit into the model's context.
    #[error("{message}")]
    Overflow {
        /// The provider's message.
        message: String,
        /// The response body, when there was one.
        body: Option<String>,
    },
    /// The provider has no such model.
    #[error("unknown model `{0}`")]
    UnknownModel(String),
    /// Anything else; trying again would not help.
    #[error("{0}")]
    Other(String),
}

/// A deadline on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deadline {
    /// From the call to the first event.
    FirstChunk,
    /// From one event to the next.
    NextChunk,
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstChunk => "nothing",
            Self::NextChunk => "nothing more",
        })
    }
}

/// Whether a failed call should be tried again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Retry {
    /// The next try would fail in the same way.
    Never,
    /// The next try may succeed.
    After {
        /// How long the provider asked to be left alone.
        delay_hint: Option<Duration>,
    },
}

/// Codes a provider may put into a stream that no second try changes.
const FINAL_CODES: [&str; 5] = [
    "insufficient_quota",
    "usage_not_included",
    "invalid_prompt",
    "invalid_request_error",
    "authentication_error",
];

/// Wordings of transient failures, for providers that report them under a status or code of their own.
const TRANSIENT_WORDS: [&str; 14] = [
    "rate limit",
    "rate_limit",
    "too many requests",
    "too_many_requests",
    "overloaded",
    "exhausted",
    "unavailable",
    "server error",
    "server_error",
    "at capacity",
    "try again",
    "timeout",
    "timed out",
    "connection reset",
];

impl Error {
    /// Whether trying the same call again makes sense, and what the provider said about when.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Http { status, message, headers, body } => {
                let transient = matches!(status, 408 | 409 | 425 | 429) || *status >= 500;
                if transient || sounds_transient(message) || sounds_transient(body) {
                    Retry::After { delay_hint: retry::hint(headers) }
                } else {
                    Retry::Never
                }
            }
            Self::Connect(_) | Self::Dropped | Self::Stalled { .. } => Retry::After { delay_hint: None },
            Self::InStream { code, message } => {
                let code = code.as_deref().unwrap_or_default();
                if FINAL_CODES.contains(&code) {
                    Retry::Never
                } else if sounds_transient(code) || sounds_transient(message) {
                    Retry::After { delay_hint: None }
                } else {
                    Retry::Never
                }
            }
            Self::Auth { .. } | Self::Overflow { .. } | Self::UnknownModel(_) | Self::Other(_) => {
                Retry::Never
            }
        }
    }
}

fn sounds_transient(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    TRANSIENT_WORDS.iter().any(|word| text.contains(word))
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
    fn overload_and_server_failures_are_tried_again() {
        for status in [408, 429, 500, 502, 503, 529] {
            assert!(retries(&http(status, "")), "{status}");
        }
        for status in [400, 401, 403, 404, 413, 422] {
            assert!(!retries(&http(status, "")), "{status}");
        }
    }

    #[test]
    fn a_refusal_that_says_overloaded_is_tried_again_whatever_its_status() {
        assert!(retries(&http(400, r#"{"error":{"message":"Model is Overloaded"}}"#)));
    }

    #[test]
    fn the_providers_wish_is_passed_on() {
        let error = Error::Http {
            status: 429,
            message: "slow down".into(),
            headers: Headers::from([("retry-after".into(), "7".into())]),
            body: String::new(),
        };
        assert_eq!(error.retry(), Retry::After { delay_hint: Some(Duration::from_secs(7)) });
    }

    #[test]
    fn lost_and_silent_streams_are_tried_again() {
        assert!(retries(&Error::Dropped));
        let stalled = Error::Stalled { deadline: Deadline::NextChunk, after: Duration::from_secs(90) };
        assert!(retries(&stalled));
        assert_eq!(stalled.to_string(), "the provider sent nothing more for 90 s");
    }

    #[test]
    fn in_stream_failures_go_by_code_and_wording() {
        let said = |code: &str, message: &str| Error::InStream {
            code: (!code.is_empty()).then(|| code.to_owned()),
            message: message.to_owned(),
        };
        assert!(retries(&said("overloaded_error", "Overloaded")));
        assert!(retries(&said("", "Internal server error")));
        assert!(!retries(&said("insufficient_quota", "please try again with more money")));
        assert!(!retries(&said("", "the schema of tool 3 is wrong")));
    }

    #[test]
    fn overflow_and_missing_keys_are_final() {
        assert!(!retries(&Error::Overflow { message: "too long, try again".into(), body: None }));
        assert!(!retries(&Error::Auth { provider: "anthropic".into(), message: "no key".into() }));
    }
}
