//! Encodes requests for Chat Completions.

use serde_json::{Map, Value, json};

use super::{COMPATIBLE, DETAILS, FIELD, ROUTER};
use crate::dialect::media::{self, Kind, Media};
use crate::dialect::{
    HttpCall, Target, headers, input, insert_sampling, insert_tools, options, output_limit, settings,
};
use crate::{AssistantContent, Message, Request, ToolResult, json};

/// Paths of OpenCode's settings in the body.
const PLACES: [(&str, &[&str]); 9] = [
    ("reasoningEffort", &["reasoning_effort"]),
    ("textVerbosity", &["verbosity"]),
    ("promptCacheKey", &["prompt_cache_key"]),
    ("parallelToolCalls", &["parallel_tool_calls"]),
    ("serviceTier", &["service_tier"]),
    ("maxCompletionTokens", &["max_completion_tokens"]),
    ("logitBias", &["logit_bias"]),
    ("enableThinking", &["enable_thinking"]),
    ("veniceParameters", &["venice_parameters"]),
];

/// Text of the assistant where Mistral requires an assistant message.
const FILLER: &str = "Done.";

/// Number of last messages with a cache mark, for models that need one.
const MARKED_MESSAGES: usize = 2;

/// The call for a request.
pub(in crate::dialect) fn encode(request: &Request, target: &Target) -> HttpCall {
    let mut settings = settings(request, target);
    options::place(&mut settings, &PLACES);
    let include_usage = settings.shift_remove("includeUsage") != Some(Value::Bool(false));
    options::forget(&mut settings, &["strictJsonSchema", "reasoningSummary", "structuredOutputs"]);

    let mut messages = messages(request, target);
    if target.quirks.router && target.model.contains("claude") {
        mark(&mut messages);
    }
    let mut body = Map::new();
    body.insert("model".into(), target.model.clone().into());
    body.insert("messages".into(), messages.into());
    body.insert("stream".into(), true.into());
    if include_usage && !target.quirks.strict {
        body.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    if let Some(limit) = output_limit(request, target) {
        let name = if target.quirks.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        body.insert(name.into(), limit.into());
    }
    insert_tools(&mut body, request, |tool| {
        json!({ "type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": input::schema(&tool.schema),
        } })
    });
    // Callers set top-k only where a user asks for it, because not all servers understand it.
    insert_sampling(&mut body, request, target, &["temperature", "top_p", "top_k"]);
    json::merge(&mut body, &settings);
    HttpCall {
        path: "/chat/completions".to_owned(),
        headers: headers(request, target),
        body: Value::Object(body),
    }
}

fn messages(request: &Request, target: &Target) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for message in &request.messages {
        match message {
            Message::User(content) => {
                let media = content.iter().map(|content| media::of(content, &target.abilities)).collect();
                user(media, target, &mut messages);
            }
            Message::Assistant(content) => messages.extend(assistant(content, target)),
            Message::Tool(results) => {
                messages.extend(results.iter().map(|result| answer(result, target)));
                user(media::after(results, &target.abilities), target, &mut messages);
            }
        }
    }
    messages
}

fn user(content: Vec<Media>, target: &Target, messages: &mut Vec<Value>) {
    let Some(content) = content_value(content) else { return };
    let after_tool = messages.last().is_some_and(|last| json::text(last, "role") == "tool");
    if target.quirks.mistral && after_tool {
        messages.push(json!({ "role": "assistant", "content": FILLER }));
    }
    messages.push(json!({ "role": "user", "content": content }));
}

/// Content of a user message. Text alone is a string, because some servers accept no list.
fn content_value(content: Vec<Media>) -> Option<Value> {
    let words = |media: &Media| match media {
        Media::Text(text) => Some(text.clone()),
        Media::File { .. } => None,
    };
    if let Some(texts) = content.iter().map(words).collect::<Option<Vec<_>>>() {
        let text = texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        return (!text.is_empty()).then(|| text.into());
    }
    let parts: Vec<Value> = content.into_iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| parts.into())
}

fn part(media: Media) -> Option<Value> {
    let (kind, mime, name, source) = match media {
        Media::Text(text) => {
            return (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
        }
        Media::File { kind, mime, name, source } => (kind, mime, name, source),
    };
    Some(match (kind, &source) {
        (Kind::Image, source) => {
            json!({ "type": "image_url", "image_url": { "url": source.url(&mime) } })
        }
        (Kind::Audio, media::Source::Data(data)) => {
            let format = if mime.ends_with("wav") { "wav" } else { "mp3" };
            json!({ "type": "input_audio", "input_audio": { "data": data, "format": format } })
        }
        (Kind::Video, source) => {
            json!({ "type": "video_url", "video_url": { "url": source.url(&mime) } })
        }
        (_, source) => json!({ "type": "file", "file": {
            "filename": name.unwrap_or_else(|| "document".to_owned()), "file_data": source.url(&mime),
        } }),
    })
}

fn assistant(content: &[AssistantContent], target: &Target) -> Option<Value> {
    let mut text = String::new();
    let mut calls = Vec::new();
    let mut message = json!({ "role": "assistant", "content": null });
    for content in content {
        match content {
            AssistantContent::Text(more) => text.push_str(more),
            AssistantContent::ToolCall { id, name, input } => calls.push(json!({
                "id": call_id(id, target), "type": "function",
                "function": { "name": name, "arguments": input::arguments(input).to_string() },
            })),
            AssistantContent::Reasoning { .. } => {}
        }
    }
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    if let Value::Object(message) = &mut message {
        if !text.is_empty() {
            message.insert("content".into(), text.into());
        }
        if !calls.is_empty() {
            message.insert("tool_calls".into(), calls.into());
        }
        reasoning(content, target, message);
    }
    Some(message)
}

/// Puts reasoning back into its original field.
fn reasoning(content: &[AssistantContent], target: &Target, message: &mut Map<String, Value>) {
    let mut details = Vec::new();
    let mut texts: Vec<(&str, String)> = Vec::new();
    for content in content {
        let AssistantContent::Reasoning { text, metadata } = content else { continue };
        let metadata = metadata.as_ref().unwrap_or(&Value::Null);
        details.extend_from_slice(json::list(json::at(metadata, &[ROUTER]), DETAILS));
        let came_in = json::maybe(json::at(metadata, &[COMPATIBLE]), FIELD);
        let Some(field) = target.quirks.reasoning_field.as_deref().or(came_in) else { continue };
        match texts.iter_mut().find(|(name, _)| *name == field) {
            Some((_, before)) => before.push_str(text),
            None => texts.push((field, text.clone())),
        }
    }
    if target.quirks.router && !details.is_empty() {
        // The list contains everything, including what the text omits.
        message.insert(DETAILS.into(), details.into());
        return;
    }
    for (field, text) in texts {
        if !text.is_empty() {
            message.insert(field.to_owned(), text.into());
        }
    }
}

fn answer(result: &ToolResult, target: &Target) -> Value {
    json!({ "role": "tool", "tool_call_id": call_id(&result.id, target), "content": result.output })
}

/// A call id in the server's format: Mistral requires nine letters or digits.
fn call_id(id: &str, target: &Target) -> String {
    if !target.quirks.mistral {
        return id.to_owned();
    }
    let short: String = id.chars().filter(char::is_ascii_alphanumeric).take(9).collect();
    format!("{short:0<9}")
}

/// Adds cache marks after the system prompt and after the last messages.
fn mark(messages: &mut [Value]) {
    let last = messages.len().saturating_sub(MARKED_MESSAGES);
    for (number, message) in messages.iter_mut().enumerate() {
        let is_system = json::text(message, "role") == "system";
        if !is_system && number < last {
            continue;
        }
        let Some(content) = message.get_mut("content") else { continue };
        if let Value::String(text) = content {
            *content = json!([{ "type": "text", "text": text }]);
        }
        let last = content.as_array_mut().and_then(|parts| parts.last_mut());
        if let Some(Value::Object(part)) = last {
            part.insert("cache_control".into(), json!({ "type": "ephemeral" }));
        }
    }
}
