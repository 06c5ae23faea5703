//! Converts errors of model calls to the errors that clients know.

use jiff::Timestamp;
use llm::{Error, Retry};
use protocol::error::ApiError;
use protocol::{MessageError, Millis, Rest};

/// Returns the error that a message carries for a failed model call.
pub(super) fn message_error(error: &Error) -> MessageError {
    let message = error.to_string();
    match error {
        Error::Http { status, headers, body, .. } => MessageError::Api(ApiError {
            message,
            status_code: Some(*status),
            is_retryable: error.retry() != Retry::Never,
            response_headers: Some(headers.clone()),
            response_body: Some(body.clone()),
            ..ApiError::default()
        }),
        Error::Auth { provider, .. } => {
            MessageError::ProviderAuth { provider_id: provider.clone(), message, extra: Rest::NONE }
        }
        Error::Overflow { body, .. } => {
            MessageError::ContextOverflow { message, response_body: body.clone(), extra: Rest::NONE }
        }
        Error::Connect(_) | Error::Dropped | Error::Stalled { .. } | Error::InStream { .. } => {
            MessageError::Api(ApiError {
                message,
                is_retryable: error.retry() != Retry::Never,
                ..ApiError::default()
            })
        }
        _ => MessageError::unknown(message),
    }
}

/// Returns the error of a turn that ends because the provider's retry delay is longer than a turn waits.
pub(super) fn retry_delay_too_long(error: &Error, until: Millis) -> MessageError {
    let time = Timestamp::from_millisecond(until).unwrap_or(Timestamp::MAX);
    let time = time.strftime("%Y-%m-%d %H:%M UTC");
    let sentence = format!(
        "{error}. The provider accepts no calls until {time}, which is longer than a turn waits. Try again \
         then, or choose another model."
    );
    match message_error(error) {
        MessageError::Api(api) => MessageError::Api(ApiError { message: sentence, ..api }),
        _ => MessageError::unknown(sentence),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_keeps_the_whole_answer_of_the_provider() {
        let error = Error::Http {
            status: 400,
            message: "no".to_owned(),
            headers: [("x-id".to_owned(), "7".to_owned())].into(),
            body: "{}".to_owned(),
        };
        assert_eq!(
            serde_json::to_value(message_error(&error)).unwrap(),
            json!({ "name": "APIError", "data": {
                "message": "no", "statusCode": 400, "isRetryable": false,
                "responseHeaders": { "x-id": "7" }, "responseBody": "{}",
            }})
        );
    }

    #[test]
    fn a_retry_delay_of_a_day_is_reported_with_its_end() {
        let error = Error::Http {
            status: 429,
            message: "Daily limit reached".to_owned(),
            headers: [].into(),
            body: String::new(),
        };
        let MessageError::Api(error) = retry_delay_too_long(&error, 1_794_724_000_000) else {
            panic!("{error:?}")
        };
        insta::assert_snapshot!(error.message, @"Daily limit reached. The provider accepts no calls until 2026-11-15 06:26 UTC, which is longer than a turn waits. Try again then, or choose another model.");
        assert!(error.is_retryable && error.status_code == Some(429));
    }

    #[test]
    fn each_failure_has_the_name_clients_look_for() {
        let name = |error: Error| serde_json::to_value(message_error(&error)).unwrap()["name"].clone();
        assert_eq!(name(Error::Dropped), "APIError");
        assert_eq!(name(Error::Overflow { message: String::new(), body: None }), "ContextOverflowError");
        assert_eq!(
            name(Error::Auth { provider: String::new(), message: String::new() }),
            "ProviderAuthError"
        );
        assert_eq!(name(Error::UnknownModel("x".into())), "UnknownError");
    }
}
