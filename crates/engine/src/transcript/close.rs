//! Closes open parts and messages, at the end of a run and after a process died.

use protocol::{
    Extra, Message, MessageError, MessageWithParts, Millis, Part, PartBody, ToolState,
    part::{PartTime, ToolFailed},
};
use serde_json::Value;

use super::Emit;

/// The error text of an interrupted tool call. Clients compare it, so it is OpenCode's.
pub const ABORTED_TOOL: &str = "Tool execution aborted";

/// Ends every open part, then completes every open message, with `error` if one is given.
pub(crate) fn close(open: Vec<MessageWithParts>, error: Option<&MessageError>, emit: &mut Emit<'_>) {
    let now = emit.now();
    for MessageWithParts { info, parts, .. } in open {
        for part in parts.into_iter().filter(Part::is_open) {
            emit.part(close_part(part, now));
        }
        if let Message::Assistant(mut message) = info
            && message.time.completed.is_none()
        {
            message.time.completed = Some(now);
            if message.error.is_none() {
                message.error = error.cloned();
            }
            emit.message(Message::Assistant(message));
        }
    }
}

fn close_part(mut part: Part, now: Millis) -> Part {
    match &mut part.body {
        PartBody::Text(text) => {
            if let Some(time) = &mut text.time {
                time.end = Some(now);
            }
        }
        PartBody::Reasoning(reasoning) => reasoning.time.end = Some(now),
        PartBody::Tool(tool) => {
            let (start, metadata) = match &tool.state {
                ToolState::Running(running) => (running.time.start, running.metadata.clone()),
                _ => (now, None),
            };
            let mut metadata = metadata.unwrap_or_default();
            metadata.insert("interrupted".into(), Value::Bool(true));
            tool.state = ToolState::Error(ToolFailed {
                input: tool.state.input().clone(),
                error: ABORTED_TOOL.into(),
                metadata: Some(metadata),
                time: PartTime::span(start, now),
                extra: Extra::new(),
            });
        }
        _ => {}
    }
    part
}
