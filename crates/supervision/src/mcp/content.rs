//! The content that servers return: texts and files.

use protocol::Extra;
use protocol::part::FilePart;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, ResourceTemplate};
use serde::Serialize;
use workspace::files::MAX_MEDIA;

use super::names;
use crate::{ToolFailure, limits};

/// One item of content.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Text(String),
    /// A picture or a document.
    File(FilePart),
}

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The name of the slash command: `<server>:<prompt>`.
    pub name: String,
    /// The name of the server.
    pub server: String,
    /// The server's own name of the prompt.
    pub prompt: String,
    pub description: Option<String>,
    /// In the server's order.
    pub arguments: Vec<Argument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub description: Option<String>,
    pub required: bool,
}

/// A resource template, whose placeholders are filled in to get a URI.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    name: String,
    #[serde(rename = "uriTemplate")]
    pattern: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    /// The name of the server.
    pub client: String,
}

pub(super) fn template(server: &str, template: ResourceTemplate) -> Template {
    let ResourceTemplate { name, uri_template: pattern, description, mime_type, .. } = template;
    Template { name, pattern, description, mime_type, client: server.to_owned() }
}

pub(super) fn prompt(server: &str, prompt: rmcp::model::Prompt) -> Prompt {
    let arguments = prompt.arguments.unwrap_or_default().into_iter().map(|argument| Argument {
        name: argument.name,
        description: argument.description,
        required: argument.required == Some(true),
    });
    Prompt {
        name: format!("{}:{}", names::sanitised(server), names::sanitised(&prompt.name)),
        server: server.to_owned(),
        description: prompt.description,
        arguments: arguments.collect(),
        prompt: prompt.name,
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOutput {
    pub text: String,
    /// The structured content, if the server returns it and it is not too large.
    pub metadata: Extra,
    pub attachments: Vec<FilePart>,
}

/// Converts the result of a tool call.
pub(super) fn output(result: CallToolResult) -> Result<CallOutput, ToolFailure> {
    let CallToolResult { content, structured_content, is_error, .. } = result;
    let (mut words, mut attachments) = (Vec::new(), Vec::new());
    for block in content.into_iter().map(block) {
        match block {
            Content::Text(text) => words.push(text),
            Content::File(file) => attachments.push(file),
        }
    }
    let mut metadata = Extra::new();
    if let Some(structured) = structured_content {
        let text = structured.to_string();
        // The specification asks servers to repeat the structured content as text; not all do.
        if words.is_empty() {
            words.push(text.clone());
        }
        if text.len() <= limits::MCP_STRUCTURED {
            metadata.insert("structuredContent".to_owned(), structured);
        }
    }
    let text = words.join("\n\n");
    if is_error == Some(true) {
        let silent = text.trim().is_empty();
        return Err(ToolFailure::Error(if silent {
            "The tool failed without an error message.".to_owned()
        } else {
            text
        }));
    }
    Ok(CallOutput { text, metadata, attachments })
}

/// Converts one content block of a tool result or a prompt.
pub(super) fn block(block: ContentBlock) -> Content {
    match block {
        ContentBlock::Text(text) => Content::Text(text.text),
        ContentBlock::Image(image) => file(image.mime_type, &image.data, None),
        ContentBlock::Audio(audio) => file(audio.mime_type, &audio.data, None),
        ContentBlock::Resource(embedded) => resource(embedded.resource),
        ContentBlock::ResourceLink(link) => {
            let about = link.description.map(|about| format!(": {about}")).unwrap_or_default();
            Content::Text(format!("Resource {} ({}){about}", link.uri, link.name))
        }
        other => unknown(&other),
    }
}

/// Converts the contents of a resource.
pub(super) fn resource(contents: ResourceContents) -> Content {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => Content::Text(text),
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            file(mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()), &blob, Some(uri))
        }
        other => unknown(&other),
    }
}

/// Returns content of an unknown kind, from a newer protocol version, as JSON.
fn unknown(said: &impl Serialize) -> Content {
    Content::Text(serde_json::to_string(said).unwrap_or_default())
}

/// Returns a file that models can read, or else a text about it.
fn file(mime: String, data: &str, name: Option<String>) -> Content {
    let is_shown =
        matches!(mime.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp" | "application/pdf");
    let bytes = data.len() / 4 * 3;
    let fits = u64::try_from(bytes).is_ok_and(|bytes| bytes <= MAX_MEDIA);
    let called = name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    if !is_shown || !fits {
        let why = if is_shown { "it is too large" } else { "models cannot read this type" };
        return Content::Text(format!("[{mime}{called}, about {bytes} bytes, is not shown: {why}]"));
    }
    if !data.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')) {
        return Content::Text(format!("[{mime}{called} is not shown: it is not base64]"));
    }
    let url = format!("data:{mime};base64,{data}");
    Content::File(FilePart { mime, filename: name, url, source: None, extra: Extra::new() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn result(value: Value) -> Result<CallOutput, ToolFailure> {
        output(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn words_are_joined_and_pictures_attached() {
        let output = result(json!({ "content": [
            { "type": "text", "text": "one" },
            { "type": "image", "data": "AAAA", "mimeType": "image/png" },
            { "type": "resource", "resource": { "uri": "x://a", "text": "two" } },
            { "type": "resource", "resource": { "uri": "x://b", "blob": "AAAA", "mimeType": "application/pdf" } },
            { "type": "resource_link", "uri": "x://c", "name": "c", "description": "three" },
        ] }))
        .unwrap();
        assert_eq!(output.text, "one\n\ntwo\n\nResource x://c (c): three");
        let urls: Vec<&str> = output.attachments.iter().map(|file| file.url.as_str()).collect();
        assert_eq!(urls, ["data:image/png;base64,AAAA", "data:application/pdf;base64,AAAA"]);
    }

    #[test]
    fn unreadable_files_become_a_note() {
        let large = "A".repeat(usize::try_from(MAX_MEDIA).unwrap() / 3 * 4 + 8);
        let output = result(json!({ "content": [
            { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
            { "type": "image", "data": large, "mimeType": "image/png" },
            { "type": "image", "data": "<script>", "mimeType": "image/png" },
        ] }))
        .unwrap();
        assert_eq!(output.attachments, []);
        for word in ["audio/wav, about 3 bytes", "it is too large", "it is not base64"] {
            assert!(output.text.contains(word), "{}", output.text);
        }
    }

    #[test]
    fn structured_results_become_metadata_and_text_if_there_is_no_other() {
        let output = result(json!({ "content": [], "structuredContent": { "rows": 2 } })).unwrap();
        assert_eq!(output.text, r#"{"rows":2}"#);
        assert_eq!(output.metadata.get("structuredContent"), Some(&json!({ "rows": 2 })));
        let huge = "x".repeat(limits::MCP_STRUCTURED);
        let said = json!({ "content": [{ "type": "text", "text": "much" }], "structuredContent": huge });
        let output = result(said).unwrap();
        assert_eq!((output.text.as_str(), output.metadata.len()), ("much", 0));
    }

    #[test]
    fn an_error_is_a_failure_of_the_tool() {
        let failed = |content: Value| result(json!({ "content": content, "isError": true })).unwrap_err();
        let said = failed(json!([{ "type": "text", "text": "no such table" }]));
        assert_eq!(said, ToolFailure::Error("no such table".to_owned()));
        assert_eq!(
            failed(json!([])),
            ToolFailure::Error("The tool failed without an error message.".to_owned())
        );
    }
}
