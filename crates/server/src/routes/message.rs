//! Messages and their parts.

mod brief;
mod window;

use std::error::Error as _;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use engine::ports::Cursor;
use http::{HeaderName, HeaderValue, header};
use protocol::{
    MessageId, MessageWithParts, Millis, Part, PartBody, PartId, SessionId, part, wire_error::BadRequestKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use self::{brief::Outputs, window::Window};
use super::page::NEXT_CURSOR;
use crate::{
    App, Error,
    array::Array,
    error::Fault,
    extract::{Body, Link, Params, Query},
    openapi::{Class, Gives, Operation, Route},
};

const NEWER_CURSOR: HeaderName = HeaderName::from_static("x-newer-cursor");

pub(super) fn routes() -> Vec<Route> {
    let missing = &[Fault::NotFound];
    vec![
        Route::get(Class::Record, "/session/{sessionID}/message", "session.messages", list)
            .summary("List the messages of a session, oldest first")
            .faults(missing),
        Route::get(Class::Record, "/session/{sessionID}/message/{messageID}", "session.message", get)
            .summary("Get a message")
            .faults(missing),
        Route::delete(
            Class::Session,
            "/session/{sessionID}/message/{messageID}",
            "session.deleteMessage",
            delete,
        )
        .summary("Delete a message; fails while the session is busy")
        .faults(&[Fault::NotFound, Fault::Busy])
        .stores(),
        Route::delete(
            Class::Session,
            "/session/{sessionID}/message/{messageID}/part/{partID}",
            "part.delete",
            delete_part,
        )
        .summary("Delete a part; fails while its message is open")
        .faults(&[Fault::NotFound, Fault::Busy])
        .stores(),
        Route::patch(
            Class::Session,
            "/session/{sessionID}/message/{messageID}/part/{partID}",
            "part.update",
            update_part,
        )
        .summary("Replace a part; fails while its message is open")
        .faults(&[Fault::NotFound, Fault::Busy])
        .stores(),
    ]
}

/// Query of a message list.
#[derive(Debug, Deserialize, JsonSchema)]
struct ListQuery {
    /// Returns only this number of the newest messages. Absent or 0 for all.
    limit: Option<usize>,
    /// Returns only messages older than this cursor of the previous page. Requires `limit`.
    before: Option<String>,
    /// Returns the oldest messages that are newer than this cursor. Requires `limit` (Baton's addition).
    after: Option<String>,
    /// Returns this message and those around it, half of them older. Requires `limit` (Baton's addition).
    around: Option<MessageId>,
    /// `brief` to cut long outputs of tools; `GET /session/{sessionID}/message/{messageID}` returns them whole (Baton's
    /// addition).
    outputs: Option<Outputs>,
}

/// A page of messages, with the cursor and URL of the older page.
struct Listed {
    messages: Array,
    older: Option<(String, String)>,
    newer: Option<String>,
}

async fn list(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Query(query): Query<ListQuery>,
    link: Link,
) -> Result<Listed, Error> {
    let window = Window::of(&app, &id, &query).await?;
    let pages = app.sessions.pages(&id, window.after, window.before).await?;
    let outputs = query.outputs.unwrap_or_default();
    let messages = Array::begin(pages, ("[", "]"), move |page, elements| {
        for record in page {
            elements.record(&outputs.apply(record));
        }
        Ok(())
    })
    .await?;
    let oldest = messages.first.as_ref().filter(|_| window.has_older).zip(window.limit);
    let older = oldest.map(|(oldest, limit)| {
        let cursor = write_cursor(oldest);
        let next = link.next(&[("limit", &limit.to_string()), ("before", &cursor)]);
        (cursor, next)
    });
    Ok(Listed { messages, older, newer: window.newer.as_ref().map(write_cursor) })
}

impl IntoResponse for Listed {
    fn into_response(self) -> Response {
        let mut response = self.messages.into_response();
        let headers = response.headers_mut();
        if let Some(newer) = self.newer.and_then(|cursor| HeaderValue::from_str(&cursor).ok()) {
            headers.insert(NEWER_CURSOR, newer);
        }
        if let Some((cursor, next)) = self.older {
            // A URL with characters that a header cannot hold is omitted; the cursor suffices.
            for (name, value) in [(NEXT_CURSOR, cursor), (header::LINK, next)] {
                if let Ok(value) = HeaderValue::from_str(&value) {
                    headers.insert(name, value);
                }
            }
        }
        response
    }
}

impl Gives for Listed {
    fn describe(operation: &mut Operation) {
        operation.gives::<Vec<MessageWithParts>>(&[
            ("X-Next-Cursor", "Cursor of the page with older messages. Absent on the last page."),
            ("Link", "URL of the page with older messages. Absent on the last page."),
            (
                "X-Newer-Cursor",
                "With `after` and `around`: cursor for `after` that continues with newer messages. Absent at the end.",
            ),
        ]);
    }
}

/// A cursor in OpenCode's format: base64 of this JSON object.
#[derive(Debug, Serialize, Deserialize)]
struct WireCursor {
    id: MessageId,
    time: Millis,
}

fn write_cursor(cursor: &Cursor) -> String {
    let cursor = WireCursor { id: cursor.id.clone(), time: cursor.created };
    BASE64.encode(serde_json::to_vec(&cursor).unwrap_or_default())
}

fn read_cursor(text: &str) -> Result<Cursor, Error> {
    let bytes = BASE64.decode(text.trim_end_matches('=')).ok();
    let cursor = bytes.and_then(|bytes| serde_json::from_slice::<WireCursor>(&bytes).ok());
    let refuse = || Error::bad_request(BadRequestKind::Query, "not a cursor of this server");
    cursor.map(|cursor| Cursor { created: cursor.time, id: cursor.id }).ok_or_else(refuse)
}

async fn get(
    State(app): State<App>,
    Params((id, message)): Params<(SessionId, MessageId)>,
) -> Result<Json<MessageWithParts>, Error> {
    Ok(Json(app.sessions.message(&id, &message).await?))
}

async fn delete(
    State(app): State<App>,
    Params((id, message)): Params<(SessionId, MessageId)>,
) -> Result<Json<bool>, Error> {
    app.sessions.delete_message(&id, &message).await?;
    Ok(Json(true))
}

async fn delete_part(
    State(app): State<App>,
    Params((id, message, part)): Params<(SessionId, MessageId, PartId)>,
) -> Result<Json<bool>, Error> {
    app.sessions.delete_part(&id, &message, &part).await?;
    Ok(Json(true))
}

async fn update_part(
    State(app): State<App>,
    Params((id, message, part)): Params<(SessionId, MessageId, PartId)>,
    Body(new): Body<Part>,
) -> Result<Json<Part>, Error> {
    let refuse = |message: String| Err(Error::bad_request(BadRequestKind::Payload, message));
    if (&new.session_id, &new.message_id, &new.id) != (&id, &message, &part) {
        return refuse("id, sessionID and messageID must match the path".into());
    }
    if let PartBody::Other(fields) = &new.body {
        return refuse(misfit(&Value::Object(fields.clone())));
    }
    Ok(Json(app.sessions.update_part(&id, new).await?))
}

/// Explains why a part does not fit any known type. The type accepts unknown parts so that reading the log never
/// fails, but a client must not store one.
fn misfit(body: &Value) -> String {
    fn check<T: DeserializeOwned>(body: &Value) -> Option<String> {
        let rejection = Json::<T>::from_bytes(body.to_string().as_bytes()).err()?;
        let reason = rejection.source().map_or_else(|| rejection.body_text(), ToString::to_string);
        // The line and column refer to re-serialised text that the client never sent.
        Some(reason.split(" at line ").next().unwrap_or_default().to_owned())
    }
    let kind = body.get("type").and_then(Value::as_str).unwrap_or_default();
    let reason = match kind {
        "text" => check::<part::TextPart>(body),
        "reasoning" => check::<part::ReasoningPart>(body),
        "tool" => check::<part::ToolPart>(body),
        "step-start" => check::<part::StepStartPart>(body),
        "step-finish" => check::<part::StepFinishPart>(body),
        "patch" => check::<part::PatchPart>(body),
        "file" => check::<part::FilePart>(body),
        "agent" => check::<part::AgentPart>(body),
        "subtask" => check::<part::SubtaskPart>(body),
        "compaction" => check::<part::CompactionPart>(body),
        "retry" => check::<part::RetryPart>(body),
        "snapshot" => check::<part::SnapshotPart>(body),
        _ => None,
    };
    reason.unwrap_or_else(|| format!("type: there is no part of type {kind:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cursors_have_the_format_of_opencode() {
        let cursor = Cursor { created: 1_794_724_745_755, id: "msg_1".parse().unwrap() };
        let text = write_cursor(&cursor);
        assert_eq!(BASE64.decode(&text).unwrap(), br#"{"id":"msg_1","time":1794724745755}"#);
        assert_eq!(read_cursor(&text).unwrap(), cursor);
        for bad in ["", "x", "e30", "%", "eyJpZCI6MX0"] {
            assert_eq!(read_cursor(bad).unwrap_err().status(), 400, "{bad}");
        }
    }

    #[test]
    fn a_part_of_no_known_type_is_explained() {
        assert_eq!(misfit(&json!({ "type": "text" })), "missing field `text`");
        assert_eq!(
            misfit(&json!({ "type": "text", "text": 5 })),
            "text: invalid type: integer `5`, expected a string"
        );
        assert_eq!(misfit(&json!({ "type": "song" })), "type: there is no part of type \"song\"");
        assert_eq!(misfit(&json!({})), "type: there is no part of type \"\"");
    }
}
