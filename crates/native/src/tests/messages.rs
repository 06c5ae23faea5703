//! Messages as a session stores them, for tests of functions that read them.

use protocol::{MessageWithParts, Part};
use serde_json::{Value, json};

fn message(info: Value, more: &Value, parts: &Value) -> MessageWithParts {
    let mut info = info;
    info.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(json!({ "info": info, "parts": parts })).unwrap()
}

fn common(id: &str) -> Value {
    json!({ "id": format!("msg_{id}"), "sessionID": "ses_1", "time": { "created": 1 }, "agent": "build" })
}

fn user(id: &str, parts: &Value) -> MessageWithParts {
    let model = json!({ "role": "user", "model": { "providerID": "demo", "modelID": "simple" } });
    message(common(id), &model, parts)
}

/// A prompt of the user.
pub(crate) fn prompt(id: &str) -> MessageWithParts {
    let message = format!("msg_{id}");
    user(
        id,
        &json!([{ "type": "text", "text": id, "id": "prt_1", "sessionID": "ses_1", "messageID": message }]),
    )
}

/// A request for a summary.
pub(crate) fn compaction_request(id: &str, tail: Option<&str>) -> MessageWithParts {
    let mut part = json!({ "type": "compaction", "auto": true, "id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1" });
    if let Some(tail) = tail {
        part["tail_start_id"] = format!("msg_{tail}").into();
    }
    user(id, &json!([part]))
}

/// A finished step without output.
pub(crate) fn answer(id: &str, of: &str) -> MessageWithParts {
    let more = json!({
        "role": "assistant", "parentID": format!("msg_{of}"), "mode": "build", "providerID": "demo",
        "modelID": "simple", "path": { "cwd": "/", "root": "/" }, "cost": 0, "finish": "stop",
        "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
    });
    message(common(id), &more, &json!([]))
}

/// A summary, complete or cut short.
pub(crate) fn summary(id: &str, of: &str, complete: bool) -> MessageWithParts {
    let mut summary = answer(id, of);
    if let protocol::Message::Assistant(info) = &mut summary.info {
        info.summary = Some(true);
        info.finish = info.finish.filter(|_| complete);
    }
    summary
}

/// A call that succeeded.
pub(crate) fn tool(message: &str, id: &str, name: &str, output: &str) -> Part {
    serde_json::from_value(json!({
        "id": format!("prt_{id}"), "sessionID": "ses_1", "messageID": format!("msg_{message}"), "type": "tool",
        "callID": id, "tool": name,
        "state": {
            "status": "completed", "input": {}, "output": output, "title": "", "metadata": {},
            "time": { "start": 1, "end": 2 },
        },
    }))
    .unwrap()
}
