//! Encodes requests for the Responses API.

use serde_json::{Map, Value, json};

use super::{ENCRYPTED, ITEM, NAME};
use crate::dialect::media::{self, Kind, Media, Source};
use crate::dialect::{
    HttpCall, Target, headers, input, insert_sampling, insert_tools, options, output_limit, settings,
};
use crate::{AssistantContent, Message, Request, ToolResult, json};

/// Paths of OpenCode's settings in the body.
const PLACES: [(&str, &[&str]); 12] = [
    ("reasoningEffort", &["reasoning", "effort"]),
    ("reasoningSummary", &["reasoning", "summary"]),
    ("reasoningMode", &["reasoning", "mode"]),
    ("textVerbosity", &["text", "verbosity"]),
    ("promptCacheKey", &["prompt_cache_key"]),
    ("promptCacheRetention", &["prompt_cache_retention"]),
    ("parallelToolCalls", &["parallel_tool_calls"]),
    ("serviceTier", &["service_tier"]),
    ("safetyIdentifier", &["safety_identifier"]),
    ("maxToolCalls", &["max_tool_calls"]),
    ("previousResponseId", &["previous_response_id"]),
    ("topLogprobs", &["top_logprobs"]),
];

/// The call for a request.
pub(in crate::dialect) fn encode(request: &Request, target: &Target) -> HttpCall {
    let mut settings = settings(request, target);
    options::place(&mut settings, &PLACES);
    options::forget(&mut settings, &["strictJsonSchema", "systemMessageMode"]);

    let mut body = Map::new();
    body.insert("model".into(), target.model.clone().into());
    if !request.system.trim().is_empty() {
        body.insert("instructions".into(), request.system.clone().into());
    }
    let items: Vec<Value> = request.messages.iter().flat_map(|message| items(message, target)).collect();
    body.insert("input".into(), items.into());
    body.insert("stream".into(), true.into());
    body.insert("store".into(), false.into());
    if let Some(limit) = output_limit(request, target) {
        body.insert("max_output_tokens".into(), limit.into());
    }
    insert_tools(&mut body, request, |tool| {
        json!({
            "type": "function", "name": tool.name, "description": tool.description,
            "parameters": input::schema(&tool.schema), "strict": false,
        })
    });
    insert_sampling(&mut body, request, target, &["temperature", "top_p"]);
    json::merge(&mut body, &settings);
    HttpCall { path: "/responses".to_owned(), headers: headers(request, target), body: Value::Object(body) }
}

fn items(message: &Message, target: &Target) -> Vec<Value> {
    match message {
        Message::User(content) => {
            let content = content.iter().map(|content| media::of(content, &target.abilities));
            let content: Vec<Value> = content.filter_map(part).collect();
            if content.is_empty() {
                return Vec::new();
            }
            vec![json!({ "type": "message", "role": "user", "content": content })]
        }
        Message::Assistant(content) => assistant(content),
        Message::Tool(results) => results.iter().map(|result| answer(result, target)).collect(),
    }
}

fn assistant(content: &[AssistantContent]) -> Vec<Value> {
    let mut items: Vec<Value> = content.iter().filter_map(item).collect();
    // The API rejects reasoning without a following item.
    while items.last().is_some_and(|item| json::text(item, "type") == "reasoning") {
        items.pop();
    }
    items
}

fn item(content: &AssistantContent) -> Option<Value> {
    match content {
        AssistantContent::Text(text) => (!text.is_empty()).then(|| {
            json!({
                "type": "message", "role": "assistant",
                "content": [{ "type": "output_text", "text": text }],
            })
        }),
        AssistantContent::Reasoning { text, metadata } => {
            let own = json::at(metadata.as_ref()?, &[NAME]);
            // Without its content the API would look it up, but nothing is stored there.
            let encrypted = json::maybe(own, ENCRYPTED)?;
            let summary: Vec<Value> = if text.is_empty() {
                Vec::new()
            } else {
                vec![json!({ "type": "summary_text", "text": text })]
            };
            let mut item = json!({ "type": "reasoning", "summary": summary, "encrypted_content": encrypted });
            if let (Value::Object(item), Some(id)) = (&mut item, json::maybe(own, ITEM)) {
                item.insert("id".into(), id.into());
            }
            Some(item)
        }
        AssistantContent::ToolCall { id, name, input } => Some(json!({
            "type": "function_call", "call_id": input::id(id), "name": name,
            "arguments": input::arguments(input).to_string(),
        })),
    }
}

fn answer(result: &ToolResult, target: &Target) -> Value {
    let id = input::id(&result.id);
    if result.files.is_empty() {
        return json!({ "type": "function_call_output", "call_id": id, "output": result.output });
    }
    let text = (!result.output.is_empty()).then(|| Media::Text(result.output.clone()));
    let files = result.files.iter().map(|file| media::of_tool(file, &target.abilities));
    let output: Vec<Value> = text.into_iter().chain(files).filter_map(part).collect();
    json!({ "type": "function_call_output", "call_id": id, "output": output })
}

fn part(media: Media) -> Option<Value> {
    let (kind, mime, name, source) = match media {
        Media::Text(text) => {
            return (!text.is_empty()).then(|| json!({ "type": "input_text", "text": text }));
        }
        Media::File { kind, mime, name, source } => (kind, mime, name, source),
    };
    Some(match (kind, &source) {
        (Kind::Image, source) => json!({ "type": "input_image", "image_url": source.url(&mime) }),
        (_, Source::Url(url)) => json!({ "type": "input_file", "file_url": url }),
        (_, source) => json!({
            "type": "input_file", "filename": name.unwrap_or_else(|| "document".to_owned()),
            "file_data": source.url(&mime),
        }),
    })
}
