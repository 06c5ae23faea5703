//! A prompt in the agent's words.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::part::FilePart;
use protocol::{Part, PartBody};
use serde_json::{Value, json};

use super::wire::PromptCapabilities;

/// A prompt, and what of it the agent cannot take, for people.
pub(super) fn blocks(parts: &[Part], able: PromptCapabilities) -> (Vec<Value>, Vec<String>) {
    let (mut blocks, mut left) = (Vec::new(), Vec::new());
    for part in parts {
        match &part.body {
            PartBody::Text(text) if text.ignored != Some(true) => blocks.push(words(&text.text)),
            PartBody::Subtask(task) => blocks.push(words(&task.prompt)),
            PartBody::File(file) => match attachment(file, able) {
                Some(block) => blocks.push(block),
                None => left.push(format!("{} ({})", name(file), file.mime)),
            },
            _ => {}
        }
    }
    (blocks, left)
}

fn words(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn name(file: &FilePart) -> &str {
    file.filename.as_deref().unwrap_or("attachment")
}

fn attachment(file: &FilePart, able: PromptCapabilities) -> Option<Value> {
    let Some(data) = file.url.strip_prefix("data:") else {
        return Some(
            json!({ "type": "resource_link", "uri": file.url, "name": name(file), "mimeType": file.mime }),
        );
    };
    let (head, content) = data.split_once(',')?;
    let encoded = head.ends_with(";base64");
    let base64 = || if encoded { content.to_owned() } else { STANDARD.encode(content) };
    if file.mime.starts_with("image/") && able.image {
        return Some(json!({ "type": "image", "mimeType": file.mime, "data": base64() }));
    }
    if file.mime.starts_with("audio/") && able.audio {
        return Some(json!({ "type": "audio", "mimeType": file.mime, "data": base64() }));
    }
    let text = if encoded {
        STANDARD.decode(content).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    } else {
        Some(content.to_owned())
    };
    let uri = format!("attachment:///{}", name(file));
    match text {
        Some(text) if able.embedded_context => {
            let resource = json!({ "uri": uri, "mimeType": file.mime, "text": text });
            Some(json!({ "type": "resource", "resource": resource }))
        }
        Some(text) => Some(words(&format!("{}:\n```\n{text}\n```", name(file)))),
        None if able.embedded_context => {
            let resource = json!({ "uri": uri, "mimeType": file.mime, "blob": base64() });
            Some(json!({ "type": "resource", "resource": resource }))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(mime: &str, url: &str) -> FilePart {
        serde_json::from_value(json!({ "mime": mime, "url": url, "filename": "it" })).unwrap()
    }

    #[test]
    fn an_agent_gets_what_it_can_take() {
        let all = PromptCapabilities { image: true, audio: true, embedded_context: true };
        let none = PromptCapabilities::default();
        let image = file("image/png", "data:image/png;base64,aGk=");
        assert_eq!(
            attachment(&image, all).unwrap(),
            json!({ "type": "image", "mimeType": "image/png", "data": "aGk=" })
        );
        let binary = file("application/pdf", "data:application/pdf;base64,/w==");
        assert_eq!(attachment(&binary, all).unwrap()["resource"]["blob"], "/w==");
        assert_eq!(attachment(&binary, none), None);
        let text = file("text/plain", "data:text/plain;base64,aGk=");
        assert_eq!(attachment(&text, all).unwrap()["resource"]["text"], "hi");
        assert_eq!(attachment(&text, none).unwrap()["text"], "it:\n```\nhi\n```");
        let link = attachment(&file("text/x-rust", "file:///project/a.rs"), none).unwrap();
        assert_eq!(
            link,
            json!({ "type": "resource_link", "uri": "file:///project/a.rs", "name": "it", "mimeType": "text/x-rust" })
        );
    }
}
