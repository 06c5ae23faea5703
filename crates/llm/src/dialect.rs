//! Dialects: the wire formats that providers speak. Pure, with no clock and no network.
//!
//! Each has two halves. [`Dialect::encode`] turns a request into a call; a [`Decoder`] turns the frames of the
//! answer into events, whatever pieces they arrive in. What a provider wants back unchanged with the next call
//! (signatures, encrypted reasoning) leaves the decoder as the metadata of a reasoning block and is put back in
//! its place by the encoder. Its shape is OpenCode's, `{"<provider>": {...}}`, so that sessions can move.

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

use crate::{CallHeaders, Request};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic's Messages.
    Anthropic,
    /// `OpenAI`'s Responses.
    Responses,
    /// `OpenAI`'s Chat Completions, and the many servers that imitate it.
    Chat,
    /// Google's `generateContent`.
    Gemini,
}

/// A call, ready to be sent to an address below the provider's.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpCall {
    /// What to append to the provider's address.
    pub path: String,
    /// Headers besides the key.
    pub headers: CallHeaders,
    /// The JSON to post.
    pub body: Value,
}

/// What a call has to know about the model it is for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Target {
    /// The name the provider's API knows the model by.
    pub model: String,
    /// Settings, in the provider's names or those of OpenCode's configuration. The request's own come on top.
    pub options: Map<String, Value>,
    /// Headers for every call.
    pub headers: CallHeaders,
    /// The most tokens the model can write.
    pub output_limit: Option<u64>,
    /// What the model can do.
    pub abilities: Abilities,
    /// Where the server differs from its dialect.
    pub quirks: Quirks,
}

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Abilities {
    /// Its temperature can be set.
    pub temperature: bool,
    /// It thinks.
    pub reasoning: bool,
    /// It takes attachments.
    pub attachment: bool,
    /// It calls tools.
    pub tools: bool,
    /// What it takes.
    pub input: Modalities,
    /// What it gives.
    pub output: Modalities,
}

impl Default for Abilities {
    /// What can be assumed of a model nothing is known about: refusing to send a picture would be worse than
    /// having it refused.
    fn default() -> Self {
        let input = Modalities { text: true, image: true, pdf: true, audio: true, video: true };
        let output = Modalities { text: true, ..Modalities::default() };
        Self { temperature: true, reasoning: false, attachment: true, tools: true, input, output }
    }
}

/// Kinds of content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of five")]
pub struct Modalities {
    /// Words.
    pub text: bool,
    /// Pictures.
    pub image: bool,
    /// Documents.
    pub pdf: bool,
    /// Sound.
    pub audio: bool,
    /// Films.
    pub video: bool,
}

/// Where a server differs from its dialect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Quirks {
    /// A router that passes on what its providers want back and where their caches end.
    pub router: bool,
    /// The output limit has its new name, which older servers do not know.
    pub max_completion_tokens: bool,
    /// Ids of calls have nine letters or digits, and nobody but the assistant speaks after a tool.
    pub mistral: bool,
    /// What it does not know it refuses, even the wish to be told the numbers; it tells them anyway.
    pub strict: bool,
    /// The field in which reasoning goes back, where it is known; otherwise the one it came in.
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

    /// A decoder for the answer to one call.
    ///
    /// Some providers give their tool calls no id; `step` is part of the ids made up for them, so that they
    /// differ from those of the conversation's other steps.
    pub fn decoder(self, step: usize) -> Decoder {
        match self {
            Self::Anthropic => Decoder::new(anthropic::Decode::default()),
            Self::Responses => Decoder::new(responses::Decode::default()),
            Self::Chat => Decoder::new(chat::Decode::new(step)),
            Self::Gemini => Decoder::new(gemini::Decode::new(step)),
        }
    }
}

/// The settings of a call: the model's, then the request's.
fn settings(request: &Request, target: &Target) -> Map<String, Value> {
    let mut settings = target.options.clone();
    crate::json::merge(&mut settings, &request.options);
    settings
}

/// The headers of a call: the model's, then the request's.
fn headers(request: &Request, target: &Target) -> CallHeaders {
    let mut headers = target.headers.clone();
    headers.extend(&request.headers);
    headers
}

/// The most tokens the answer may have.
fn output_limit(request: &Request, target: &Target) -> Option<u64> {
    match (request.limits.output_tokens, target.output_limit.filter(|limit| *limit > 0)) {
        (Some(wanted), Some(limit)) => Some(wanted.min(limit)),
        (wanted, limit) => wanted.or(limit),
    }
}
