//! A failed call to a model, in the words clients know.

use llm::{Error, Retry};
use protocol::error::ApiError;
use protocol::{MessageError, Rest};

/// The error a message carries for a failed call.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_keeps_everything_the_provider_said() {
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
