//! Converts prompts into content blocks.

use agent_client_protocol_schema::v1::{
    AudioContent, BlobResourceContents, ContentBlock, EmbeddedResource, EmbeddedResourceResource,
    ImageContent, PromptCapabilities, ResourceLink, TextResourceContents,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use protocol::part::FilePart;
use protocol::{Part, PartBody};

/// The content blocks of a prompt, and the names of the attachments that the agent does not support.
pub(super) fn blocks(parts: &[Part], able: &PromptCapabilities) -> (Vec<ContentBlock>, Vec<String>) {
    let (mut blocks, mut left) = (Vec::new(), Vec::new());
    for part in parts {
        match &part.body {
            PartBody::Text(text) if text.ignored != Some(true) => blocks.push(text.text.as_str().into()),
            PartBody::Subtask(task) => blocks.push(task.prompt.as_str().into()),
            PartBody::File(file) => match attachment(file, able) {
                Some(block) => blocks.push(block),
                None => left.push(format!("{} ({})", name(file), file.mime)),
            },
            _ => {}
        }
    }
    (blocks, left)
}

fn name(file: &FilePart) -> &str {
    file.filename.as_deref().unwrap_or("attachment")
}

fn attachment(file: &FilePart, able: &PromptCapabilities) -> Option<ContentBlock> {
    let mime = file.mime.as_str();
    let Some(data) = file.url.strip_prefix("data:") else {
        return Some(ContentBlock::ResourceLink(ResourceLink::new(name(file), &file.url).mime_type(mime)));
    };
    let (head, content) = data.split_once(',')?;
    let encoded = head.ends_with(";base64");
    let base64 = || if encoded { content.to_owned() } else { STANDARD.encode(content) };
    if mime.starts_with("image/") && able.image {
        return Some(ContentBlock::Image(ImageContent::new(base64(), mime)));
    }
    if mime.starts_with("audio/") && able.audio {
        return Some(ContentBlock::Audio(AudioContent::new(base64(), mime)));
    }
    let text = if encoded {
        STANDARD.decode(content).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    } else {
        Some(content.to_owned())
    };
    let uri = format!("attachment:///{}", name(file));
    let embedded = |resource| Some(ContentBlock::Resource(EmbeddedResource::new(resource)));
    match text {
        Some(text) if able.embedded_context => {
            let resource = TextResourceContents::new(text, uri).mime_type(mime);
            embedded(EmbeddedResourceResource::TextResourceContents(resource))
        }
        Some(text) => Some(format!("{}:\n```\n{text}\n```", name(file)).into()),
        None if able.embedded_context => {
            let resource = BlobResourceContents::new(base64(), uri).mime_type(mime);
            embedded(EmbeddedResourceResource::BlobResourceContents(resource))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn file(mime: &str, url: &str) -> FilePart {
        serde_json::from_value(json!({ "mime": mime, "url": url, "filename": "it" })).unwrap()
    }

    fn sent(file: &FilePart, able: &PromptCapabilities) -> Value {
        json!(attachment(file, able))
    }

    #[test]
    fn attachments_depend_on_the_agents_capabilities() {
        let all = &PromptCapabilities::new().image(true).audio(true).embedded_context(true);
        let none = &PromptCapabilities::new();
        let image = file("image/png", "data:image/png;base64,aGk=");
        assert_eq!(sent(&image, all), json!({ "type": "image", "mimeType": "image/png", "data": "aGk=" }));
        let binary = file("application/pdf", "data:application/pdf;base64,/w==");
        assert_eq!(sent(&binary, all)["resource"]["blob"], "/w==");
        assert_eq!(attachment(&binary, none), None);
        let text = file("text/plain", "data:text/plain;base64,aGk=");
        assert_eq!(sent(&text, all)["resource"]["text"], "hi");
        assert_eq!(sent(&text, none)["text"], "it:\n```\nhi\n```");
        let link = sent(&file("text/x-rust", "file:///project/a.rs"), none);
        assert_eq!(
            link,
            json!({ "type": "resource_link", "uri": "file:///project/a.rs", "name": "it", "mimeType": "text/x-rust" })
        );
    }
}
