//! Prompts in the format of Codex.

use protocol::{MessageWithParts, PartBody, part::FilePart};
use serde_json::{Value, json};

/// A prompt for Codex.
#[derive(Debug, PartialEq)]
pub(super) enum Wanted {
    /// The input of a turn.
    Turn(Vec<Value>),
    /// A request to compact the conversation.
    Compaction,
}

/// Translates a prompt.
pub(super) fn wanted(prompt: &MessageWithParts) -> Wanted {
    let mut input = Vec::new();
    for part in &prompt.parts {
        match &part.body {
            PartBody::Compaction(_) => return Wanted::Compaction,
            PartBody::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
                input.push(text_input(&text.text));
            }
            PartBody::File(file) => input.push(file_input(file)),
            PartBody::Agent(agent) => input.push(text_input(&format!("@{}", agent.name))),
            PartBody::Subtask(task) => input.push(text_input(&task.prompt)),
            _ => {}
        }
    }
    Wanted::Turn(input)
}

pub(super) fn text_input(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn file_input(file: &FilePart) -> Value {
    let path = file.url.strip_prefix("file://").map(|path| path.split('?').next().unwrap_or(path));
    let name = file.filename.as_deref().or(path).unwrap_or("a file");
    let is_image = file.mime.starts_with("image/");
    match path {
        Some(path) if is_image => json!({ "type": "localImage", "path": path }),
        Some(path) => json!({ "type": "mention", "name": name, "path": path }),
        None if is_image => json!({ "type": "image", "url": file.url }),
        // Codex does not accept other files, so the prompt only names them.
        None => text_input(&format!("[the file {name} ({}) cannot be passed on to Codex]", file.mime)),
    }
}
