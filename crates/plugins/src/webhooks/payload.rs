//! Bodies of the notices.

use engine::ports::{self, Reads};
use protocol::{
    Event, EventBody, Message, MessageError, MessageWithParts, Millis, PartBody, Session, SessionStatus,
    config::WebhookEvent,
};
use serde_json::{Map, Value, json};

/// Maximum length of an answer in a notice, in characters.
const MAX_TEXT: usize = 4_000;

/// True if an event may lead to a notice.
pub(super) fn is_reported(body: &EventBody) -> bool {
    match body {
        EventBody::SessionStatus(it) => it.status.is_idle(),
        // The user asked for an abort, so it is not reported.
        EventBody::SessionError(it) => {
            it.session_id.is_some() && !matches!(it.error, Some(MessageError::Aborted { .. }))
        }
        EventBody::PermissionAsked(_) | EventBody::QuestionAsked(_) => true,
        _ => false,
    }
}

/// The kind, the session and the body of the notice about an event; `None` if the event is not reported.
pub(super) async fn describe(
    reads: &dyn Reads,
    event: &Event,
    now: Millis,
) -> Result<Option<(WebhookEvent, Session, String)>, ports::Error> {
    let Some(session) = event.body.session_id() else { return Ok(None) };
    let Some((session, _)) = reads.session(session).await? else { return Ok(None) };
    let (kind, mut data) = match &event.body {
        EventBody::SessionStatus(it) => {
            let SessionStatus::Idle { reason, .. } = &it.status else { return Ok(None) };
            // A subagent's turn is a part of its parent's.
            if session.parent_id.is_some() {
                return Ok(None);
            }
            let answer = reads.last_answer(&session.id, None).await?;
            let mut data = answer.map(|answer| answered(&answer)).unwrap_or_default();
            data.insert("reason".into(), json!(reason));
            (WebhookEvent::TurnEnd, data)
        }
        EventBody::PermissionAsked(it) => (
            WebhookEvent::PermissionAsked,
            object(json!({ "requestID": it.id, "permission": it.permission, "patterns": it.patterns })),
        ),
        EventBody::QuestionAsked(it) => {
            (WebhookEvent::QuestionAsked, object(json!({ "requestID": it.id, "questions": it.questions })))
        }
        EventBody::SessionError(it) => {
            let message = it.error.as_ref().map(MessageError::message);
            (WebhookEvent::SessionError, object(json!({ "message": message })))
        }
        _ => return Ok(None),
    };
    data.insert("sessionID".into(), json!(session.id));
    data.insert("parentID".into(), json!(session.parent_id));
    data.insert("title".into(), json!(session.title));
    data.insert("directory".into(), json!(session.directory));
    data.retain(|_, value| !value.is_null());
    let body = json!({ "type": kind, "timestamp": stamp(now), "data": data });
    Ok(Some((kind, session, body.to_string())))
}

/// The fields about the newest answer.
fn answered(answer: &MessageWithParts) -> Map<String, Value> {
    let Message::Assistant(step) = &answer.info else { return Map::new() };
    let texts = answer.parts.iter().filter_map(|part| match &part.body {
        PartBody::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let text: String = texts.collect::<Vec<_>>().join("\n").chars().take(MAX_TEXT).collect();
    object(json!({ "promptID": step.parent_id, "messageID": step.id, "text": text }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn stamp(now: Millis) -> String {
    jiff::Timestamp::from_millisecond(now).map(|time| time.to_string()).unwrap_or_default()
}
