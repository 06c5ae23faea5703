//! Errors of a turn, in the form that assistant messages and `session.error` carry.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with_macros::skip_serializing_none;

use crate::{Extra, Rest};

/// An error as `{name, data}`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", content = "data")]
pub enum MessageError {
    /// The provider has no usable key.
    #[serde(rename = "ProviderAuthError", rename_all = "camelCase")]
    ProviderAuth {
        #[serde(rename = "providerID")]
        provider_id: String,
        message: String,
        #[serde(flatten)]
        extra: Rest,
    },
    /// An error without a name of its own.
    #[serde(rename = "UnknownError")]
    Unknown {
        message: String,
        /// Id of the log line with the details.
        #[serde(rename = "ref")]
        reference: Option<String>,
        #[serde(flatten)]
        extra: Rest,
    },
    /// Declared by OpenCode, never produced.
    #[serde(rename = "MessageOutputLengthError")]
    OutputLength {
        #[serde(flatten)]
        extra: Rest,
    },
    /// A client aborted the turn.
    #[serde(rename = "MessageAbortedError")]
    Aborted {
        message: String,
        #[serde(flatten)]
        extra: Rest,
    },
    /// The model did not produce the requested structure.
    #[serde(rename = "StructuredOutputError")]
    StructuredOutput {
        message: String,
        /// Number of additional attempts.
        retries: u32,
        #[serde(flatten)]
        extra: Rest,
    },
    /// The conversation no longer fits into the model's context.
    #[serde(rename = "ContextOverflowError", rename_all = "camelCase")]
    ContextOverflow {
        message: String,
        /// Body of the provider's answer.
        response_body: Option<String>,
        #[serde(flatten)]
        extra: Rest,
    },
    /// The provider's content filter stopped the answer.
    #[serde(rename = "ContentFilterError")]
    ContentFilter {
        message: String,
        #[serde(flatten)]
        extra: Rest,
    },
    /// The provider answered with an error.
    #[serde(rename = "APIError")]
    Api(ApiError),
    /// An error name that this version does not know.
    #[serde(untagged)]
    Other { name: String, data: Value },
}

/// A provider's error answer.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiError {
    pub message: String,
    /// HTTP status; absent if the provider did not answer.
    pub status_code: Option<u16>,
    /// True if a retry may succeed.
    pub is_retryable: bool,
    /// HTTP headers of the answer.
    pub response_headers: Option<BTreeMap<String, String>>,
    /// Body of the answer.
    pub response_body: Option<String>,
    /// Further details.
    pub metadata: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    pub extra: Extra,
}

impl MessageError {
    /// Creates an error without a name of its own.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::Unknown { message: message.into(), reference: None, extra: Rest::NONE }
    }

    /// The error of a turn that a client aborted.
    pub fn aborted() -> Self {
        Self::Aborted { message: "Aborted".into(), extra: Rest::NONE }
    }

    /// The error of a turn that a server stop interrupted.
    pub fn interrupted() -> Self {
        Self::Aborted {
            message: "Interrupted: the server stopped before this turn was over".into(),
            extra: Rest::NONE,
        }
    }

    /// Returns the error text for users.
    pub fn message(&self) -> &str {
        match self {
            Self::ProviderAuth { message, .. }
            | Self::Unknown { message, .. }
            | Self::Aborted { message, .. }
            | Self::StructuredOutput { message, .. }
            | Self::ContextOverflow { message, .. }
            | Self::ContentFilter { message, .. } => message,
            Self::Api(error) => &error.message,
            Self::OutputLength { .. } => "the answer was too long",
            Self::Other { data, name } => data.get("message").and_then(Value::as_str).unwrap_or(name),
        }
    }
}
