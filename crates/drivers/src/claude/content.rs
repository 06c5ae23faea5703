//! Converts prompts into the content blocks of Claude Code.

use protocol::part::FilePart;
use protocol::{MessageWithParts, PartBody};
use serde_json::{Value, json};

/// The content blocks of a prompt. Ignored text is left out. A file that is not embedded in the prompt is named, so
/// that Claude Code can read it.
pub(super) fn blocks(message: &MessageWithParts) -> Vec<Value> {
    let mut blocks: Vec<Value> = message.parts.iter().filter_map(|part| block(&part.body)).collect();
    if blocks.is_empty() {
        blocks.push(words("(empty prompt)"));
    }
    blocks
}

/// The prompt after a restart of the server that interrupted a call while it waited for the user's permission.
pub(super) fn go_on() -> Vec<Value> {
    vec![words(
        "You were interrupted by a restart while a call waited for permission. Make the call again and go on.",
    )]
}

fn block(part: &PartBody) -> Option<Value> {
    match part {
        PartBody::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
            Some(words(&text.text))
        }
        PartBody::File(file) => {
            Some(picture(file).unwrap_or_else(|| words(&format!("Attached file: {}", place(file)))))
        }
        PartBody::Agent(mention) => Some(words(&format!("Use the subagent {}.", mention.name))),
        PartBody::Subtask(task) => Some(words(&task.prompt)),
        PartBody::Compaction(_) => Some(words("/compact")),
        _ => None,
    }
}

fn words(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// The block of an embedded image or PDF.
fn picture(file: &FilePart) -> Option<Value> {
    let data = file.url.strip_prefix("data:")?.split_once(";base64,")?.1;
    let source = json!({ "type": "base64", "media_type": file.mime, "data": data });
    match file.mime.as_str() {
        "application/pdf" => Some(json!({ "type": "document", "source": source })),
        mime if mime.starts_with("image/") => Some(json!({ "type": "image", "source": source })),
        _ => None,
    }
}

fn place(file: &FilePart) -> &str {
    let named = || file.filename.as_deref().unwrap_or("without a name");
    file.url
        .strip_prefix("file://")
        .unwrap_or_else(|| if file.url.starts_with("data:") { named() } else { &file.url })
}

#[cfg(test)]
mod tests {
    use protocol::{Message, Part};

    use super::*;

    fn told(parts: &Value) -> Vec<Value> {
        let message: Message = serde_json::from_value(json!({
            "id": "msg_1", "sessionID": "ses_1", "role": "user", "time": { "created": 1 },
            "agent": "build", "model": { "providerID": "p", "modelID": "m" },
        }))
        .unwrap();
        let whole = |part: &Value| {
            let mut part = part.clone();
            let ids = [("id", "prt_1"), ("sessionID", "ses_1"), ("messageID", "msg_1")];
            part.as_object_mut().unwrap().extend(ids.map(|(key, id)| (key.to_owned(), id.into())));
            serde_json::from_value::<Part>(part).unwrap()
        };
        let parts = parts.as_array().unwrap().iter().map(whole).collect();
        blocks(&MessageWithParts::new(message, parts))
    }

    #[test]
    fn text_images_and_files_become_blocks() {
        let told = told(&json!([
            { "type": "text", "text": "look" },
            { "type": "text", "text": "secret", "ignored": true },
            { "type": "file", "mime": "image/png", "url": "data:image/png;base64,AA==" },
            { "type": "file", "mime": "text/plain", "url": "file:///project/a.txt" },
        ]));
        assert_eq!(
            told,
            [
                json!({ "type": "text", "text": "look" }),
                json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA==" } }),
                json!({ "type": "text", "text": "Attached file: /project/a.txt" }),
            ]
        );
    }

    #[test]
    fn a_prompt_is_never_empty() {
        assert_eq!(told(&json!([])).len(), 1);
    }
}
