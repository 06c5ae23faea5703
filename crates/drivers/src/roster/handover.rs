//! The text that tells an agent what it does not know about a session: the whole conversation if the agent begins one of its
//! own, and otherwise the turns since its last one that it took no part in.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use engine::session::Turn;
use protocol::message::Origin;
use protocol::{Message, MessageId, MessageWithParts, PartBody, ToolState};

/// Largest text of the conversation, in bytes.
const MAX_TOLD: usize = 40_000;

/// Most characters of one part of it.
const MAX_PART: usize = 4_000;

/// Characters of a tool's input.
const MAX_INPUT: usize = 200;

const BEFORE: &str = "You continue a conversation that you have no memory of. Its text so far follows for context; do not \
                      answer it again.";
const MEANWHILE: &str = "Since your last turn the following happened in this conversation, without you. It is context; do \
                         not answer it again. Files may have changed.";
const LEFT_OUT: &str = "(Earlier messages are left out.)";
const AFTER: &str = "This is the end of the earlier conversation. Now answer this:";

/// The part of a conversation that an agent missed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missed {
    Nothing,
    /// Turns of other agents, or commands of the user.
    Turns {
        text: String,
        /// Another agent has answered.
        by_others: bool,
    },
    /// The last prompt that the agent took was reverted.
    Undone,
}

/// The conversation before the prompt of a turn; none if it has no answer yet.
pub(super) async fn conversation(turn: &Turn) -> Option<String> {
    let recent = recent(turn, None).await?;
    let recent = recent.iter().map(Arc::as_ref);
    let before: Vec<_> = recent.take_while(|message| *message.info.id() != turn.prompt).collect();
    before.iter().any(|message| is_answer(message)).then(|| written(BEFORE, &before))
}

/// The turns that an agent missed since it took the prompt `last`.
pub(super) async fn missed(turn: &Turn, agent: &str, last: &str) -> Missed {
    let Ok(last) = last.parse::<MessageId>() else { return Missed::Nothing };
    match turn.message(&last).await {
        Ok(Some(_)) => {}
        Ok(None) => return Missed::Undone,
        Err(_) => return Missed::Nothing,
    }
    let Some(recent) = recent(turn, Some(&last)).await else { return Missed::Nothing };
    let since = recent.iter().map(Arc::as_ref).skip_while(|message| *message.info.id() == last);
    let since: Vec<_> = since.take_while(|message| *message.info.id() != turn.prompt).collect();
    told(agent, &since)
}

/// The newest messages, back to `last` or as far as they can be told.
async fn recent(turn: &Turn, last: Option<&MessageId>) -> Option<Vec<Arc<MessageWithParts>>> {
    let mut told = 0;
    let is_enough = |message: &MessageWithParts| {
        told += line(message).len();
        told > MAX_TOLD || Some(message.info.id()) == last
    };
    turn.recent(is_enough).await.ok()
}

/// The turns among these messages that the agent took no part in.
fn told(agent: &str, messages: &[&MessageWithParts]) -> Missed {
    let is_own = |message: &MessageWithParts| match &message.info {
        Message::User(user) => user.model.provider_id == agent && !is_command(message),
        Message::Assistant(_) => false,
    };
    let own: HashSet<&MessageId> =
        messages.iter().filter(|message| is_own(message)).map(|message| message.info.id()).collect();
    let is_known = |message: &MessageWithParts| match &message.info {
        Message::User(user) => own.contains(&user.id),
        // An answer whose prompt is not among the messages belongs to the turn that the agent took last.
        Message::Assistant(answer) => {
            own.contains(&answer.parent_id)
                || !messages.iter().any(|message| *message.info.id() == answer.parent_id)
        }
    };
    let missed: Vec<_> = messages.iter().copied().filter(|message| !is_known(message)).collect();
    if !missed.iter().any(|message| is_answer(message)) {
        return Missed::Nothing;
    }
    let is_prompt = |message: &&MessageWithParts| matches!(message.info, Message::User(_));
    let by_others = missed.iter().copied().filter(is_prompt).any(|prompt| !is_command(prompt));
    Missed::Turns { text: written(MEANWHILE, &missed), by_others }
}

/// Tells whether a message is a command line that the user ran.
fn is_command(message: &MessageWithParts) -> bool {
    matches!(&message.info, Message::User(user) if matches!(user.origin(), Some(Origin::Shell { .. })))
}

/// Tells whether a message holds words or work of an agent.
fn is_answer(message: &MessageWithParts) -> bool {
    let says = |body: &PartBody| matches!(body, PartBody::Text(_) | PartBody::Tool(_));
    matches!(message.info, Message::Assistant(_)) && message.parts.iter().any(|part| says(&part.body))
}

/// The newest messages, oldest first, as far as they fit.
fn written(introduction: &str, messages: &[&MessageWithParts]) -> String {
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
    format!("{introduction}\n\n{}\n\n{AFTER}", lines.join("\n"))
}

/// A message as text. The output of a tool is left out, except that of a command, which may not be repeatable.
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
                let output = match &tool.state {
                    ToolState::Completed(done) if tool.tool == "bash" => {
                        format!(", which printed: {}", short(&done.output, MAX_PART))
                    }
                    _ => String::new(),
                };
                writeln!(text, "{speaker} used {} with {}{output}", tool.tool, short(&input, MAX_INPUT))
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
        let told = written(
            BEFORE,
            &[&message("user", &[text("look"), file, hidden]), &message("assistant", &[tool, text("I see")])],
        );
        let expected = "Person: look\nPerson attached a.png (image/png)\nAgent used read with {\"filePath\":\"a\"}\nAgent: I see";
        assert_eq!(told, format!("{BEFORE}\n\n{expected}\n\n{AFTER}"));
    }

    #[test]
    fn a_long_conversation_is_cut_at_its_beginning() {
        let long = message("user", &[text(&"x".repeat(MAX_PART * 2))]);
        let last = message("assistant", &[text("the last word")]);
        let mut all = vec![&long; 20];
        all.push(&last);
        let told = written(BEFORE, &all);
        assert!(told.len() < MAX_TOLD + 1_000, "{}", told.len());
        assert!(told.contains(LEFT_OUT) && told.contains("the last word"));
    }

    /// A prompt for an agent, and its answer.
    fn turn(number: usize, provider: &str, origin: &Value) -> [MessageWithParts; 2] {
        let with = |message: MessageWithParts, fields: Value| -> MessageWithParts {
            let mut message = serde_json::to_value(message).unwrap();
            message["info"].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            serde_json::from_value(message).unwrap()
        };
        let (asked, answered) = (format!("msg_{number}a"), format!("msg_{number}b"));
        let model = json!({ "providerID": provider, "modelID": "m" });
        let mut prompt = json!({ "id": asked, "model": model });
        if !origin.is_null() {
            prompt["origin"] = origin.clone();
        }
        let answer = json!({ "id": answered, "parentID": asked });
        [
            with(message("user", &[text(&format!("ask {number}"))]), prompt),
            with(message("assistant", &[text(&format!("answer {number}"))]), answer),
        ]
    }

    #[test]
    fn the_preface_contains_the_turns_of_other_agents() {
        let turns = [
            turn(1, "codex", &Value::Null),
            turn(2, "other", &Value::Null),
            turn(3, "codex", &json!({ "type": "shell", "command": "make" })),
            turn(4, "codex", &Value::Null),
        ];
        let text = |turns: &[[MessageWithParts; 2]]| match told(
            "codex",
            &turns.iter().flatten().collect::<Vec<_>>(),
        ) {
            Missed::Turns { text, by_others } => (text, by_others),
            missed => panic!("{missed:?}"),
        };
        let (told_all, by_others) = text(&turns);
        assert!(by_others);
        for (number, is_told) in [(1, false), (2, true), (3, true), (4, false)] {
            assert_eq!(told_all.contains(&format!("ask {number}")), is_told, "{told_all}");
            assert_eq!(told_all.contains(&format!("answer {number}")), is_told, "{told_all}");
        }
        assert!(!text(&turns[2..]).1, "the user ran a command");
        let own: Vec<_> = turns[0].iter().collect();
        assert_eq!(told("codex", &own), Missed::Nothing);
        assert_eq!(told("codex", &own[1..]), Missed::Nothing, "the answer to the prompt that it took last");
    }
}
