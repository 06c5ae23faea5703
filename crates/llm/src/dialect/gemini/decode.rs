//! Decodes Gemini's chunks. Text arrives in pieces, calls arrive whole.

use serde_json::{Value, json};

use super::{CALL, NAME, SIGNATURE, SIGNS, TEXT};
use crate::complaint::Complaint;
use crate::dialect::blocks::Blocks;
use crate::dialect::{decoder, input};
use crate::{Error, Finish, ModelEvent, Usage, json};

/// State of one response.
#[derive(Debug)]
pub(in crate::dialect) struct Decode {
    step: usize,
    blocks: Blocks,
    calls: usize,
    usage: Usage,
    reason: Option<Finish>,
}

impl Decode {
    pub(in crate::dialect) fn new(step: usize) -> Self {
        Self { step, blocks: Blocks::default(), calls: 0, usage: Usage::default(), reason: None }
    }

    fn part(&mut self, part: &Value, out: &mut Vec<ModelEvent>) {
        let signature = json::maybe(part, SIGNATURE);
        let text = json::text(part, "text");
        if let Some(call) = part.get("functionCall").filter(|call| call.is_object()) {
            if let Some(signature) = signature {
                self.blocks.sign(json!({ NAME: { SIGNATURE: signature, SIGNS: CALL } }), out);
            }
            self.blocks.close(out);
            self.call(call, out);
        } else if json::at(part, &["thought"]) == &Value::Bool(true) {
            self.blocks.reasoning(text, out);
            if let Some(signature) = signature {
                self.blocks.sign(json!({ NAME: { SIGNATURE: signature } }), out);
            }
        } else {
            self.blocks.text(text, out);
            if let Some(signature) = signature {
                self.blocks.close(out);
                self.blocks.sign(json!({ NAME: { SIGNATURE: signature, SIGNS: TEXT } }), out);
                self.blocks.close(out);
            }
        }
    }

    fn call(&mut self, call: &Value, out: &mut Vec<ModelEvent>) {
        let id = match json::maybe(call, "id") {
            Some(id) => id.to_owned(),
            None => format!("call_{}_{}", self.step, self.calls),
        };
        self.calls += 1;
        let name = json::text(call, "name").to_owned();
        let input = input::of(json::at(call, &["args"]));
        out.push(ModelEvent::ToolInputStart { id: id.clone(), name: name.clone() });
        out.push(ModelEvent::ToolInputDelta { id: id.clone(), json: input.to_string() });
        out.push(ModelEvent::ToolCall { id, name, input });
    }
}

impl decoder::Decode for Decode {
    fn payload(&mut self, payload: &Value, out: &mut Vec<ModelEvent>) -> Result<(), Error> {
        if payload.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Complaint::read(payload).in_stream(payload));
        }
        if let Some(usage) = payload.get("usageMetadata").filter(|usage| usage.is_object()) {
            self.usage = read(usage);
        }
        if let Some(candidate) = json::list(payload, "candidates").first() {
            for part in json::list(json::at(candidate, &["content"]), "parts") {
                self.part(part, out);
            }
            if let Some(reason) = json::maybe(candidate, "finishReason") {
                self.reason = Some(finish(reason, self.calls > 0));
            }
        } else if json::maybe(json::at(payload, &["promptFeedback"]), "blockReason").is_some() {
            self.reason = Some(Finish::ContentFilter);
        }
        Ok(())
    }

    fn end(&mut self, _marked: bool, out: &mut Vec<ModelEvent>) {
        if let Some(reason) = self.reason {
            self.blocks.close(out);
            out.push(ModelEvent::Finish { reason, usage: self.usage });
        }
    }

    fn is_settled(&self) -> bool {
        self.reason.is_some()
    }
}

fn read(usage: &Value) -> Usage {
    let count = |key| json::count(usage, key).unwrap_or_default();
    let thoughts = count("thoughtsTokenCount");
    Usage {
        input: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        output: count("candidatesTokenCount").saturating_add(thoughts),
        reasoning: thoughts,
        cache_read: count("cachedContentTokenCount"),
        cache_write: 0,
        total: json::count(usage, "totalTokenCount"),
    }
}

fn finish(reason: &str, called: bool) -> Finish {
    match reason {
        // Gemini has no separate reason for calls.
        "STOP" if called => Finish::ToolCalls,
        "STOP" => Finish::Stop,
        "MAX_TOKENS" => Finish::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Finish::ContentFilter,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE" => Finish::Error,
        _ => Finish::Unknown,
    }
}
