//! Prompts in the shapes of `/api`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{
    Extra, MessageId, MessageWithParts, Millis, PartBody, Rest, SessionId,
    part::{AgentPart, FilePart, TextPart},
    prompt::{Delivery, PartInput, PartInputBody, PromptInput},
};

/// Default media type of an attachment. The server inspects such a file's content.
const PLAIN: &str = "text/plain";

/// The body of `POST /api/session/{id}/prompt`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptRequest {
    /// Id chosen by the client. A repeated call with the same id changes nothing.
    pub id: Option<MessageId>,
    pub prompt: NewPrompt,
    /// Delivery while a turn is running.
    pub delivery: Option<Delivery>,
    /// False to store the prompt without a turn. Default: true.
    pub resume: Option<bool>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// A prompt as a client sends it.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2NewPrompt")]
pub struct NewPrompt {
    pub text: String,
    pub files: Option<Vec<AttachmentInput>>,
    /// Mentions of agents in the text.
    pub agents: Option<Vec<AgentMention>>,
}

/// An attachment as a client sends it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttachmentInput {
    /// A `file:`, `data:` or `http:` URI.
    pub uri: String,
    pub name: Option<String>,
    pub description: Option<String>,
    /// Position of the mention in the text.
    pub source: Option<Extra>,
}

/// A stored prompt.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prompt {
    pub text: String,
    pub files: Option<Vec<Attachment>>,
    /// Mentions of agents in the text.
    pub agents: Option<Vec<AgentMention>>,
}

/// An attachment of a stored prompt.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    pub uri: String,
    pub mime: String,
    pub name: Option<String>,
}

/// A mention of an agent.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentMention {
    /// Name of the agent.
    pub name: String,
    /// Position of the mention in the text.
    pub source: Option<Extra>,
}

/// An accepted prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Admitted {
    /// Position in the session's history after the prompt.
    pub admitted_seq: u64,
    /// The user message.
    pub id: MessageId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    pub prompt: Prompt,
    /// Delivery while a turn is running.
    pub delivery: Delivery,
    pub time_created: Millis,
}

impl From<PromptRequest> for PromptInput {
    fn from(request: PromptRequest) -> Self {
        let NewPrompt { text, files, agents } = request.prompt;
        let files = files.unwrap_or_default().into_iter().map(|file| PartInputBody::File(file.into()));
        let agents = agents.unwrap_or_default().into_iter().map(|mention| {
            let AgentMention { name, source } = mention;
            PartInputBody::Agent(AgentPart { name, source, extra: Extra::new() })
        });
        let words = PartInputBody::Text(TextPart { text, ..TextPart::default() });
        let parts = std::iter::once(words).chain(files).chain(agents);
        Self {
            message_id: request.id,
            delivery: request.delivery,
            no_reply: request.resume.map(|resume| !resume),
            parts: parts.map(|body| PartInput { id: None, body }).collect(),
            ..Self::text("")
        }
    }
}

impl From<AttachmentInput> for FilePart {
    fn from(file: AttachmentInput) -> Self {
        Self {
            mime: mime(&file.uri).to_owned(),
            filename: file.name,
            url: file.uri,
            source: None,
            extra: Extra::new(),
        }
    }
}

/// Guesses the media type from the URI.
fn mime(uri: &str) -> &str {
    if let Some(rest) = uri.strip_prefix("data:") {
        let end = rest.find([';', ',']).unwrap_or(rest.len());
        return rest.get(..end).filter(|kind| !kind.is_empty()).unwrap_or(PLAIN);
    }
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        _ if path.ends_with('/') => "application/x-directory",
        _ => PLAIN,
    }
}

impl Prompt {
    /// Returns the user's part of a message, without generated texts.
    pub fn of(message: &MessageWithParts) -> Self {
        let (mut text, mut files, mut agents) = (String::new(), Vec::new(), Vec::new());
        for part in &message.parts {
            match &part.body {
                PartBody::Text(said) if said.synthetic != Some(true) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(&said.text);
                }
                PartBody::File(file) => files.push(Attachment {
                    uri: file.url.clone(),
                    mime: file.mime.clone(),
                    name: file.filename.clone(),
                }),
                PartBody::Agent(agent) => {
                    agents.push(AgentMention { name: agent.name.clone(), source: None });
                }
                _ => {}
            }
        }
        let some = |list: Vec<_>| Some(list).filter(|list| !list.is_empty());
        Self { text, files: some(files), agents: Some(agents).filter(|agents| !agents.is_empty()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_prompt_becomes_parts() {
        let request: PromptRequest = serde_json::from_value(json!({
            "id": "msg_1", "delivery": "queue", "resume": false,
            "prompt": {
                "text": "look", "files": [{ "uri": "file:///a/b.PNG?x=1", "name": "b" }, { "uri": "data:;base64,eA==" }],
                "agents": [{ "name": "explore" }],
            },
        }))
        .unwrap();
        let input = PromptInput::from(request);
        assert_eq!(input.no_reply, Some(true));
        assert_eq!(
            serde_json::to_value(&input.parts).unwrap(),
            json!([
                { "type": "text", "text": "look" },
                { "type": "file", "mime": "image/png", "filename": "b", "url": "file:///a/b.PNG?x=1" },
                { "type": "file", "mime": "text/plain", "url": "data:;base64,eA==" },
                { "type": "agent", "name": "explore" },
            ])
        );
    }
}
