//! Error bodies of HTTP answers. OpenCode has two families, by the age of the route: `{name, data}` and
//! `{_tag, …}`. Which status goes with which is the server's business.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Extra, Rest};

/// The body of an answer that is not a success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WireError {
    /// `{name, data}`.
    Named(NamedError),
    /// `{_tag, …}`.
    Tagged(TaggedError),
    /// Neither: another server's, or a proxy's.
    Other(Extra),
}

/// An error as `{name, data}`, by the older routes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", content = "data")]
pub enum NamedError {
    /// The request does not fit the route.
    BadRequest {
        /// For people; OpenCode cuts it at [`MAX_MESSAGE`] characters.
        message: String,
        /// What did not fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<BadRequestKind>,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// No such session or message.
    #[serde(rename = "NotFoundError")]
    NotFound {
        /// For people.
        message: String,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// Something broke inside the server.
    #[serde(rename = "UnknownError")]
    Unknown {
        /// For people.
        message: String,
        /// Points at the log line with the details: `err_` and eight characters.
        #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// A configuration file is not JSON.
    #[serde(rename = "ConfigJsonError")]
    ConfigJson(ConfigFault),
    /// A configuration file does not fit its schema.
    #[serde(rename = "ConfigInvalidError")]
    ConfigInvalid(ConfigFault),
    /// A markdown file's head is broken.
    #[serde(rename = "ConfigFrontmatterError")]
    ConfigFrontmatter(ConfigFault),
    /// A configuration folder is misspelled.
    #[serde(rename = "ConfigDirectoryTypoError")]
    ConfigDirectoryTypo {
        /// Where it is.
        path: String,
        /// What it is called.
        dir: String,
        /// What it should be called.
        suggestion: String,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// A name this version does not know.
    #[serde(untagged)]
    Other {
        /// The unknown name.
        name: String,
        /// Whatever came with it.
        data: Value,
    },
}

/// OpenCode cuts the messages of bad requests here.
pub const MAX_MESSAGE: usize = 1024;

/// Which piece of a request did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BadRequestKind {
    /// The path.
    Params,
    /// A header.
    Headers,
    /// The query.
    Query,
    /// The body is not what its content type says.
    Body,
    /// The body does not fit the route.
    Payload,
}

/// A configuration file that cannot be used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigFault {
    /// The file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What is wrong, place by place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issues: Option<Vec<Extra>>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

macro_rules! tagged {
    ($($(#[$doc:meta])* $name:ident($wire:literal) { $($(#[$meta:meta])* $field:ident: $type:ty,)* })*) => {
        /// An error as `{_tag, …}`, by the newer routes.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "_tag")]
        pub enum TaggedError {
            $($(#[$doc])* #[serde(rename = $wire)] $name {
                $($(#[$meta])* $field: $type,)*
                /// Fields this version does not know.
                #[serde(flatten)]
                extra: Rest,
            },)*
        }
    };
}

tagged! {
    /// The handler refused the request.
    BadRequest("BadRequest") {}
    /// The request does not fit the route.
    InvalidRequest("InvalidRequestError") {
        /// For people.
        message: String,
        /// What did not fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        /// Where.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
    }
    /// A list cursor that this server did not make.
    InvalidCursor("InvalidCursorError") {
        /// For people.
        message: String,
    }
    /// Who are you?
    Unauthorized("UnauthorizedError") {
        /// For people.
        message: String,
    }
    /// You may not.
    Forbidden("ForbiddenError") {
        /// For people.
        message: String,
    }
    /// No such permission, or it waits no longer.
    PermissionNotFound("PermissionNotFoundError") {
        /// The request.
        #[serde(rename = "requestID")]
        request_id: String,
        /// For people.
        message: String,
    }
    /// No such question, or it waits no longer.
    QuestionNotFound("QuestionNotFoundError") {
        /// The request.
        #[serde(rename = "requestID")]
        request_id: String,
        /// For people.
        message: String,
    }
    /// No such terminal.
    PtyNotFound("PtyNotFoundError") {
        /// The terminal.
        #[serde(rename = "ptyID")]
        pty_id: String,
        /// For people.
        message: String,
    }
    /// Nobody may type here who does not say how they came in.
    PtyForbidden("PtyForbiddenError") {
        /// For people.
        message: String,
    }
    /// No such MCP server.
    McpServerNotFound("McpServerNotFoundError") {
        /// The server.
        name: String,
        /// For people.
        message: String,
    }
    /// No such project.
    ProjectNotFound("ProjectNotFoundError") {
        /// The project.
        #[serde(rename = "projectID")]
        project_id: String,
        /// For people.
        message: String,
    }
    /// No such provider.
    ProviderNotFound("ProviderNotFoundError") {
        /// The provider.
        #[serde(rename = "providerID")]
        provider_id: String,
        /// For people.
        message: String,
    }
    /// No such session.
    SessionNotFound("SessionNotFoundError") {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
        /// For people.
        message: String,
    }
    /// No such message.
    MessageNotFound("MessageNotFoundError") {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
        /// The message.
        #[serde(rename = "messageID")]
        message_id: String,
        /// For people.
        message: String,
    }
    /// Not while a turn is running.
    SessionBusy("SessionBusyError") {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
        /// For people.
        message: String,
    }
    /// The request contradicts what is stored.
    Conflict("ConflictError") {
        /// For people.
        message: String,
        /// What it contradicts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
    }
    /// Not now.
    ServiceUnavailable("ServiceUnavailableError") {
        /// For people.
        message: String,
        /// What is not there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<String>,
    }
    /// Something broke inside the server.
    Unknown("UnknownError") {
        /// For people.
        message: String,
        /// Points at the log line with the details.
        #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
        reference: Option<String>,
    }
}

impl WireError {
    /// The request does not fit the route.
    pub fn bad_request(message: &str, kind: BadRequestKind) -> Self {
        let message = message.chars().take(MAX_MESSAGE).collect();
        Self::Named(NamedError::BadRequest { message, kind: Some(kind), extra: Rest::NONE })
    }

    /// No such session or message.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::Named(NamedError::NotFound { message: message.into(), extra: Rest::NONE })
    }

    /// Something broke inside the server; `reference` points at the log line.
    pub fn unknown(message: impl Into<String>, reference: Option<String>) -> Self {
        Self::Named(NamedError::Unknown { message: message.into(), reference, extra: Rest::NONE })
    }

    /// What kind of error it is: its `name` or `_tag`.
    pub fn kind(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        let kind = value.get("name").filter(|_| matches!(self, Self::Named(_))).or_else(|| value.get("_tag"));
        kind.and_then(Value::as_str).unwrap_or("error").to_owned()
    }

    /// The sentence for people, where there is one.
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

    /// Every shape of OpenCode's API, with the kind it is understood as.
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
    fn every_shape_is_understood_and_comes_back_the_same() {
        for wire in shapes() {
            let error: WireError = serde_json::from_value(wire.clone()).unwrap();
            assert!(!matches!(error, WireError::Other(_)), "{wire}");
            assert_eq!(serde_json::to_value(&error).unwrap(), wire);
            let kind = if wire.get("data").is_some() { &wire["name"] } else { &wire["_tag"] };
            assert_eq!(error.kind(), kind.as_str().unwrap());
        }
    }

    #[test]
    fn what_nobody_knows_is_kept_as_it_is() {
        for wire in [json!({ "error": "teapot" }), json!({ "_tag": "FromTheFuture", "message": "hi" })] {
            let error: WireError = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(serde_json::to_value(&error).unwrap(), wire);
        }
    }

    #[test]
    fn messages_are_found_in_both_families() {
        assert_eq!(WireError::not_found("gone").message().as_deref(), Some("gone"));
        let busy = json!({ "_tag": "SessionBusyError", "sessionID": "ses_x", "message": "busy" });
        assert_eq!(serde_json::from_value::<WireError>(busy).unwrap().message().as_deref(), Some("busy"));
    }

    #[test]
    fn long_messages_of_bad_requests_are_cut() {
        let error = WireError::bad_request(&"ö".repeat(5_000), BadRequestKind::Body);
        assert_eq!(error.message().unwrap().chars().count(), MAX_MESSAGE);
    }
}
