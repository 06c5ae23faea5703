//! Dialects: the wire formats of providers. Pure, without a clock or network.
//!
//! Each has two halves. [`Dialect::encode`] turns a request into a call; a [`Decoder`] turns the frames of the
//! response into events, in whatever pieces they arrive. Data that a provider expects back unchanged with the
//! next call (signatures, encrypted reasoning) leaves the decoder as metadata of a reasoning block, and the
//! encoder puts it back in its place. Its shape is OpenCode's, `{"<provider>": {...}}`, so that sessions can
//! move between the two.

mod anthropic;
mod blocks;
mod chat;
mod decoder;
mod gemini;
mod input;
mod media;
mod options;
mod responses;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use decoder::Decoder;

use crate::{CallHeaders, Choice, Request, Sampling, Tool};

/// A wire format of providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic's Messages API.
    Anthropic,
    /// `OpenAI`'s Responses API.
    Responses,
    /// `OpenAI`'s Chat Completions API and the many servers compatible with it.
    Chat,
    /// Google's `generateContent`.
    Gemini,
}

/// A call that is ready to be sent below the provider's address.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpCall {
    /// Path to append to the provider's address.
    pub path: String,
    /// Headers besides the key.
    pub headers: CallHeaders,
    pub body: Value,
}

/// Model-specific input for encoding a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Target {
    /// The model's name in the provider's API.
    pub model: String,
    /// Settings with the provider's or OpenCode's names. The request's own settings override them.
    pub options: Map<String, Value>,
    pub headers: CallHeaders,
    /// Largest number of tokens the model can write.
    pub output_limit: Option<u64>,
    pub abilities: Abilities,
    pub quirks: Quirks,
}

/// Abilities of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Abilities {
    /// Accepts a temperature.
    pub temperature: bool,
    /// Reasons before it answers.
    pub reasoning: bool,
    /// Accepts attachments.
    pub attachment: bool,
    pub tools: bool,
    pub input: Modalities,
    pub output: Modalities,
}

impl Default for Abilities {
    /// Assumptions about an unknown model: withholding a picture would be worse than having the provider refuse
    /// it.
    fn default() -> Self {
        let input = Modalities { text: true, image: true, pdf: true, audio: true, video: true };
        let output = Modalities { text: true, ..Modalities::default() };
        Self { temperature: true, reasoning: false, attachment: true, tools: true, input, output }
    }
}

/// Kinds of content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of five kinds")]
pub struct Modalities {
    pub text: bool,
    pub image: bool,
    pub pdf: bool,
    pub audio: bool,
    pub video: bool,
}

/// Deviations of a server from its dialect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Quirks {
    /// The server is a router, which passes on its providers' reasoning data and cache marks.
    pub router: bool,
    /// The server uses the new name of the output limit, which older servers do not know.
    pub max_completion_tokens: bool,
    /// Call ids need nine letters or digits, and only the assistant may speak after a tool.
    pub mistral: bool,
    /// The server refuses unknown fields, even the request for usage numbers, which it sends anyway.
    pub strict: bool,
    /// The field in which reasoning is sent back; `None` means the field it came in.
    pub reasoning_field: Option<String>,
}

impl Dialect {
    /// The call for a request.
    pub fn encode(self, request: &Request, target: &Target) -> HttpCall {
        match self {
            Self::Anthropic => anthropic::encode(request, target),
            Self::Responses => responses::encode(request, target),
            Self::Chat => chat::encode(request, target),
            Self::Gemini => gemini::encode(request, target),
        }
    }

    /// A decoder for the response to one call.
    ///
    /// Some providers give their tool calls no id; `step` is part of generated ids, so that they differ from
    /// those of the conversation's other steps.
    pub fn decoder(self, step: usize) -> Decoder {
        match self {
            Self::Anthropic => Decoder::new(anthropic::Decode::default()),
            Self::Responses => Decoder::new(responses::Decode::default()),
            Self::Chat => Decoder::new(chat::Decode::new(step)),
            Self::Gemini => Decoder::new(gemini::Decode::new(step)),
        }
    }
}

/// Settings of a call: the model's, overridden by the request's.
fn settings(request: &Request, target: &Target) -> Map<String, Value> {
    let mut settings = target.options.clone();
    crate::json::merge(&mut settings, &request.options);
    settings
}

/// Headers of a call: the model's, overridden by the request's.
fn headers(request: &Request, target: &Target) -> CallHeaders {
    let mut headers = target.headers.clone();
    headers.extend(&request.headers);
    headers
}

/// Adds the tools of a request and the choice between them, in the form that the two APIs of `OpenAI` share.
fn insert_tools(body: &mut Map<String, Value>, request: &Request, encode: impl Fn(&Tool) -> Value) {
    if request.tools.is_empty() {
        return;
    }
    body.insert("tools".into(), request.tools.iter().map(encode).collect());
    let choice = if request.choice == Choice::Required { "required" } else { "auto" };
    body.insert("tool_choice".into(), choice.into());
}

/// Adds temperature, top-p and top-k under these names, in this order. A name that is missing leaves the value out.
fn insert_sampling(body: &mut Map<String, Value>, request: &Request, target: &Target, names: &[&str]) {
    if !target.abilities.temperature {
        return;
    }
    let Sampling { temperature, top_p, top_k } = request.sampling;
    let values = [temperature.map(Value::from), top_p.map(Value::from), top_k.map(Value::from)];
    for (name, value) in names.iter().zip(values) {
        if let Some(value) = value {
            body.insert((*name).to_owned(), value);
        }
    }
}

/// Adds parts to a conversation in which each role speaks once at a time, and leaves out messages without parts.
fn speak<'a>(turns: &mut Vec<(&'a str, Vec<Value>)>, role: &'a str, parts: Vec<Value>) {
    match turns.last_mut() {
        _ if parts.is_empty() => {}
        Some((last, before)) if *last == role => before.extend(parts),
        _ => turns.push((role, parts)),
    }
}

/// Largest number of tokens in the answer.
fn output_limit(request: &Request, target: &Target) -> Option<u64> {
    match (request.limits.output_tokens, target.output_limit.filter(|limit| *limit > 0)) {
        (Some(wanted), Some(limit)) => Some(wanted.min(limit)),
        (wanted, limit) => wanted.or(limit),
    }
}
