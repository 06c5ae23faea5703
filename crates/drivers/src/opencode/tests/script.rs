//! The building blocks of scripts.

use serde_json::{Value, json};

use super::fake::{Act, SESSION};

pub(super) fn event(kind: &str, properties: Value) -> Act {
    let mut properties = properties;
    properties.as_object_mut().unwrap().entry("sessionID").or_insert_with(|| SESSION.into());
    Act::Say(json!({ "id": "evt_2", "type": kind, "properties": properties }))
}

pub(super) fn user() -> Act {
    let info = json!({
        "id": "$P", "role": "user", "sessionID": SESSION, "time": { "created": 1 }, "agent": "build",
        "model": { "providerID": "p", "modelID": "m" },
    });
    event("message.updated", json!({ "info": info }))
}

pub(super) fn status(kind: &str) -> Act {
    event("session.status", json!({ "status": { "type": kind } }))
}

pub(super) fn busy() -> Act {
    status("busy")
}

pub(super) fn retry(attempt: u32) -> Act {
    let status = json!({ "type": "retry", "attempt": attempt, "message": "slow down", "next": 1 });
    event("session.status", json!({ "status": status }))
}

/// Both events that say idle.
pub(super) fn idle() -> Vec<Act> {
    vec![status("idle"), event("session.idle", json!({}))]
}

pub(super) fn error(name: &str) -> Act {
    event(
        "session.error",
        json!({ "error": { "name": name, "data": { "message": "it went wrong", "isRetryable": false } } }),
    )
}

/// An assistant message with the additional fields `more`.
pub(super) fn info(id: &str, more: Value) -> Value {
    let mut info = json!({
        "id": id, "parentID": "$P", "role": "assistant", "sessionID": SESSION, "mode": "build", "agent": "build",
        "path": { "cwd": "/", "root": "/" }, "cost": 0.5, "modelID": "m", "providerID": "p",
        "tokens": { "input": 10, "output": 5, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
        "time": { "created": 1 },
    });
    if let Value::Object(more) = more {
        info.as_object_mut().unwrap().extend(more);
    }
    info
}

pub(super) fn opened(id: &str) -> Act {
    event("message.updated", json!({ "info": info(id, json!({})) }))
}

pub(super) fn closed(id: &str, finish: &str) -> Act {
    let done = json!({ "finish": finish, "time": { "created": 1, "completed": 2 } });
    event("message.updated", json!({ "info": info(id, done) }))
}

pub(super) fn failed(id: &str, name: &str) -> Act {
    let error = json!({ "name": name, "data": { "message": "it went wrong", "isRetryable": false } });
    let done = json!({ "error": error, "time": { "created": 1, "completed": 2 } });
    event("message.updated", json!({ "info": info(id, done) }))
}

fn part(message: &str, id: &str, body: Value) -> Value {
    let mut part = json!({ "id": id, "sessionID": SESSION, "messageID": message });
    if let Value::Object(body) = body {
        part.as_object_mut().unwrap().extend(body);
    }
    part
}

fn updated(part: &Value) -> Act {
    event("message.part.updated", json!({ "part": part, "time": 1 }))
}

/// A text part in the form of a listed message.
pub(super) fn text_part(message: &str, id: &str, text: &str, is_open: bool) -> Value {
    let time = if is_open { json!({ "start": 1 }) } else { json!({ "start": 1, "end": 2 }) };
    part(message, id, json!({ "type": "text", "text": text, "time": time }))
}

pub(super) fn text(message: &str, id: &str, text: &str, is_open: bool) -> Act {
    updated(&text_part(message, id, text, is_open))
}

pub(super) fn delta(message: &str, id: &str, delta: &str) -> Act {
    event(
        "message.part.delta",
        json!({ "messageID": message, "partID": id, "field": "text", "delta": delta }),
    )
}

pub(super) fn tool(message: &str, status: &str) -> Act {
    let time = json!({ "start": 1, "end": 2 });
    let state = match status {
        "pending" => json!({ "status": status, "input": {}, "raw": "" }),
        "running" => json!({ "status": status, "input": { "a": 1 }, "time": { "start": 1 } }),
        "completed" => {
            json!({ "status": status, "input": { "a": 1 }, "output": "done", "title": "t", "metadata": {}, "time": time })
        }
        _ => json!({ "status": status, "input": { "a": 1 }, "error": "failed", "time": time }),
    };
    let body = json!({ "type": "tool", "callID": "call_1", "tool": "bash", "state": state });
    updated(&part(message, "prt_tool", body))
}

pub(super) fn permission(id: &str) -> Act {
    event(
        "permission.asked",
        json!({ "id": id, "permission": "bash", "patterns": ["make"], "always": ["make *"], "metadata": {} }),
    )
}

pub(super) fn question(id: &str) -> Act {
    let question = json!({
        "question": "Which?", "header": "Choice",
        "options": [{ "label": "this", "description": "" }, { "label": "that", "description": "" }],
    });
    event("question.asked", json!({ "id": id, "questions": [question] }))
}

/// OpenCode begins to work on a prompt.
pub(super) fn start() -> Vec<Act> {
    vec![Act::Prompted, user(), busy(), busy()]
}

/// A complete message with a text.
pub(super) fn answer(id: &str, words: &str) -> Vec<Act> {
    vec![
        opened(id),
        text(id, "prt_1", "", true),
        delta(id, "prt_1", words),
        text(id, "prt_1", words, false),
        closed(id, "stop"),
    ]
}
