//! Encodes requests for Anthropic, with cache marks.

use serde_json::{Map, Value, json};

use super::NAME;
use crate::dialect::media::{self, Kind, Media, Source};
use crate::dialect::{HttpCall, Target, headers, input, options, output_limit, settings, speak};
use crate::{AssistantContent, Choice, Message, Request, ToolResult, json};

const VERSION: &str = "2023-06-01";

/// Beta features: thinking between tool calls, and streamed arguments. Without the latter a long argument
/// arrives in one piece after minutes of silence.
const BETAS: [&str; 2] = ["interleaved-thinking-2025-05-14", "fine-grained-tool-streaming-2025-05-14"];

/// Output limit when neither the request nor the model has one; the API requires it.
const DEFAULT_OUTPUT: u64 = 32_000;

/// Number of last messages with a cache mark. The API allows four marks; the system prompt and the tools use
/// the other two.
const MARKED_MESSAGES: usize = 2;

/// The call for a request.
pub(in crate::dialect) fn encode(request: &Request, target: &Target) -> HttpCall {
    let mut settings = settings(request, target);
    options::place(&mut settings, &[("effort", &["output_config", "effort"])]);
    let betas = settings.shift_remove("anthropicBeta");
    let silent = settings.shift_remove("sendReasoning") == Some(Value::Bool(false));
    let single = settings.shift_remove("disableParallelToolUse") == Some(Value::Bool(true));
    options::forget(&mut settings, &["toolStreaming", "structuredOutputMode", "promptCacheKey"]);
    let mut settings = options::snake(settings);
    let must_call = request.choice == Choice::Required && !request.tools.is_empty();
    if must_call {
        // The API rejects thinking together with a forced tool call.
        settings.shift_remove("thinking");
    }
    let thinks = matches!(
        settings.get("thinking").map(|thinking| json::text(thinking, "type")),
        Some("enabled" | "adaptive")
    );

    let mut body = Map::new();
    body.insert("model".into(), target.model.clone().into());
    body.insert("max_tokens".into(), max_tokens(request, target, &settings).into());
    body.insert("stream".into(), true.into());
    if !request.system.trim().is_empty() {
        body.insert("system".into(), json!([marked(json!({ "type": "text", "text": request.system }))]));
    }
    body.insert("messages".into(), messages(request, target, !silent).into());
    if !request.tools.is_empty() {
        body.insert("tools".into(), tools(request).into());
        let mut choice = json!({ "type": if must_call { "any" } else { "auto" } });
        if single && let Value::Object(choice) = &mut choice {
            choice.insert("disable_parallel_tool_use".into(), true.into());
        }
        body.insert("tool_choice".into(), choice);
    }
    if target.abilities.temperature && !thinks {
        // Newer models accept only one of the two.
        if let Some(temperature) = request.sampling.temperature {
            body.insert("temperature".into(), temperature.into());
        } else if let Some(top_p) = request.sampling.top_p {
            body.insert("top_p".into(), top_p.into());
        }
        if let Some(top_k) = request.sampling.top_k {
            body.insert("top_k".into(), top_k.into());
        }
    }
    json::merge(&mut body, &settings);

    let mut headers = headers(request, target);
    if headers.get("anthropic-version").is_none() {
        headers.set("anthropic-version", VERSION);
    }
    if target.model.contains("claude") {
        for beta in BETAS {
            headers.append("anthropic-beta", beta);
        }
    }
    for beta in betas.iter().flat_map(|betas| betas.as_array().into_iter().flatten()) {
        headers.append("anthropic-beta", beta.as_str().unwrap_or_default());
    }
    HttpCall { path: "/messages".to_owned(), headers, body: Value::Object(body) }
}

/// Limit on thinking and text together. The requested limit is meant for the text, so a thinking budget is
/// added, up to the model's limit.
fn max_tokens(request: &Request, target: &Target, settings: &Map<String, Value>) -> u64 {
    let text = output_limit(request, target).unwrap_or(DEFAULT_OUTPUT);
    let thinking = settings.get("thinking").unwrap_or(&Value::Null);
    match json::count(thinking, "budget_tokens") {
        Some(budget) if json::text(thinking, "type") == "enabled" => {
            let most = target.output_limit.filter(|limit| *limit > 0).unwrap_or(u64::MAX);
            // The budget must be smaller than the limit.
            text.saturating_add(budget).min(most).max(budget.saturating_add(1))
        }
        _ => text,
    }
}

fn tools(request: &Request) -> Vec<Value> {
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name, "description": tool.description,
                "input_schema": input::schema(&tool.schema),
            })
        })
        .collect();
    if let Some(last) = tools.pop() {
        tools.push(marked(last));
    }
    tools
}

/// The conversation with alternating user and assistant messages, because the API rejects repeated roles and
/// empty messages.
fn messages(request: &Request, target: &Target, reasoning: bool) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, blocks): (_, Vec<Value>) = match message {
            Message::User(content) => {
                let media = content.iter().map(|content| media::of(content, &target.abilities));
                ("user", media.filter_map(block).collect())
            }
            Message::Assistant(content) => {
                let told = content
                    .iter()
                    .filter(|content| reasoning || !matches!(content, AssistantContent::Reasoning { .. }));
                ("assistant", told.filter_map(assistant).collect())
            }
            Message::Tool(results) => ("user", results.iter().map(|result| answer(result, target)).collect()),
        };
        speak(&mut turns, role, blocks);
    }
    // An assistant message to be continued may not end in whitespace.
    if let Some(("assistant", blocks)) = turns.last_mut()
        && let Some(Value::Object(last)) = blocks.last_mut()
        && let Some(Value::String(text)) = last.get_mut("text")
    {
        text.truncate(text.trim_end().len());
    }
    let first_marked = turns.len().saturating_sub(MARKED_MESSAGES);
    let turns = turns.into_iter().enumerate().map(|(number, (role, mut blocks))| {
        if number >= first_marked {
            mark_last(&mut blocks);
        }
        json!({ "role": role, "content": blocks })
    });
    turns.collect()
}

fn assistant(content: &AssistantContent) -> Option<Value> {
    match content {
        AssistantContent::Text(text) => words(text),
        AssistantContent::Reasoning { text, metadata } => {
            let own = json::at(metadata.as_ref()?, &[NAME]);
            if let Some(data) = json::maybe(own, "redactedData") {
                return Some(json!({ "type": "redacted_thinking", "data": data }));
            }
            // The API rejects thinking without a signature.
            let signature = json::maybe(own, "signature")?;
            Some(json!({ "type": "thinking", "thinking": text, "signature": signature }))
        }
        AssistantContent::ToolCall { id, name, input } => Some(json!({
            "type": "tool_use", "id": input::id(id), "name": name, "input": input::arguments(input),
        })),
    }
}

fn answer(result: &ToolResult, target: &Target) -> Value {
    let files = result.files.iter().filter_map(|file| block(media::of_tool(file, &target.abilities)));
    let content: Vec<Value> = words(&result.output).into_iter().chain(files).collect();
    let mut answer = json!({ "type": "tool_result", "tool_use_id": input::id(&result.id) });
    if let Value::Object(answer) = &mut answer {
        if !content.is_empty() {
            answer.insert("content".into(), content.into());
        }
        if result.is_error {
            answer.insert("is_error".into(), true.into());
        }
    }
    answer
}

/// A text block; `None` for an empty text, which the API rejects.
fn words(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text }))
}

fn block(media: Media) -> Option<Value> {
    let (kind, mime, name, source) = match media {
        Media::Text(text) => return words(&text),
        Media::File { kind, mime, name, source } => (kind, mime, name, source),
    };
    let source = match source {
        Source::Data(data) => json!({ "type": "base64", "media_type": mime, "data": data }),
        Source::Url(url) => json!({ "type": "url", "url": url }),
    };
    Some(match kind {
        Kind::Image => json!({ "type": "image", "source": source }),
        Kind::Pdf => match name {
            Some(name) => json!({ "type": "document", "source": source, "title": name }),
            None => json!({ "type": "document", "source": source }),
        },
        Kind::Audio | Kind::Video | Kind::Other => {
            return words(&format!("ERROR: files of type {mime} cannot be read. Inform the user."));
        }
    })
}

/// Adds a cache mark.
fn marked(mut block: Value) -> Value {
    if let Value::Object(block) = &mut block {
        block.insert("cache_control".into(), json!({ "type": "ephemeral" }));
    }
    block
}

/// Adds a cache mark to the last block that may have one; thinking may not.
fn mark_last(blocks: &mut [Value]) {
    let thinking = |block: &Value| json::text(block, "type").ends_with("thinking");
    if let Some(block) = blocks.iter_mut().rev().find(|block| !thinking(block)) {
        *block = marked(block.take());
    }
}
