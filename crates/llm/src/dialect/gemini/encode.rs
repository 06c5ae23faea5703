//! Encodes requests for Gemini.

use serde_json::{Map, Value, json};

use super::{CALL, NAME, SIGNATURE, SIGNS, TEXT};
use crate::dialect::media::{self, Media, Source};
use crate::dialect::{
    HttpCall, Target, headers, input, insert_sampling, options, output_limit, settings, speak,
};
use crate::{AssistantContent, Choice, Message, Request, ToolResult, json};

/// Paths of OpenCode's settings in the body. Some of its variants have the last two at the top level.
const PLACES: [(&str, &[&str]); 7] = [
    ("thinkingConfig", &["generationConfig", "thinkingConfig"]),
    ("responseModalities", &["generationConfig", "responseModalities"]),
    ("mediaResolution", &["generationConfig", "mediaResolution"]),
    ("imageConfig", &["generationConfig", "imageConfig"]),
    ("audioTimestamp", &["generationConfig", "audioTimestamp"]),
    ("includeThoughts", &["generationConfig", "thinkingConfig", "includeThoughts"]),
    ("thinkingLevel", &["generationConfig", "thinkingConfig", "thinkingLevel"]),
];

/// Documented replacement for a missing signature, for instance after a change of model.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The call for a request.
pub(in crate::dialect) fn encode(request: &Request, target: &Target) -> HttpCall {
    let mut settings = settings(request, target);
    options::place(&mut settings, &PLACES);
    options::forget(&mut settings, &["structuredOutputs", "threshold", "promptCacheKey"]);

    // Gemma has no system prompt, so it becomes part of the first message.
    let gemma = target.model.contains("gemma");
    let system = Some(request.system.as_str()).filter(|system| !system.trim().is_empty());
    let mut body = Map::new();
    body.insert("contents".into(), contents(request, target, system.filter(|_| gemma)).into());
    if let Some(system) = system.filter(|_| !gemma) {
        body.insert("systemInstruction".into(), json!({ "parts": [{ "text": system }] }));
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "name": tool.name, "description": tool.description,
                "parametersJsonSchema": input::schema(&tool.schema),
            })
        });
        body.insert("tools".into(), json!([{ "functionDeclarations": tools.collect::<Vec<_>>() }]));
        let mode = if request.choice == Choice::Required { "ANY" } else { "AUTO" };
        body.insert("toolConfig".into(), json!({ "functionCallingConfig": { "mode": mode } }));
    }
    let mut generation = Map::new();
    if let Some(limit) = output_limit(request, target) {
        generation.insert("maxOutputTokens".into(), limit.into());
    }
    insert_sampling(&mut generation, request, target, &["temperature", "topP", "topK"]);
    if !generation.is_empty() {
        body.insert("generationConfig".into(), generation.into());
    }
    json::merge(&mut body, &settings);
    let model = target.model.strip_prefix("models/").unwrap_or(&target.model);
    HttpCall {
        path: format!("/models/{model}:streamGenerateContent?alt=sse"),
        headers: headers(request, target),
        body: Value::Object(body),
    }
}

/// The conversation with alternating user and model messages.
fn contents(request: &Request, target: &Target, preface: Option<&str>) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    if let Some(preface) = preface {
        turns.push(("user", vec![json!({ "text": preface })]));
    }
    for message in &request.messages {
        let (role, parts): (_, Vec<Value>) = match message {
            Message::User(content) => {
                let media = content.iter().map(|content| media::of(content, &target.abilities));
                ("user", media.filter_map(part).collect())
            }
            Message::Assistant(content) => ("model", assistant(content, target)),
            Message::Tool(results) => ("user", answers(results, target)),
        };
        speak(&mut turns, role, parts);
    }
    turns.into_iter().map(|(role, parts)| json!({ "role": role, "parts": parts })).collect()
}

fn assistant(content: &[AssistantContent], target: &Target) -> Vec<Value> {
    let mut parts = Vec::new();
    // Signature for the next call.
    let mut signature: Option<String> = None;
    // Of parallel calls only the first is signed.
    let mut signed = false;
    for content in content {
        match content {
            AssistantContent::Text(text) => {
                signed = false;
                if !text.is_empty() {
                    parts.push(json!({ "text": text }));
                }
            }
            AssistantContent::Reasoning { text, metadata } => {
                let own = json::at(metadata.as_ref().unwrap_or(&Value::Null), &[NAME]);
                let Some(found) = json::maybe(own, SIGNATURE) else { continue };
                match json::text(own, SIGNS) {
                    CALL => signature = Some(found.to_owned()),
                    TEXT => parts.push(json!({ "text": "", SIGNATURE: found })),
                    _ => parts.push(json!({ "text": text, "thought": true, SIGNATURE: found })),
                }
            }
            AssistantContent::ToolCall { id, name, input } => {
                let call = json!({ "id": id, "name": name, "args": input::arguments(input) });
                let own = signature.take();
                let strict = target.model.contains("gemini-3") && !signed;
                signed |= own.is_some();
                let own = own.or_else(|| strict.then(|| NO_SIGNATURE.to_owned()));
                parts.push(match own {
                    Some(signature) => json!({ "functionCall": call, SIGNATURE: signature }),
                    None => json!({ "functionCall": call }),
                });
            }
        }
    }
    parts
}

fn answers(results: &[ToolResult], target: &Target) -> Vec<Value> {
    let mut parts: Vec<Value> = results
        .iter()
        .map(|result| {
            let key = if result.is_error { "error" } else { "output" };
            json!({ "functionResponse": {
                "id": result.id, "name": result.name, "response": { key: result.output },
            } })
        })
        .collect();
    parts.extend(media::after(results, &target.abilities).into_iter().filter_map(part));
    parts
}

fn part(media: Media) -> Option<Value> {
    match media {
        Media::Text(text) => (!text.is_empty()).then(|| json!({ "text": text })),
        Media::File { mime, source: Source::Data(data), .. } => {
            Some(json!({ "inlineData": { "mimeType": mime, "data": data } }))
        }
        Media::File { mime, source: Source::Url(url), .. } => {
            Some(json!({ "fileData": { "mimeType": mime, "fileUri": url } }))
        }
    }
}
