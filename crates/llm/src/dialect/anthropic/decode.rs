//! Decodes Anthropic's events. Blocks have an index and explicit starts and ends.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::NAME;
use crate::complaint::Complaint;
use crate::dialect::{decoder, input};
use crate::{Error, Finish, ModelEvent, Usage, json};

/// State of one response.
#[derive(Debug, Default)]
pub(in crate::dialect) struct Decode {
    /// Open blocks by index.
    open: BTreeMap<u64, Block>,
    usage: Usage,
    reason: Option<Finish>,
}

#[derive(Debug)]
enum Block {
    Text,
    Thinking {
        signature: String,
    },
    Redacted,
    Tool {
        id: String,
        name: String,
        json: String,
        given: Value,
    },
    /// A server-side action of the provider.
    Other,
}

impl decoder::Decode for Decode {
    fn payload(&mut self, payload: &Value, out: &mut Vec<ModelEvent>) -> Result<(), Error> {
        let index = json::count(payload, "index").unwrap_or_default();
        match json::text(payload, "type") {
            "message_start" => self.count(json::at(payload, &["message", "usage"])),
            "content_block_start" => {
                self.close(index, out);
                self.start(index, json::at(payload, &["content_block"]), out);
            }
            "content_block_delta" => self.delta(index, json::at(payload, &["delta"]), out),
            "content_block_stop" => self.close(index, out),
            "message_delta" => {
                if let Some(reason) = json::maybe(json::at(payload, &["delta"]), "stop_reason") {
                    self.reason = Some(finish(reason));
                }
                self.count(json::at(payload, &["usage"]));
            }
            "message_stop" => self.finish(out),
            "message" => self.whole(payload, out),
            "error" => return Err(Complaint::read(payload).in_stream(payload)),
            _ if payload.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(Complaint::read(payload).in_stream(payload));
            }
            // Ignores pings and unknown events.
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _marked: bool, out: &mut Vec<ModelEvent>) {
        // A stop reason is as good as the end mark that follows it.
        if self.reason.is_some() {
            self.finish(out);
        }
    }

    fn is_settled(&self) -> bool {
        self.reason.is_some()
    }
}

impl Decode {
    fn start(&mut self, index: u64, block: &Value, out: &mut Vec<ModelEvent>) {
        let id = index.to_string();
        let opened = match json::text(block, "type") {
            "text" => {
                out.push(ModelEvent::TextStart { id });
                Block::Text
            }
            "thinking" => {
                out.push(ModelEvent::ReasoningStart { id, metadata: None });
                Block::Thinking { signature: json::text(block, "signature").to_owned() }
            }
            "redacted_thinking" => {
                let metadata = json!({ NAME: { "redactedData": json::text(block, "data") } });
                out.push(ModelEvent::ReasoningStart { id, metadata: Some(metadata) });
                Block::Redacted
            }
            "tool_use" => {
                let (id, name) = (json::text(block, "id"), json::text(block, "name"));
                out.push(ModelEvent::ToolInputStart { id: id.to_owned(), name: name.to_owned() });
                let given = json::at(block, &["input"]).clone();
                Block::Tool { id: id.to_owned(), name: name.to_owned(), json: String::new(), given }
            }
            _ => Block::Other,
        };
        self.open.insert(index, opened);
        // Compatible servers send short blocks whole.
        self.text(index, json::text(block, "text"), out);
        self.thinking(index, json::text(block, "thinking"), out);
    }

    fn delta(&mut self, index: u64, delta: &Value, out: &mut Vec<ModelEvent>) {
        match json::text(delta, "type") {
            "text_delta" => {
                self.expect(index, "text", out);
                self.text(index, json::text(delta, "text"), out);
            }
            "thinking_delta" => {
                self.expect(index, "thinking", out);
                self.thinking(index, json::text(delta, "thinking"), out);
            }
            "signature_delta" => {
                if let Some(Block::Thinking { signature }) = self.open.get_mut(&index) {
                    json::text(delta, "signature").clone_into(signature);
                }
            }
            "input_json_delta" => {
                let piece = json::text(delta, "partial_json");
                if let Some(Block::Tool { id, json, .. }) = self.open.get_mut(&index)
                    && !piece.is_empty()
                {
                    json.push_str(piece);
                    out.push(ModelEvent::ToolInputDelta { id: id.clone(), json: piece.to_owned() });
                }
            }
            // Ignores citations and unknown deltas.
            _ => {}
        }
    }

    /// Opens a block that a compatible server did not announce.
    fn expect(&mut self, index: u64, kind: &str, out: &mut Vec<ModelEvent>) {
        if !self.open.contains_key(&index) {
            self.start(index, &json!({ "type": kind }), out);
        }
    }

    fn text(&mut self, index: u64, text: &str, out: &mut Vec<ModelEvent>) {
        if matches!(self.open.get(&index), Some(Block::Text)) && !text.is_empty() {
            out.push(ModelEvent::TextDelta { id: index.to_string(), text: text.to_owned() });
        }
    }

    fn thinking(&mut self, index: u64, text: &str, out: &mut Vec<ModelEvent>) {
        if matches!(self.open.get(&index), Some(Block::Thinking { .. })) && !text.is_empty() {
            out.push(ModelEvent::ReasoningDelta { id: index.to_string(), text: text.to_owned() });
        }
    }

    fn close(&mut self, index: u64, out: &mut Vec<ModelEvent>) {
        let id = index.to_string();
        match self.open.remove(&index) {
            Some(Block::Text) => out.push(ModelEvent::TextEnd { id }),
            Some(Block::Thinking { signature }) => {
                let metadata = (!signature.is_empty()).then(|| json!({ NAME: { "signature": signature } }));
                out.push(ModelEvent::ReasoningEnd { id, metadata });
            }
            Some(Block::Redacted) => out.push(ModelEvent::ReasoningEnd { id, metadata: None }),
            Some(Block::Tool { id, name, json, given }) => {
                let input = if json.is_empty() { input::of(&given) } else { input::parse(&json) };
                out.push(ModelEvent::ToolCall { id, name, input });
            }
            Some(Block::Other) | None => {}
        }
    }

    /// Updates the counts. Later totals replace the first estimates; a zero means that the server did not count
    /// again.
    fn count(&mut self, usage: &Value) {
        let take = |key: &str, old: u64| json::count(usage, key).filter(|new| *new > 0).unwrap_or(old);
        let Usage { input, cache_read: read, cache_write: write, .. } = self.usage;
        // Our input is the sum of three separate numbers.
        let plain = take("input_tokens", input.saturating_sub(read.saturating_add(write)));
        let read = take("cache_read_input_tokens", read);
        let write = take("cache_creation_input_tokens", write);
        self.usage.input = plain.saturating_add(read).saturating_add(write);
        self.usage.cache_read = read;
        self.usage.cache_write = write;
        self.usage.output = take("output_tokens", self.usage.output);
        let details = json::at(usage, &["output_tokens_details"]);
        self.usage.reasoning = json::count(details, "thinking_tokens").unwrap_or(self.usage.reasoning);
    }

    /// A complete response from a server that does not stream.
    fn whole(&mut self, message: &Value, out: &mut Vec<ModelEvent>) {
        self.count(json::at(message, &["usage"]));
        for (index, block) in (0..).zip(json::list(message, "content")) {
            self.start(index, block, out);
            self.close(index, out);
        }
        self.reason = Some(finish(json::text(message, "stop_reason")));
        self.finish(out);
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) {
        while let Some(index) = self.open.keys().next().copied() {
            self.close(index, out);
        }
        let reason = self.reason.unwrap_or(Finish::Unknown);
        out.push(ModelEvent::Finish { reason, usage: self.usage });
    }
}

fn finish(reason: &str) -> Finish {
    match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" => Finish::ContentFilter,
        // `pause_turn` asks for a continuation, which is the effect of an unknown reason.
        _ => Finish::Unknown,
    }
}
