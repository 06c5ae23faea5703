//! Decodes chunks of Chat Completions.

use serde_json::{Map, Value};

use super::calls::Calls;
use super::{COMPATIBLE, DETAILS, FIELD, ROUTER, usage};
use crate::complaint::Complaint;
use crate::dialect::blocks::Blocks;
use crate::dialect::decoder;
use crate::{Error, Finish, ModelEvent, Usage, json};

/// Fields in which servers send reasoning.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

/// A finish reason that is actually an error.
const OUT_OF_RESOURCES: &str = "insufficient_system_resource";

/// State of one response.
#[derive(Debug)]
pub(in crate::dialect) struct Decode {
    step: usize,
    blocks: Blocks,
    calls: Calls,
    /// The field of the open reasoning.
    field: Option<&'static str>,
    /// A router's reasoning that belongs to no block yet.
    details: Vec<Value>,
    called: bool,
    usage: Usage,
    reason: Option<Finish>,
}

impl Decode {
    pub(in crate::dialect) fn new(step: usize) -> Self {
        Self {
            step,
            blocks: Blocks::default(),
            calls: Calls::default(),
            field: None,
            details: Vec::new(),
            called: false,
            usage: Usage::default(),
            reason: None,
        }
    }

    fn delta(&mut self, delta: &Value, out: &mut Vec<ModelEvent>) {
        self.reasoning(delta, out);
        match json::at(delta, &["content"]) {
            Value::String(text) => self.text(text, out),
            Value::Array(parts) => parts.iter().for_each(|part| self.part(part, out)),
            _ => {}
        }
        self.text(json::text(delta, "refusal"), out);
        for piece in json::list(delta, "tool_calls") {
            self.end_reasoning(out);
            self.blocks.close(out);
            self.calls.push(piece, self.step, out);
        }
    }

    fn reasoning(&mut self, delta: &Value, out: &mut Vec<ModelEvent>) {
        let found =
            REASONING_FIELDS.iter().find_map(|field| json::maybe(delta, field).map(|text| (*field, text)));
        let details = json::list(delta, DETAILS);
        if let Some((field, text)) = found {
            self.field = Some(field);
            self.blocks.reasoning(text, out);
        } else {
            for detail in details {
                let text = json::maybe(detail, "text").unwrap_or_else(|| json::text(detail, "summary"));
                self.blocks.reasoning(text, out);
            }
        }
        for detail in details {
            collect(&mut self.details, detail);
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            self.end_reasoning(out);
            self.blocks.text(text, out);
        }
    }

    /// Mistral's content is a list in which thinking is a nested list.
    fn part(&mut self, part: &Value, out: &mut Vec<ModelEvent>) {
        match json::text(part, "type") {
            "thinking" => {
                let texts = json::list(part, "thinking").iter().map(|text| json::text(text, "text"));
                self.blocks.reasoning(&texts.collect::<String>(), out);
            }
            _ => self.text(json::text(part, "text"), out),
        }
    }

    /// Ends open reasoning, with the metadata to send back.
    fn end_reasoning(&mut self, out: &mut Vec<ModelEvent>) {
        if !self.blocks.is_reasoning() {
            return;
        }
        let metadata = self.metadata();
        if !metadata.is_empty() {
            self.blocks.sign(Value::Object(metadata), out);
        }
        self.blocks.close(out);
    }

    fn metadata(&mut self) -> Map<String, Value> {
        let mut metadata = Map::new();
        if let Some(field) = self.field.take() {
            json::set(&mut metadata, &[COMPATIBLE, FIELD], field.into());
        }
        if !self.details.is_empty() {
            json::set(&mut metadata, &[ROUTER, DETAILS], std::mem::take(&mut self.details).into());
        }
        metadata
    }

    /// Closes everything that is open.
    fn close(&mut self, out: &mut Vec<ModelEvent>) {
        self.end_reasoning(out);
        self.blocks.close(out);
        if !self.details.is_empty() {
            // The details came after their text, so an empty block carries them.
            let metadata = self.metadata();
            self.blocks.sign(Value::Object(metadata), out);
            self.blocks.close(out);
        }
        self.called |= !self.calls.is_empty();
        self.calls.complete(out);
    }
}

impl decoder::Decode for Decode {
    fn payload(&mut self, payload: &Value, out: &mut Vec<ModelEvent>) -> Result<(), Error> {
        let is_error = payload.get("error").is_some_and(|error| !error.is_null())
            || json::text(payload, "object") == "error"
            || json::text(payload, "type") == "error";
        if is_error {
            return Err(Complaint::read(payload).in_stream(payload));
        }
        if let Some(usage) = usage::find(payload) {
            self.usage = usage;
        }
        let Some(choice) = json::list(payload, "choices").first() else { return Ok(()) };
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        self.delta(delta, out);
        match json::maybe(choice, "finish_reason") {
            Some(OUT_OF_RESOURCES) => Err(Error::InStream {
                code: Some(OUT_OF_RESOURCES.to_owned()),
                message: "the provider ran out of resources in the middle of the answer".to_owned(),
            }),
            Some(reason) => {
                self.close(out);
                self.reason = Some(finish(reason));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, marked: bool, out: &mut Vec<ModelEvent>) {
        if !marked && self.reason.is_none() {
            return;
        }
        self.close(out);
        let reason = self.reason.unwrap_or(if self.called { Finish::ToolCalls } else { Finish::Unknown });
        out.push(ModelEvent::Finish { reason, usage: self.usage });
    }

    fn is_settled(&self) -> bool {
        self.reason.is_some()
    }
}

/// Adds a piece of a router's list; consecutive pieces of one entry are joined.
fn collect(details: &mut Vec<Value>, piece: &Value) {
    let same = |last: &Value| {
        ["type", "index"].iter().all(|key| last.get(key) == piece.get(key))
            && json::text(piece, "type") != "reasoning.encrypted"
    };
    let (Some(Value::Object(last)), Value::Object(piece)) =
        (details.last_mut().filter(|last| same(last)), piece)
    else {
        details.push(piece.clone());
        return;
    };
    for (key, value) in piece {
        match (last.get_mut(key), value) {
            (Some(Value::String(text)), Value::String(more)) if key == "text" || key == "summary" => {
                text.push_str(more);
            }
            (Some(_), Value::Null) => {}
            _ => {
                last.insert(key.clone(), value.clone());
            }
        }
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "stop" | "eos" | "end_turn" | "stop_sequence" => Finish::Stop,
        "tool_calls" | "function_call" | "tool_use" => Finish::ToolCalls,
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" | "safety" | "refusal" => Finish::ContentFilter,
        "error" => Finish::Error,
        _ => Finish::Unknown,
    }
}
