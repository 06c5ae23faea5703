//! Errors on the wire. No other module maps errors to status codes.
//!
//! The bodies are OpenCode's, so that its clients can display them. The message tells a user what to do;
//! details for an operator are in the log, under the reference that the response contains.

mod family;

use std::{error::Error as StdError, fmt, fmt::Write as _};

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use engine::{
    RequestKind,
    ports::{Random, StoreFailure, SystemRandom, Unresolved},
};
use http::{HeaderValue, StatusCode, header};
use protocol::{
    PermissionId, Rest,
    wire_error::{BadRequestKind, NamedError, TaggedError, WireError},
};
use serde_json::{Map, Value, json};

use crate::{instance::Invalid, logins::LoginFault};
pub use family::Family;
pub(crate) use family::tell;

/// Seconds that a client should wait after an overload or a timeout.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Seconds that a client should wait for a node that is away.
const RETRY_AWAY: HeaderValue = HeaderValue::from_static("5");

/// Kinds of errors that clients can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call does not match the route.
    BadRequest,
    /// The directory's configuration is invalid.
    Configuration,
    /// There is no such session, message or path.
    NotFound,
    /// The permission request does not exist or is no longer pending.
    PermissionGone,
    /// The question does not exist or is no longer pending.
    QuestionGone,
    /// There is no such project.
    ProjectGone,
    /// There is no such terminal in the directory.
    PtyGone,
    /// The client may not open this terminal, for instance without a valid ticket.
    PtyForbidden,
    /// Git would not apply the patch.
    NotApplied,
    /// A worktree could not be created, reset or removed.
    Worktree,
    /// A login could not be started or completed.
    LogIn,
    /// There is no such MCP server.
    ServerGone,
    /// The path exists, but does not support this method.
    MethodNotAllowed,
    /// The body took too long to arrive.
    TooSlow,
    /// The operation is impossible while a turn is running.
    Busy,
    /// The call conflicts with stored data, for instance with a prompt that no longer waits.
    Conflict,
    /// The body exceeds [`MAX_BODY`](crate::extract::MAX_BODY).
    TooLarge,
    /// The content type is not JSON.
    UnsupportedMedia,
    /// A queue or limit is full.
    Overloaded,
    /// An internal error of the server.
    Broken,
    /// OpenCode has this operation, Baton does not yet.
    NotBuilt,
    /// The server is shutting down, or its database cannot be reached.
    Closing,
    /// No space is left for the database.
    Full,
    /// The files of the workspace are on a node that does not answer.
    NodeAway,
    /// This node does not own the workspace that another node has asked it about.
    NotOwner,
    /// The node that worked on the call has stopped to answer; the call may have had its effect.
    NodeLost,
    /// Another node refuses calls of this one, or sends what a node would not.
    NodeRefused,
    /// The caller has not proved that it is a node of this fleet.
    NodeUnknown,
}

impl Fault {
    pub fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::Configuration | Self::NotApplied | Self::Worktree | Self::LogIn => {
                StatusCode::BAD_REQUEST
            }
            Self::NotFound
            | Self::PermissionGone
            | Self::QuestionGone
            | Self::ProjectGone
            | Self::ServerGone
            | Self::PtyGone => StatusCode::NOT_FOUND,
            Self::PtyForbidden => StatusCode::FORBIDDEN,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy | Self::Conflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Self::Broken => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotBuilt => StatusCode::NOT_IMPLEMENTED,
            Self::Closing | Self::NodeAway => StatusCode::SERVICE_UNAVAILABLE,
            Self::Full => StatusCode::INSUFFICIENT_STORAGE,
            Self::NotOwner => StatusCode::MISDIRECTED_REQUEST,
            Self::NodeLost | Self::NodeRefused => StatusCode::BAD_GATEWAY,
            Self::NodeUnknown => StatusCode::UNAUTHORIZED,
        }
    }

    /// The `name` or `_tag` of the body. Names that OpenCode has are OpenCode's.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Configuration => "ConfigInvalidError",
            Self::NotFound => "NotFoundError",
            Self::PermissionGone => "PermissionNotFoundError",
            Self::QuestionGone => "QuestionNotFoundError",
            Self::ProjectGone => "ProjectNotFoundError",
            Self::PtyGone => "PtyNotFoundError",
            Self::PtyForbidden => "PtyForbiddenError",
            Self::NotApplied => "VcsApplyError",
            Self::Worktree => "WorktreeError",
            Self::LogIn => "ProviderAuthError",
            Self::ServerGone => "McpServerNotFoundError",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::TooSlow => "RequestTimeout",
            Self::Busy => "SessionBusyError",
            Self::Conflict => "ConflictError",
            Self::TooLarge => "PayloadTooLarge",
            Self::UnsupportedMedia => "UnsupportedMediaType",
            Self::Overloaded => "TooManyRequests",
            Self::Broken => "UnknownError",
            Self::NotBuilt => "NotImplemented",
            Self::Closing => "ServiceUnavailableError",
            Self::Full => "InsufficientStorage",
            Self::NodeAway => "NodeAway",
            Self::NotOwner => "NotOwner",
            Self::NodeLost => "NodeLost",
            Self::NodeRefused => "NodeRefused",
            Self::NodeUnknown => "NodeUnknown",
        }
    }

    /// JSON Schema of the body.
    pub fn schema(self) -> Value {
        let text = json!({ "type": "string" });
        let name = match self {
            // These two faults share one shape and have a name for each cause.
            Self::Worktree => json!({ "type": "string", "pattern": "^Worktree" }),
            Self::LogIn => json!({ "enum": LoginFault::NAMES }),
            _ => json!({ "const": self.name() }),
        };
        let object = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required });
        let tagged = |field: &str| {
            object(json!({ "_tag": name, field: text, "message": text }), json!(["_tag", field, "message"]))
        };
        let data = |more: Option<(&str, Value)>| {
            let more = more.map(|(field, schema)| (field.to_owned(), schema));
            let fields: Map<_, _> = [("message".to_owned(), text.clone())].into_iter().chain(more).collect();
            let data = object(fields.into(), json!(["message"]));
            object(json!({ "name": name, "data": data }), json!(["name", "data"]))
        };
        match self {
            Self::BadRequest => {
                data(Some(("kind", json!({ "enum": ["Params", "Headers", "Query", "Body", "Payload"] }))))
            }
            Self::Broken => data(Some(("ref", json!({ "type": "string", "pattern": "^err_" })))),
            Self::PermissionGone | Self::QuestionGone => tagged("requestID"),
            Self::ProjectGone => tagged("projectID"),
            Self::ServerGone => tagged("name"),
            Self::PtyGone => tagged("ptyID"),
            Self::Busy => tagged("sessionID"),
            Self::NotApplied => data(Some(("reason", json!({ "enum": ["non-git", "not-clean"] })))),
            Self::Configuration => data(Some(("path", text.clone()))),
            Self::Closing | Self::PtyForbidden | Self::Conflict => {
                object(json!({ "_tag": name, "message": text }), json!(["_tag", "message"]))
            }
            _ => data(None),
        }
    }
}

/// An error response.
#[derive(Debug)]
pub struct Error {
    fault: Fault,
    body: Box<WireError>,
    /// Kind and id of the item that was not found.
    subject: Option<(&'static str, String)>,
}

impl Error {
    /// The call does not match the route.
    pub fn bad_request(kind: BadRequestKind, message: impl AsRef<str>) -> Self {
        Self::new(Fault::BadRequest, WireError::bad_request(message.as_ref(), kind))
    }

    /// An error that consists of a message only.
    pub fn plain(fault: Fault, message: impl Into<String>) -> Self {
        let (name, data) = (fault.name().into(), json!({ "message": message.into() }));
        Self::new(fault, WireError::Named(NamedError::Other { name, data }))
    }

    /// An internal error. The details go to the log, the reference to the client.
    pub fn broken(details: &dyn fmt::Display) -> Self {
        let reference = reference();
        tracing::error!(%reference, %details, "a call failed");
        let message = format!("Internal error; the server's log has the details under {reference}.");
        Self::new(Fault::Broken, WireError::unknown(message, Some(reference)))
    }

    /// The permission request does not exist or is no longer pending.
    pub(crate) fn permission_gone(id: &PermissionId) -> Self {
        engine::Error::NoRequest { kind: RequestKind::Permission, id: id.to_string() }.into()
    }

    /// There is no such MCP server.
    pub(crate) fn no_server(name: &str) -> Self {
        let message = format!("There is no MCP server \"{name}\" in this directory.");
        let (name, extra) = (name.to_owned(), Rest::NONE);
        Self::tagged(Fault::ServerGone, TaggedError::McpServerNotFound { name, message, extra })
    }

    pub fn status(&self) -> StatusCode {
        self.fault.status()
    }

    /// An error with a specific body.
    pub(crate) fn new(fault: Fault, body: WireError) -> Self {
        Self { fault, body: Box::new(body), subject: None }
    }

    fn tagged(fault: Fault, body: TaggedError) -> Self {
        Self::new(fault, WireError::Tagged(body))
    }
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        let (message, extra) = (error.to_string(), Rest::NONE);
        match error {
            engine::Error::NotFound { kind, id } => {
                Self { subject: Some((kind, id)), ..Self::plain(Fault::NotFound, message) }
            }
            engine::Error::NoRequest { kind: RequestKind::Permission, id: request_id } => {
                let body = TaggedError::PermissionNotFound { request_id, message, extra };
                Self::tagged(Fault::PermissionGone, body)
            }
            engine::Error::NoRequest { kind: RequestKind::Question, id: request_id } => {
                let body = TaggedError::QuestionNotFound { request_id, message, extra };
                Self::tagged(Fault::QuestionGone, body)
            }
            engine::Error::Busy(session) => {
                let session_id = session.to_string();
                Self::tagged(Fault::Busy, TaggedError::SessionBusy { session_id, message, extra })
            }
            engine::Error::Held(_) => {
                Self::tagged(Fault::Busy, TaggedError::Conflict { message, resource: None, extra })
            }
            engine::Error::Started(prompt) | engine::Error::Withdrawn(prompt) => {
                let resource = Some(prompt.to_string());
                Self::tagged(Fault::Conflict, TaggedError::Conflict { message, resource, extra })
            }
            engine::Error::Unresolved(Unresolved::Configuration { message, .. }) => {
                Invalid { path: None, message }.into()
            }
            engine::Error::Unresolved(_) | engine::Error::Invalid(_) => {
                Self::bad_request(BadRequestKind::Payload, message)
            }
            engine::Error::Overloaded(_) => Self::plain(Fault::Overloaded, message),
            engine::Error::Closing | engine::Error::Draining => {
                let body = TaggedError::ServiceUnavailable { message, service: None, extra };
                Self::tagged(Fault::Closing, body)
            }
            engine::Error::Store(store) if store.failure == StoreFailure::Full => Self::plain(
                Fault::Full,
                "No space is left for the database: nothing new can be accepted until some is freed. \
                 Reading still works.",
            ),
            engine::Error::Store(store)
                if matches!(store.failure, StoreFailure::Unavailable | StoreFailure::Fenced) =>
            {
                let reference = reference();
                tracing::error!(%reference, details = %store, "a call failed");
                let message = format!(
                    "The database cannot be used at the moment; try again later. The server's log has the details \
                     under {reference}."
                );
                let service = Some("database".to_owned());
                Self::tagged(Fault::Closing, TaggedError::ServiceUnavailable { message, service, extra })
            }
            engine::Error::Undo(_) => {
                tracing::error!(message, "files could not be restored");
                Self::new(Fault::Broken, WireError::unknown(message, None))
            }
            other => Self::broken(&other),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.status())?;
        self.body.message().map_or(Ok(()), |message| write!(out, ": {message}"))
    }
}

impl StdError for Error {}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let refusal = family::Refusal::from(&self);
        let mut response = (self.status(), Json(self.body)).into_response();
        response.extensions_mut().insert(refusal);
        let wait = match self.fault {
            Fault::Overloaded | Fault::Closing => Some(RETRY_AFTER),
            Fault::NodeAway => Some(RETRY_AWAY),
            _ => None,
        };
        if let Some(wait) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, wait);
        }
        response
    }
}

/// `err_` and eight hexadecimal digits, for the response and the log.
fn reference() -> String {
    let mut bytes = [0; 4];
    SystemRandom.fill(&mut bytes);
    let mut reference = String::from("err_");
    for byte in bytes {
        // Writing into memory cannot fail.
        let _ = write!(reference, "{byte:02x}");
    }
    reference
}

#[cfg(test)]
mod tests {
    use engine::ports;

    use super::*;

    async fn shown(error: impl Into<Error>) -> (u16, Value) {
        let response = error.into().into_response();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn engine_errors_have_opencodes_shapes() {
        let busy = engine::Error::Busy("ses_1".parse().unwrap());
        let missing = |kind| engine::Error::NoRequest { kind, id: "x".into() };
        let all = [
            shown(engine::Error::NotFound { kind: "Session", id: "ses_1".into() }).await,
            shown(missing(RequestKind::Permission)).await,
            shown(missing(RequestKind::Question)).await,
            shown(busy).await,
            shown(engine::Error::Held(protocol::continuation::StopReason::Stagnant)).await,
            shown(engine::Error::Started("msg_1".parse().unwrap())).await,
            shown(engine::Error::Withdrawn("msg_1".parse().unwrap())).await,
            shown(engine::Error::Invalid("no sense".into())).await,
            shown(engine::Error::Overloaded("too much".into())).await,
            shown(engine::Error::Closing).await,
            shown(engine::Error::Store(ports::Error::new(StoreFailure::Full, "disk"))).await,
        ];
        insta::assert_json_snapshot!(all);
    }

    #[tokio::test]
    async fn details_of_a_broken_store_stay_inside() {
        let secret = "table `sessions` in /srv/ada.db";
        let (status, body) =
            shown(engine::Error::Store(ports::Error::new(StoreFailure::Corrupt, secret))).await;
        assert_eq!((status, &body["name"]), (500, &json!("UnknownError")));
        assert!(!body.to_string().contains("sessions"), "{body}");
        let reference = body["data"]["ref"].as_str().unwrap();
        assert_eq!(reference.len(), "err_12345678".len());
        assert!(body["data"]["message"].as_str().unwrap().contains(reference));
    }

    #[tokio::test]
    async fn a_database_that_cannot_be_reached_is_a_503_without_details() {
        let secret = "postgres://ada@db/baton refused the connection";
        let (status, body) =
            shown(engine::Error::Store(ports::Error::new(StoreFailure::Unavailable, secret))).await;
        assert_eq!(
            (status, &body["_tag"], &body["service"]),
            (503, &json!("ServiceUnavailableError"), &json!("database"))
        );
        assert!(!body.to_string().contains("ada"), "{body}");
    }

    #[test]
    fn an_overloaded_server_asks_clients_to_wait() {
        let response = Error::from(engine::Error::Overloaded("x".into())).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
