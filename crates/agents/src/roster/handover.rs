//! The text for an agent that takes over a fork or a session in which another agent has answered: the end of the
//! conversation as text, since its own memory begins with the next prompt.

use std::fmt::Write as _;

use engine::session::Turn;
use protocol::{Message, MessageWithParts, PartBody};

/// Largest text of the conversation, in bytes.
const MAX_TOLD: usize = 40_000;

/// Most characters of one part of it.
const MAX_PART: usize = 4_000;

/// Most characters of the input of a tool call.
const MAX_INPUT: usize = 200;

const BEFORE: &str = "You take up a conversation that you have no memory of. What was said in it so far follows as text; \
                      it is not to be answered again.";
const LEFT_OUT: &str = "(What was said before this is left out.)";
const AFTER: &str = "This is the end of what was said so far. Now answer this:";

/// The conversation before the prompt of a turn, as text. None if no agent has answered yet.
pub(super) async fn conversation(turn: &Turn) -> Option<String> {
    let mut told = 0;
    let is_enough = |message: &MessageWithParts| {
        told += line(message).len();
        told > MAX_TOLD
    };
    let recent = turn.recent(is_enough).await.ok()?;
    let before: Vec<_> = recent.iter().take_while(|message| *message.info.id() != turn.prompt).collect();
    before.iter().any(|message| is_answer(message)).then(|| written(&before))
}

/// Returns true for an assistant message with a text or a tool call.
fn is_answer(message: &MessageWithParts) -> bool {
    let says = |body: &PartBody| matches!(body, PartBody::Text(_) | PartBody::Tool(_));
    matches!(message.info, Message::Assistant(_)) && message.parts.iter().any(|part| says(&part.body))
}

/// The newest messages that fit, oldest first.
fn written(messages: &[&MessageWithParts]) -> String {
    let (mut lines, mut size) = (Vec::new(), 0);
    for message in messages.iter().rev() {
        let line = line(message);
        size += line.len();
        if size > MAX_TOLD {
            lines.push(LEFT_OUT.to_owned());
            break;
        }
        lines.push(line);
    }
    lines.reverse();
    lines.retain(|line| !line.is_empty());
    format!("{BEFORE}\n\n{}\n\n{AFTER}", lines.join("\n"))
}

/// A message as text.
fn line(message: &MessageWithParts) -> String {
    let speaker = match message.info {
        Message::User(_) => "Person",
        Message::Assistant(_) => "Agent",
    };
    let mut text = String::new();
    for part in &message.parts {
        // Writing to a string cannot fail.
        let _ = match &part.body {
            PartBody::Text(it) if it.ignored != Some(true) && !it.text.trim().is_empty() => {
                writeln!(text, "{speaker}: {}", short(&it.text, MAX_PART))
            }
            PartBody::Tool(tool) => {
                let input = serde_json::to_string(tool.state.input()).unwrap_or_default();
                writeln!(text, "{speaker} used {} with {}", tool.tool, short(&input, MAX_INPUT))
            }
            PartBody::File(file) => {
                let name = file.filename.as_deref().unwrap_or("a file");
                writeln!(text, "{speaker} attached {name} ({})", file.mime)
            }
            _ => Ok(()),
        };
    }
    text.trim_end().to_owned()
}

/// The beginning of a text.
fn short(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message(role: &str, parts: &[Value]) -> MessageWithParts {
        let mut info = json!({
            "id": "msg_1", "sessionID": "ses_1", "role": role, "time": { "created": 1 }, "agent": "build",
            "model": { "providerID": "p", "modelID": "m" },
        });
        if role == "assistant" {
            info = json!({
                "id": "msg_2", "sessionID": "ses_1", "role": role, "time": { "created": 1 }, "agent": "build",
                "parentID": "msg_1", "mode": "build", "path": { "cwd": "/", "root": "/" }, "cost": 0,
                "modelID": "m", "providerID": "p",
                "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
            });
        }
        let whole = |part: &Value| {
            let mut part = part.clone();
            let ids = [("id", "prt_1"), ("sessionID", "ses_1"), ("messageID", "msg_1")];
            part.as_object_mut().unwrap().extend(ids.map(|(key, id)| (key.to_owned(), id.into())));
            part
        };
        let parts: Vec<Value> = parts.iter().map(whole).collect();
        serde_json::from_value(json!({ "info": info, "parts": parts })).unwrap()
    }

    fn text(text: &str) -> Value {
        json!({ "type": "text", "text": text })
    }

    #[test]
    fn texts_tools_and_files_are_written() {
        let tool = json!({
            "type": "tool", "callID": "c", "tool": "read",
            "state": { "status": "running", "input": { "filePath": "a" }, "time": { "start": 1 } },
        });
        let file = json!({ "type": "file", "mime": "image/png", "url": "data:x", "filename": "a.png" });
        let hidden = json!({ "type": "text", "text": "secret", "ignored": true });
        let told = written(&[
            &message("user", &[text("look"), file, hidden]),
            &message("assistant", &[tool, text("I see")]),
        ]);
        let expected = "Person: look\nPerson attached a.png (image/png)\nAgent used read with {\"filePath\":\"a\"}\nAgent: I see";
        assert_eq!(told, format!("{BEFORE}\n\n{expected}\n\n{AFTER}"));
    }

    #[test]
    fn a_long_conversation_is_cut_at_its_beginning() {
        let long = message("user", &[text(&"x".repeat(MAX_PART * 2))]);
        let last = message("assistant", &[text("the last word")]);
        let mut all = vec![&long; 20];
        all.push(&last);
        let told = written(&all);
        assert!(told.len() < MAX_TOLD + 1_000, "{}", told.len());
        assert!(told.contains(LEFT_OUT) && told.contains("the last word"));
    }
}
