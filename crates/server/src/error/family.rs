//! OpenCode has two families of error bodies: `{name, data}` on its older routes and `{_tag, …}` on those under
//! `/api`. Handlers and extractors use one [`Error`]; the path alone decides in which family it is written.

use axum::{
    Json,
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use protocol::{
    Rest,
    wire_error::{BadRequestKind, NamedError, TaggedError, WireError},
};
use serde_json::{Value, json};

use super::{Error, Fault};

/// A family of error bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `{name, data}`.
    Older,
    /// `{_tag, …}`, the body of the routes below `/api`.
    Newer,
}

impl Family {
    /// The family that a path uses.
    pub fn of(path: &str) -> Self {
        if path.starts_with("/api/") { Self::Newer } else { Self::Older }
    }

    /// The component name and JSON Schema of an error's body.
    pub fn schema(self, fault: Fault) -> (String, Value) {
        match (self, fault) {
            // OpenCode's document uses this name, although its body says `BadRequest`.
            (Self::Older, Fault::BadRequest) => ("BadRequestError".into(), fault.schema()),
            (Self::Older, _) => (fault.name().into(), fault.schema()),
            (Self::Newer, _) => {
                let tag = tag(fault);
                let known = [Fault::PermissionGone, Fault::QuestionGone].contains(&fault);
                (if known { tag.into() } else { format!("Api{tag}") }, newer_schema(fault))
            }
        }
    }
}

/// A copy of an [`Error`] in the response's extensions, so that it can be rewritten in the other family.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) fault: Fault,
    pub(super) body: WireError,
    /// Kind and id of the item that was not found.
    pub(super) subject: Option<(&'static str, String)>,
}

/// Rewrites error responses in the family of the path.
pub(crate) async fn tell(call: Request, next: Next) -> Response {
    let path = call.uri().path().to_owned();
    let mut response = next.run(call).await;
    match (Family::of(&path), response.extensions_mut().remove::<Refusal>()) {
        (Family::Newer, Some(refusal)) => {
            let (mut parts, _) = response.into_parts();
            parts.headers.remove(http::header::CONTENT_LENGTH);
            let mut response = Json(newer(refusal, &path)).into_response();
            *response.status_mut() = parts.status;
            if let Some(wait) = parts.headers.remove(http::header::RETRY_AFTER) {
                response.headers_mut().insert(http::header::RETRY_AFTER, wait);
            }
            response
        }
        _ => response,
    }
}

fn newer(refusal: Refusal, path: &str) -> WireError {
    let Refusal { fault, body, subject } = refusal;
    let body = match body {
        WireError::Tagged(TaggedError::SessionBusy { message, session_id, .. }) => {
            TaggedError::Conflict { message, resource: Some(session_id), extra: Rest::NONE }
        }
        WireError::Tagged(body) => body,
        WireError::Named(_) if fault == Fault::NotFound && subject.is_none() => return nothing_there(&body),
        WireError::Named(body) => return WireError::Tagged(tagged(fault, body, subject, path)),
        other @ WireError::Other(_) => return other,
    };
    WireError::Tagged(body)
}

/// A missing item for which the newer family has no specific error.
fn nothing_there(body: &WireError) -> WireError {
    let message = body.message().unwrap_or_default();
    let fields = [("_tag", tag(Fault::NotFound).to_owned()), ("message", message)];
    WireError::Other(fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
}

fn tagged(
    fault: Fault,
    body: NamedError,
    subject: Option<(&'static str, String)>,
    path: &str,
) -> TaggedError {
    let (extra, whole) = (Rest::NONE, WireError::Named(body.clone()));
    let message = whole.message().unwrap_or_default();
    match (fault, body, subject) {
        (_, NamedError::BadRequest { kind, .. }, _) => {
            TaggedError::InvalidRequest { message, kind: kind.map(kind_name), field: None, extra }
        }
        (Fault::NotFound, _, Some(("Message", message_id))) => {
            let session_id = segment(path, 3);
            TaggedError::MessageNotFound { session_id, message_id, message, extra }
        }
        (Fault::NotFound, _, Some((_, session_id))) => {
            TaggedError::SessionNotFound { session_id, message, extra }
        }
        (_, NamedError::Unknown { reference, .. }, _) => TaggedError::Unknown { message, reference, extra },
        (fault, ..) if is_service(fault) => {
            TaggedError::ServiceUnavailable { message, service: Some(fault.name().into()), extra }
        }
        _ => TaggedError::InvalidRequest { message, kind: Some(fault.name().into()), field: None, extra },
    }
}

fn kind_name(kind: BadRequestKind) -> String {
    format!("{kind:?}")
}

fn segment(path: &str, number: usize) -> String {
    path.split('/').nth(number).unwrap_or_default().to_owned()
}

/// True for an error of the server and not of the call.
fn is_service(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::Overloaded
            | Fault::Closing
            | Fault::Full
            | Fault::NotBuilt
            | Fault::NodeAway
            | Fault::NotOwner
            | Fault::NodeLost
            | Fault::NodeRefused
            | Fault::NodeUnknown
    )
}

/// The `_tag` of an error under `/api`.
fn tag(fault: Fault) -> &'static str {
    match fault {
        Fault::NotFound => "NotFoundError",
        Fault::PermissionGone | Fault::QuestionGone | Fault::PtyGone | Fault::PtyForbidden => fault.name(),
        Fault::Busy | Fault::Conflict => "ConflictError",
        Fault::Broken => "UnknownError",
        fault if is_service(fault) => "ServiceUnavailableError",
        _ => "InvalidRequestError",
    }
}

fn newer_schema(fault: Fault) -> Value {
    let text = json!({ "type": "string" });
    let tags = match fault {
        Fault::NotFound => json!({ "enum": [
            tag(fault), "SessionNotFoundError", "MessageNotFoundError", "ProviderNotFoundError",
        ] }),
        Fault::BadRequest => json!({ "enum": [tag(fault), "InvalidCursorError"] }),
        _ => json!({ "const": tag(fault) }),
    };
    let field = match fault {
        Fault::NotFound => "sessionID",
        Fault::PermissionGone | Fault::QuestionGone => "requestID",
        Fault::Busy | Fault::Conflict => "resource",
        Fault::Broken => "ref",
        fault if is_service(fault) => "service",
        _ => "kind",
    };
    json!({
        "type": "object",
        "properties": { "_tag": tags, "message": text, field: text },
        "required": ["_tag", "message"],
    })
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        Self { fault: error.fault, body: (*error.body).clone(), subject: error.subject.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: impl Into<Error>, path: &str) -> Value {
        let error = error.into();
        serde_json::to_value(newer(Refusal::from(&error), path)).unwrap()
    }

    #[test]
    fn errors_under_api_have_their_own_shapes() {
        let path = "/api/session/ses_1/message/msg_2";
        let missing = |kind, id: &str| engine::Error::NotFound { kind, id: id.into() };
        let all = [
            told(missing("Session", "ses_1"), path),
            told(missing("Message", "msg_2"), path),
            told(
                engine::Error::NoRequest { kind: engine::RequestKind::Permission, id: "per_1".into() },
                path,
            ),
            told(engine::Error::Busy("ses_1".parse().unwrap()), path),
            told(engine::Error::Overloaded("too much".into()), path),
            told(engine::Error::Closing, path),
            told(Error::bad_request(BadRequestKind::Query, "limit: no number"), path),
        ];
        insta::assert_json_snapshot!(all);
    }

    #[test]
    fn the_path_decides() {
        assert_eq!(Family::of("/api/session"), Family::Newer);
        assert_eq!(Family::of("/apicultor"), Family::Older);
    }
}
