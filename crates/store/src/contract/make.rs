//! Short constructors of events for tests.

use std::{fmt::Debug, str::FromStr};

use engine::ports::Encoded;
use protocol::{Event, Part};
use serde_json::{Value, json};

/// Parses an id of any kind.
pub(crate) fn id<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// An event by its wire type; `properties` contain `sessionID` and the other fields.
pub(crate) fn event(kind: &str, properties: Value) -> Encoded {
    let mut envelope = json!({ "id": "evt_1", "type": kind });
    envelope["properties"] = properties;
    let event: Event = serde_json::from_value(envelope).unwrap();
    assert!(event.body.is_durable(), "{kind} is not stored");
    let json = serde_json::to_vec(&event).unwrap().into();
    Encoded { event, json }
}

/// Adds the fields of the second object to the first.
pub(crate) fn merge(mut base: Value, other: Value) -> Value {
    let (Value::Object(base_fields), Value::Object(other)) = (&mut base, other) else { return base };
    base_fields.extend(other);
    base
}

/// A session as JSON, with the given fields.
pub(crate) fn session(id: &str, fields: Value) -> Value {
    let plain = json!({
        "id": id, "slug": "calm-otter", "projectID": "global", "directory": super::DIRECTORY,
        "title": "A title", "version": "1", "time": { "created": 1, "updated": 1 },
    });
    merge(plain, fields)
}

pub(crate) fn created(id: &str) -> Encoded {
    created_with(id, json!({}))
}

pub(crate) fn created_with(id: &str, fields: Value) -> Encoded {
    event("session.created", json!({ "sessionID": id, "info": session(id, fields) }))
}

pub(crate) fn updated(id: &str, fields: Value) -> Encoded {
    event("session.updated", json!({ "sessionID": id, "info": session(id, fields) }))
}

pub(crate) fn deleted(id: &str) -> Encoded {
    event("session.deleted", json!({ "sessionID": id, "info": session(id, json!({})) }))
}

pub(crate) fn user(session: &str, message: &str, created: i64) -> Encoded {
    let info = json!({
        "id": message, "sessionID": session, "role": "user", "time": { "created": created },
        "agent": "build", "model": { "providerID": "demo", "modelID": "baton" },
    });
    event("message.updated", json!({ "sessionID": session, "info": info }))
}

/// An assistant message that answers `prompt`; open unless `completed` is given.
pub(crate) fn answer(
    session: &str,
    message: &str,
    prompt: &str,
    created: i64,
    completed: Option<i64>,
) -> Encoded {
    let mut time = json!({ "created": created });
    if let Some(completed) = completed {
        time = merge(time, json!({ "completed": completed }));
    }
    let info = json!({
        "id": message, "sessionID": session, "role": "assistant", "parentID": prompt, "time": time,
        "modelID": "baton", "providerID": "demo", "mode": "build", "agent": "build",
        "path": { "cwd": "/", "root": "/" }, "cost": 0, "tokens": { "input": 1, "output": 2 },
    });
    event("message.updated", json!({ "sessionID": session, "info": info }))
}

pub(crate) fn message_removed(session: &str, message: &str) -> Encoded {
    event("message.removed", json!({ "sessionID": session, "messageID": message }))
}

/// A text part; open unless `end` is given.
pub(crate) fn text(session: &str, message: &str, part: &str, text: &str, end: Option<i64>) -> Part {
    let mut time = json!({ "start": 1 });
    if let Some(end) = end {
        time = merge(time, json!({ "end": end }));
    }
    serde_json::from_value(json!({
        "id": part, "sessionID": session, "messageID": message, "type": "text", "text": text, "time": time,
    }))
    .unwrap()
}

pub(crate) fn saved(part: &Part) -> Encoded {
    event("message.part.updated", json!({ "sessionID": part.session_id, "part": part, "time": 1 }))
}

pub(crate) fn part_removed(session: &str, message: &str, part: &str) -> Encoded {
    event("message.part.removed", json!({ "sessionID": session, "messageID": message, "partID": part }))
}

pub(crate) fn todos(session: &str, contents: &[&str]) -> Encoded {
    let todos: Vec<Value> = contents
        .iter()
        .map(|content| json!({ "content": content, "status": "pending", "priority": "low" }))
        .collect();
    event("todo.updated", json!({ "sessionID": session, "todos": todos }))
}

pub(crate) fn busy(session: &str) -> Encoded {
    event("session.status", json!({ "sessionID": session, "status": { "type": "busy" } }))
}

pub(crate) fn idle(session: &str) -> Encoded {
    let status = json!({ "type": "idle", "reason": "completed" });
    event("session.status", json!({ "sessionID": session, "status": status }))
}

pub(crate) fn permission(session: &str, request: &str, about: &str) -> Encoded {
    event(
        "permission.asked",
        json!({
            "id": request, "sessionID": session, "permission": "bash", "patterns": [about], "metadata": {},
            "always": [],
        }),
    )
}

pub(crate) fn permitted(session: &str, request: &str) -> Encoded {
    event("permission.replied", json!({ "sessionID": session, "requestID": request, "reply": "once" }))
}

/// A reply of `always` that creates these approvals.
pub(crate) fn permitted_always(session: &str, request: &str, saved: &[(&str, &str, &str)]) -> Encoded {
    let saved: Vec<Value> = saved
        .iter()
        .map(|(id, directory, pattern)| {
            json!({ "id": id, "projectID": "p", "directory": directory, "action": "bash", "resource": pattern })
        })
        .collect();
    let reply = json!({ "sessionID": session, "requestID": request, "reply": "always", "saved": saved });
    event("permission.replied", reply)
}

pub(crate) fn question(session: &str, request: &str) -> Encoded {
    let question = json!({ "question": "Which?", "header": "W", "options": [] });
    event("question.asked", json!({ "id": request, "sessionID": session, "questions": [question] }))
}

pub(crate) fn answered(session: &str, request: &str) -> Encoded {
    event("question.replied", json!({ "sessionID": session, "requestID": request, "answers": [["this"]] }))
}

pub(crate) fn rejected(session: &str, request: &str) -> Encoded {
    event("question.rejected", json!({ "sessionID": session, "requestID": request }))
}

pub(crate) fn queued(session: &str, message: &str, delivery: &str) -> Encoded {
    event("prompt.queued", json!({ "sessionID": session, "messageID": message, "delivery": delivery }))
}

pub(crate) fn started(session: &str, message: &str) -> Encoded {
    event("prompt.started", json!({ "sessionID": session, "messageID": message }))
}

pub(crate) fn ended(session: &str, message: &str) -> Encoded {
    event("prompt.ended", json!({ "sessionID": session, "messageID": message, "reason": "completed" }))
}

pub(crate) fn withdrawn(session: &str, message: &str) -> Encoded {
    event("prompt.ended", json!({ "sessionID": session, "messageID": message, "reason": "withdrawn" }))
}

/// A new order of the queue: messages with their delivery.
pub(crate) fn rearranged(session: &str, queue: &[(&str, &str)]) -> Encoded {
    let waiting = |(message, delivery): &(&str, &str)| json!({ "messageID": message, "delivery": delivery });
    let queue: Vec<Value> = queue.iter().map(waiting).collect();
    event("session.queue.updated", json!({ "sessionID": session, "queue": queue }))
}

pub(crate) fn seen(session: &str, cursor: u64) -> Encoded {
    event("session.seen", json!({ "sessionID": session, "cursor": cursor }))
}
