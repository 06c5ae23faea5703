//! Error bodies of HTTP answers. OpenCode has two families, by age of the route: `{name, data}` and `{_tag, …}`.
//! The server maps them to status codes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with_macros::skip_serializing_none;

use crate::{Extra, Rest};

/// Body of an error answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WireError {
    /// An error as `{name, data}`.
    Named(NamedError),
    /// An error as `{_tag, …}`.
    Tagged(TaggedError),
    /// An error in neither form, from another server or a proxy.
    Other(Extra),
}

/// An error as `{name, data}`. The older routes use it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", content = "data")]
pub enum NamedError {
    /// The call is malformed.
    BadRequest {
        /// Error text. OpenCode cuts it at [`MAX_MESSAGE`] characters.
        message: String,
        /// The malformed part of the call.
        kind: Option<BadRequestKind>,
        #[serde(flatten)]
        extra: Rest,
    },
    /// The session or message does not exist.
    #[serde(rename = "NotFoundError")]
    NotFound {
        message: String,
        #[serde(flatten)]
        extra: Rest,
    },
    /// The server failed.
    #[serde(rename = "UnknownError")]
    Unknown {
        message: String,
        /// Id of the log line with the details: `err_` and eight characters.
        #[serde(rename = "ref")]
        reference: Option<String>,
        #[serde(flatten)]
        extra: Rest,
    },
    /// A configuration file is not valid JSON.
    #[serde(rename = "ConfigJsonError")]
    ConfigJson(ConfigFault),
    /// A configuration file does not fit its schema.
    #[serde(rename = "ConfigInvalidError")]
    ConfigInvalid(ConfigFault),
    /// The frontmatter of a Markdown file is malformed.
    #[serde(rename = "ConfigFrontmatterError")]
    ConfigFrontmatter(ConfigFault),
    /// The name of a configuration directory is misspelled.
    #[serde(rename = "ConfigDirectoryTypoError")]
    ConfigDirectoryTypo {
        path: String,
        /// The misspelled name.
        dir: String,
        /// The correct name.
        suggestion: String,
        #[serde(flatten)]
        extra: Rest,
    },
    /// An error name that this version does not know.
    #[serde(untagged)]
    Other { name: String, data: Value },
}

/// Maximum length of a bad request's message in characters, as in OpenCode.
pub const MAX_MESSAGE: usize = 1024;

/// The malformed part of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BadRequestKind {
    /// The path of the URL.
    Params,
    /// A header of the call.
    Headers,
    /// The query of the URL.
    Query,
    /// The body does not match its content type.
    Body,
    /// The body does not fit the route's schema.
    Payload,
}

/// A configuration file that the server cannot use.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigFault {
    pub path: Option<String>,
    pub message: Option<String>,
    /// One entry for each mistake in the file.
    pub issues: Option<Vec<Extra>>,
    #[serde(flatten)]
    pub extra: Rest,
}

macro_rules! tagged {
    ($($(#[$doc:meta])* $name:ident($wire:literal) { $($(#[$meta:meta])* $field:ident: $type:ty,)* })*) => {
        /// An error as `{_tag, …}`. The newer routes use it.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "_tag")]
        pub enum TaggedError {
            $($(#[$doc])* #[serde(rename = $wire)] $name {
                $($(#[$meta])* $field: $type,)*
                #[serde(flatten)]
                extra: Rest,
            },)*
        }
    };
}

tagged! {
    /// The handler refused the call.
    BadRequest("BadRequest") {}
    /// The call is malformed.
    InvalidRequest("InvalidRequestError") {
        message: String,
        /// The malformed part of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        /// Name of the malformed field.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
    }
    /// The list cursor is not one that this server issued.
    InvalidCursor("InvalidCursorError") {
        message: String,
    }
    /// The call has no valid credentials.
    Unauthorized("UnauthorizedError") {
        message: String,
    }
    /// The caller may not do this.
    Forbidden("ForbiddenError") {
        message: String,
    }
    /// The permission does not exist or no longer waits.
    PermissionNotFound("PermissionNotFoundError") {
        #[serde(rename = "requestID")]
        request_id: String,
        message: String,
    }
    /// The question does not exist or no longer waits.
    QuestionNotFound("QuestionNotFoundError") {
        #[serde(rename = "requestID")]
        request_id: String,
        message: String,
    }
    /// The terminal does not exist.
    PtyNotFound("PtyNotFoundError") {
        #[serde(rename = "ptyID")]
        pty_id: String,
        message: String,
    }
    /// The ticket is invalid, or the call for one lacks its header.
    PtyForbidden("PtyForbiddenError") {
        message: String,
    }
    /// The MCP server does not exist.
    McpServerNotFound("McpServerNotFoundError") {
        name: String,
        message: String,
    }
    /// The project does not exist.
    ProjectNotFound("ProjectNotFoundError") {
        #[serde(rename = "projectID")]
        project_id: String,
        message: String,
    }
    /// The provider does not exist.
    ProviderNotFound("ProviderNotFoundError") {
        #[serde(rename = "providerID")]
        provider_id: String,
        message: String,
    }
    /// The session does not exist.
    SessionNotFound("SessionNotFoundError") {
        #[serde(rename = "sessionID")]
        session_id: String,
        message: String,
    }
    /// The message does not exist.
    MessageNotFound("MessageNotFoundError") {
        #[serde(rename = "sessionID")]
        session_id: String,
        #[serde(rename = "messageID")]
        message_id: String,
        message: String,
    }
    /// The session is busy with a turn.
    SessionBusy("SessionBusyError") {
        #[serde(rename = "sessionID")]
        session_id: String,
        message: String,
    }
    /// The call conflicts with stored data.
    Conflict("ConflictError") {
        message: String,
        /// The conflicting resource.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
    }
    /// The server cannot handle the call now.
    ServiceUnavailable("ServiceUnavailableError") {
        message: String,
        /// The unavailable service.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<String>,
    }
    /// The server failed.
    Unknown("UnknownError") {
        message: String,
        /// Id of the log line with the details.
        #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
    }
}

impl WireError {
    /// Creates the error for a malformed call.
    pub fn bad_request(message: &str, kind: BadRequestKind) -> Self {
        let message = message.chars().take(MAX_MESSAGE).collect();
        Self::Named(NamedError::BadRequest { message, kind: Some(kind), extra: Rest::NONE })
    }

    /// Creates the error for a failure of the server; `reference` is the id of the log line.
    pub fn unknown(message: impl Into<String>, reference: Option<String>) -> Self {
        Self::Named(NamedError::Unknown { message: message.into(), reference, extra: Rest::NONE })
    }

    /// Returns the error's `name` or `_tag`.
    pub fn kind(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        let kind = value.get("name").filter(|_| matches!(self, Self::Named(_))).or_else(|| value.get("_tag"));
        kind.and_then(Value::as_str).unwrap_or("error").to_owned()
    }

    /// Returns the error text, if any.
    pub fn message(&self) -> Option<String> {
        let value = serde_json::to_value(self).unwrap_or_default();
        let message = value.get("message").or_else(|| value.get("data")?.get("message"));
        message.and_then(Value::as_str).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// All error shapes of OpenCode's API.
    fn shapes() -> Vec<Value> {
        vec![
            json!({ "name": "BadRequest", "data": { "message": "Missing key", "kind": "Payload" } }),
            json!({ "name": "NotFoundError", "data": { "message": "Session not found: ses_x" } }),
            json!({ "name": "UnknownError", "data": { "message": "broke", "ref": "err_12345678" } }),
            json!({ "name": "ConfigJsonError", "data": { "path": "/a", "message": "no" } }),
            json!({ "name": "ConfigInvalidError", "data": { "path": "/a", "issues": [{ "message": "no" }] } }),
            json!({ "name": "ConfigFrontmatterError", "data": { "path": "/a", "message": "no" } }),
            json!({ "name": "ConfigDirectoryTypoError", "data": { "path": "/a", "dir": "agents", "suggestion": "agent" } }),
            json!({ "name": "VcsApplyError", "data": { "message": "no", "reason": "non-git" } }),
            json!({ "_tag": "BadRequest" }),
            json!({ "_tag": "InvalidRequestError", "message": "no", "kind": "Query", "field": "limit" }),
            json!({ "_tag": "InvalidCursorError", "message": "no" }),
            json!({ "_tag": "UnauthorizedError", "message": "no" }),
            json!({ "_tag": "ForbiddenError", "message": "no" }),
            json!({ "_tag": "PermissionNotFoundError", "requestID": "per_x", "message": "no" }),
            json!({ "_tag": "QuestionNotFoundError", "requestID": "que_x", "message": "no" }),
            json!({ "_tag": "PtyNotFoundError", "ptyID": "pty_x", "message": "no" }),
            json!({ "_tag": "PtyForbiddenError", "message": "no" }),
            json!({ "_tag": "McpServerNotFoundError", "name": "db", "message": "no" }),
            json!({ "_tag": "ProjectNotFoundError", "projectID": "x", "message": "no" }),
            json!({ "_tag": "ProviderNotFoundError", "providerID": "x", "message": "no" }),
            json!({ "_tag": "SessionNotFoundError", "sessionID": "ses_x", "message": "no" }),
            json!({ "_tag": "MessageNotFoundError", "sessionID": "ses_x", "messageID": "msg_x", "message": "no" }),
            json!({ "_tag": "SessionBusyError", "sessionID": "ses_x", "message": "no" }),
            json!({ "_tag": "ConflictError", "message": "no", "resource": "x" }),
            json!({ "_tag": "ServiceUnavailableError", "message": "no", "service": "x" }),
            json!({ "_tag": "UnknownError", "message": "no", "ref": "err_1" }),
        ]
    }

    #[test]
    fn every_shape_survives_a_round_trip() {
        for wire in shapes() {
            let error: WireError = serde_json::from_value(wire.clone()).unwrap();
            assert!(!matches!(error, WireError::Other(_)), "{wire}");
            assert_eq!(serde_json::to_value(&error).unwrap(), wire);
            let kind = if wire.get("data").is_some() { &wire["name"] } else { &wire["_tag"] };
            assert_eq!(error.kind(), kind.as_str().unwrap());
        }
    }

    #[test]
    fn an_unknown_shape_survives_a_round_trip() {
        for wire in [json!({ "error": "teapot" }), json!({ "_tag": "FromTheFuture", "message": "hi" })] {
            let error: WireError = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(serde_json::to_value(&error).unwrap(), wire);
        }
    }

    #[test]
    fn messages_are_found_in_both_families() {
        assert_eq!(WireError::unknown("gone", None).message().as_deref(), Some("gone"));
        let busy = json!({ "_tag": "SessionBusyError", "sessionID": "ses_x", "message": "busy" });
        assert_eq!(serde_json::from_value::<WireError>(busy).unwrap().message().as_deref(), Some("busy"));
    }

    #[test]
    fn long_messages_of_bad_requests_are_cut() {
        let error = WireError::bad_request(&"ö".repeat(5_000), BadRequestKind::Body);
        assert_eq!(error.message().unwrap().chars().count(), MAX_MESSAGE);
    }
}
