//! What can go wrong inside a turn, in the shape that assistant messages and `session.error` carry.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Extra, Rest};

/// An error as `{name, data}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", content = "data")]
pub enum MessageError {
    /// A provider has no usable key.
    #[serde(rename = "ProviderAuthError", rename_all = "camelCase")]
    ProviderAuth {
        /// The provider.
        #[serde(rename = "providerID")]
        provider_id: String,
        /// For people.
        message: String,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// Anything without a name of its own.
    #[serde(rename = "UnknownError")]
    Unknown {
        /// For people.
        message: String,
        /// Points at the log line with the details.
        #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// Declared by OpenCode, never produced.
    #[serde(rename = "MessageOutputLengthError")]
    OutputLength {
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// Somebody stopped the turn.
    #[serde(rename = "MessageAbortedError")]
    Aborted {
        /// For people.
        message: String,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// The model did not produce the wanted structure.
    #[serde(rename = "StructuredOutputError")]
    StructuredOutput {
        /// For people.
        message: String,
        /// How often it was asked again.
        retries: u32,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// The conversation no longer fits the model.
    #[serde(rename = "ContextOverflowError", rename_all = "camelCase")]
    ContextOverflow {
        /// For people.
        message: String,
        /// What the provider answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_body: Option<String>,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// The provider refused to answer.
    #[serde(rename = "ContentFilterError")]
    ContentFilter {
        /// For people.
        message: String,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// The provider answered with an error.
    #[serde(rename = "APIError")]
    Api(ApiError),
    /// A name this version does not know.
    #[serde(untagged)]
    Other {
        /// The unknown name.
        name: String,
        /// Whatever came with it.
        data: Value,
    },
}

/// A provider's error answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiError {
    /// For people.
    pub message: String,
    /// HTTP status, if there was an answer at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    /// Whether asking again may help.
    pub is_retryable: bool,
    /// Headers of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<BTreeMap<String, String>>,
    /// Body of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_body: Option<String>,
    /// More facts, all strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl MessageError {
    /// An error without a name of its own.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::Unknown { message: message.into(), reference: None, extra: Rest::NONE }
    }

    /// The error of a turn that somebody stopped.
    pub fn aborted() -> Self {
        Self::Aborted { message: "Aborted".into(), extra: Rest::NONE }
    }

    /// The error of a turn that the server could not finish.
    pub fn interrupted() -> Self {
        Self::Aborted {
            message: "Interrupted: the server stopped before this turn was over".into(),
            extra: Rest::NONE,
        }
    }

    /// The sentence for people, where there is one.
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
