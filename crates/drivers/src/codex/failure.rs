//! Converts the errors of Codex into the errors that clients know.

use protocol::error::ApiError;
use protocol::{MessageError, Rest};
use serde_json::Value;

use super::NAME;
use super::wire::ReportedError;

/// The error of a turn that Codex reports as failed.
pub(super) fn failure(trouble: Option<&ReportedError>) -> MessageError {
    let Some(trouble) = trouble else {
        return MessageError::unknown("Codex reported a failed turn without a reason");
    };
    let message = sentence(trouble);
    let status = trouble.status();
    match trouble.kind() {
        Some("contextWindowExceeded") => {
            MessageError::ContextOverflow { message, response_body: None, extra: Rest::NONE }
        }
        Some("unauthorized") => {
            let message = format!("{message}; run `codex login`, or give Codex a key");
            MessageError::ProviderAuth { provider_id: NAME.into(), message, extra: Rest::NONE }
        }
        Some("cyberPolicy" | "misalignmentPolicyViolation") => {
            MessageError::ContentFilter { message, extra: Rest::NONE }
        }
        Some("other" | "sandboxError") | None if status.is_none() => MessageError::unknown(message),
        kind => MessageError::Api(ApiError {
            message,
            status_code: status,
            is_retryable: matches!(
                kind,
                Some("rateLimitExceeded" | "serverOverloaded" | "internalServerError" | "flexUnavailable")
            ),
            ..ApiError::default()
        }),
    }
}

/// The message of an error. Codex may pass on the provider's JSON answer, of which only the message is kept.
fn sentence(trouble: &ReportedError) -> String {
    let answer: Option<Value> = serde_json::from_str(&trouble.message).ok();
    let said = answer.as_ref().and_then(|answer| answer.pointer("/error/message")?.as_str());
    let said = said.unwrap_or(&trouble.message);
    match &trouble.additional_details {
        Some(details) if !details.is_empty() => format!("Codex: {said} ({details})"),
        _ => format!("Codex: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trouble(value: Value) -> ReportedError {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_message_of_the_provider_is_extracted() {
        let provider = r#"{"type":"error","error":{"type":"invalid_request_error","message":"mock 400"}}"#;
        let error = failure(Some(&trouble(json!({ "message": provider, "codexErrorInfo": "other" }))));
        assert_eq!(error, MessageError::unknown("Codex: mock 400"));
    }

    #[test]
    fn each_kind_of_error_is_mapped() {
        let of = |info: Value| failure(Some(&trouble(json!({ "message": "no", "codexErrorInfo": info }))));
        assert!(matches!(of(json!("contextWindowExceeded")), MessageError::ContextOverflow { .. }));
        assert!(
            matches!(of(json!("unauthorized")), MessageError::ProviderAuth { provider_id, .. } if provider_id == "codex")
        );
        assert!(matches!(of(json!("cyberPolicy")), MessageError::ContentFilter { .. }));
        assert!(matches!(of(json!("serverOverloaded")), MessageError::Api(error) if error.is_retryable));
        let stream = of(json!({ "responseStreamDisconnected": { "httpStatusCode": 429 } }));
        assert!(matches!(stream, MessageError::Api(error) if error.status_code == Some(429)));
        assert!(matches!(of(json!("somethingNew")), MessageError::Api(error) if !error.is_retryable));
        assert!(failure(None).message().contains("without a reason"));
    }
}
