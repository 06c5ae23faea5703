//! Tests of the dialects: recordings to events, requests to bodies, and round trips.

mod decoding;
mod encoding;
mod finishing;
mod fuzzing;
mod returning;

use net::sse::{self, Frame};
use serde_json::{Value, json};

use super::{Dialect, Target};
use crate::{AssistantContent, Error, Message, ModelEvent, ModelRef, Request, Tool, UserContent};

const ALL: [Dialect; 4] = [Dialect::Anthropic, Dialect::Responses, Dialect::Chat, Dialect::Gemini];

/// Recordings with their dialect.
const RECORDINGS: [(&str, Dialect, &str); 6] = [
    ("anthropic", Dialect::Anthropic, include_str!("tests/recordings/anthropic.sse")),
    ("responses", Dialect::Responses, include_str!("tests/recordings/responses.sse")),
    ("chat", Dialect::Chat, include_str!("tests/recordings/chat.sse")),
    ("router", Dialect::Chat, include_str!("tests/recordings/router.sse")),
    ("gemini", Dialect::Gemini, include_str!("tests/recordings/gemini.sse")),
    ("gemini_text", Dialect::Gemini, include_str!("tests/recordings/gemini_text.sse")),
];

fn recording(name: &str) -> (Dialect, &'static str) {
    let found = RECORDINGS.iter().find(|(known, ..)| *known == name);
    found.map(|(_, dialect, stream)| (*dialect, *stream)).expect("a known recording")
}

type Heard = Vec<Result<ModelEvent, Error>>;

/// Events of a stream that arrives in these pieces.
fn hear<'p>(dialect: Dialect, pieces: impl IntoIterator<Item = &'p [u8]>) -> Heard {
    let mut frames = sse::Decoder::default();
    let mut decoder = dialect.decoder(3);
    let mut heard = Vec::new();
    for piece in pieces {
        frames.push(piece).expect("a small stream");
        while let Some(frame) = frames.frame() {
            heard.extend(decoder.push(&frame));
        }
    }
    heard.extend(decoder.end());
    heard
}

/// Events of these payloads.
fn hear_payloads(dialect: Dialect, payloads: &[Value]) -> Heard {
    let mut decoder = dialect.decoder(3);
    let frames = payloads.iter().map(|payload| Frame { data: payload.to_string(), ..Frame::default() });
    let mut heard: Heard = frames.flat_map(|frame| decoder.push(&frame)).collect();
    heard.extend(decoder.end());
    heard
}

/// One line per event.
fn lines(heard: &Heard) -> String {
    let line = |event: &Result<ModelEvent, Error>| match event {
        Ok(event) => serde_json::to_string(event).expect("events are JSON"),
        Err(error) => format!("error: {error:?}"),
    };
    heard.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The response as content of the next request.
fn told(heard: &Heard) -> Vec<AssistantContent> {
    let mut content: Vec<(String, AssistantContent)> = Vec::new();
    for event in heard.iter().map(|event| event.clone().expect("nothing went wrong")) {
        match event {
            ModelEvent::TextStart { id } => content.push((id, AssistantContent::Text(String::new()))),
            ModelEvent::ReasoningStart { id, metadata } => {
                content.push((id, AssistantContent::Reasoning { text: String::new(), metadata }));
            }
            ModelEvent::TextDelta { id, text: more } | ModelEvent::ReasoningDelta { id, text: more } => {
                match content.iter_mut().find(|(name, _)| *name == id) {
                    Some((_, AssistantContent::Text(text) | AssistantContent::Reasoning { text, .. })) => {
                        text.push_str(&more);
                    }
                    other => panic!("a delta for {other:?}"),
                }
            }
            ModelEvent::ReasoningEnd { id, metadata: Some(more) } => {
                match content.iter_mut().find(|(name, _)| *name == id) {
                    Some((_, AssistantContent::Reasoning { metadata, .. })) => *metadata = Some(more),
                    other => panic!("an end of {other:?}"),
                }
            }
            ModelEvent::ToolCall { id, name, input } => {
                content.push((id.clone(), AssistantContent::ToolCall { id, name, input }));
            }
            _ => {}
        }
    }
    content.into_iter().map(|(_, content)| content).collect()
}

fn target(model: &str) -> Target {
    Target { model: model.to_owned(), output_limit: Some(64_000), ..Target::default() }
}

/// A request with a prompt and two tools.
fn request() -> Request {
    let mut request = Request::new(ModelRef::new("acme", "large"));
    request.system = "You are helpful.".to_owned();
    request.messages = vec![Message::User(vec![UserContent::Text("How large is it?".to_owned())])];
    request.tools = vec![
        Tool {
            name: "read".to_owned(),
            description: "Reads a file.".to_owned(),
            schema: json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                "properties": { "filePath": { "type": "string" } }, "required": ["filePath"],
            }),
        },
        Tool { name: "list".to_owned(), description: "Lists files.".to_owned(), schema: json!({}) },
    ];
    request.limits.output_tokens = Some(32_000);
    request
}
