//! Decodes events of the Responses API. The output is a list of items; events refer to them by index. (They
//! also carry an id, but one large compatible server sends another id with every event.)

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{ENCRYPTED, ITEM, NAME};
use crate::complaint::Complaint;
use crate::dialect::{decoder, input};
use crate::{Error, Finish, ModelEvent, Usage, json};

/// Separator of a summary's paragraphs, which arrive as separate parts.
const PARAGRAPH: &str = "\n\n";

/// State of one response.
#[derive(Debug, Default)]
pub(in crate::dialect) struct Decode {
    /// Open items by index.
    open: BTreeMap<u64, Item>,
    /// True once any item has been seen.
    said: bool,
    called: bool,
}

#[derive(Debug)]
enum Item {
    /// An answer; its block opens with the first text.
    Message {
        opened: bool,
    },
    Reasoning {
        metadata: Map<String, Value>,
        said: bool,
    },
    Call {
        id: String,
        name: String,
        json: String,
    },
    /// A server-side action of the provider.
    Other,
}

impl decoder::Decode for Decode {
    fn payload(&mut self, payload: &Value, out: &mut Vec<ModelEvent>) -> Result<(), Error> {
        let place = json::count(payload, "output_index").unwrap_or_default();
        let delta = json::text(payload, "delta");
        match json::text(payload, "type") {
            "response.output_item.added" => self.add(place, json::at(payload, &["item"]), out),
            "response.output_item.done" => self.done(place, json::at(payload, &["item"]), out),
            "response.output_text.delta" | "response.refusal.delta" => self.text(place, delta, out),
            "response.reasoning_summary_part.added" => self.paragraph(place, out),
            "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning.delta" => self.reasoning(place, delta, out),
            "response.function_call_arguments.delta" => self.arguments(place, delta, out),
            "response.completed" | "response.done" | "response.incomplete" => {
                self.finish(json::at(payload, &["response"]), out);
            }
            "response.failed" | "response.cancelled" => {
                let response = json::at(payload, &["response"]);
                return Err(Complaint::read(response).in_stream(response));
            }
            "error" => return Err(Complaint::read(payload).in_stream(payload)),
            "" if payload.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(Complaint::read(payload).in_stream(payload));
            }
            "" if json::text(payload, "object") == "response" => self.finish(payload, out),
            // Ignores formal events, the provider's own tools and unknown events.
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _marked: bool, _out: &mut Vec<ModelEvent>) {
        // Only the provider's last event contains the reason.
    }

    fn is_settled(&self) -> bool {
        false
    }
}

impl Decode {
    fn add(&mut self, place: u64, item: &Value, out: &mut Vec<ModelEvent>) {
        self.close(place, out);
        self.said = true;
        let opened = match json::text(item, "type") {
            "message" => Item::Message { opened: false },
            "reasoning" => {
                out.push(ModelEvent::ReasoningStart { id: place.to_string(), metadata: None });
                Item::Reasoning { metadata: Map::new(), said: false }
            }
            "function_call" => {
                let (id, name) = (call_id(item), json::text(item, "name").to_owned());
                out.push(ModelEvent::ToolInputStart { id: id.clone(), name: name.clone() });
                Item::Call { id, name, json: String::new() }
            }
            _ => Item::Other,
        };
        self.open.insert(place, opened);
    }

    fn text(&mut self, place: u64, text: &str, out: &mut Vec<ModelEvent>) {
        let item = self.open.entry(place).or_insert(Item::Message { opened: false });
        let Item::Message { opened } = item else { return };
        if text.is_empty() {
            return;
        }
        self.said = true;
        let id = place.to_string();
        if !std::mem::replace(opened, true) {
            out.push(ModelEvent::TextStart { id: id.clone() });
        }
        out.push(ModelEvent::TextDelta { id, text: text.to_owned() });
    }

    fn reasoning(&mut self, place: u64, text: &str, out: &mut Vec<ModelEvent>) {
        if !self.open.contains_key(&place) {
            self.add(place, &json!({ "type": "reasoning" }), out);
        }
        if let Some(Item::Reasoning { said, .. }) = self.open.get_mut(&place)
            && !text.is_empty()
        {
            *said = true;
            out.push(ModelEvent::ReasoningDelta { id: place.to_string(), text: text.to_owned() });
        }
    }

    fn paragraph(&mut self, place: u64, out: &mut Vec<ModelEvent>) {
        if matches!(self.open.get(&place), Some(Item::Reasoning { said: true, .. })) {
            self.reasoning(place, PARAGRAPH, out);
        }
    }

    fn arguments(&mut self, place: u64, piece: &str, out: &mut Vec<ModelEvent>) {
        if let Some(Item::Call { id, json, .. }) = self.open.get_mut(&place)
            && !piece.is_empty()
        {
            json.push_str(piece);
            out.push(ModelEvent::ToolInputDelta { id: id.clone(), json: piece.to_owned() });
        }
    }

    /// Ends an item, and emits the parts of it that were not streamed.
    fn done(&mut self, place: u64, item: &Value, out: &mut Vec<ModelEvent>) {
        if !self.open.contains_key(&place) {
            self.add(place, item, out);
        }
        match self.open.get_mut(&place) {
            Some(Item::Message { opened: false }) => self.text(place, &whole_text(item), out),
            Some(Item::Reasoning { metadata, said }) => {
                for (key, name) in [("id", ITEM), ("encrypted_content", ENCRYPTED)] {
                    if let Some(value) = json::maybe(item, key) {
                        metadata.insert(name.to_owned(), value.into());
                    }
                }
                if !*said {
                    self.reasoning(place, &whole_reasoning(item), out);
                }
            }
            Some(Item::Call { json, .. }) => {
                if let Some(arguments) = json::maybe(item, "arguments") {
                    arguments.clone_into(json);
                }
            }
            Some(Item::Message { .. } | Item::Other) | None => {}
        }
        self.close(place, out);
    }

    fn close(&mut self, place: u64, out: &mut Vec<ModelEvent>) {
        let id = place.to_string();
        match self.open.remove(&place) {
            Some(Item::Message { opened: true }) => out.push(ModelEvent::TextEnd { id }),
            Some(Item::Reasoning { metadata, .. }) => {
                let metadata = (!metadata.is_empty()).then(|| json!({ NAME: metadata }));
                out.push(ModelEvent::ReasoningEnd { id, metadata });
            }
            Some(Item::Call { id, name, json }) => {
                self.called = true;
                out.push(ModelEvent::ToolCall { id, name, input: input::parse(&json) });
            }
            Some(Item::Message { opened: false } | Item::Other) | None => {}
        }
    }

    fn finish(&mut self, response: &Value, out: &mut Vec<ModelEvent>) {
        if !self.said {
            // A server that does not stream, or streams only the final event.
            for (place, item) in (0..).zip(json::list(response, "output")) {
                self.done(place, item, out);
            }
        }
        while let Some(place) = self.open.keys().next().copied() {
            self.close(place, out);
        }
        let why = json::text(json::at(response, &["incomplete_details"]), "reason");
        let reason = match (json::text(response, "status"), why) {
            (_, "max_output_tokens" | "max_tokens") => Finish::Length,
            (_, "content_filter") => Finish::ContentFilter,
            ("incomplete", _) => Finish::Unknown,
            ("failed" | "cancelled", _) => Finish::Error,
            _ if self.called => Finish::ToolCalls,
            _ => Finish::Stop,
        };
        out.push(ModelEvent::Finish { reason, usage: usage(json::at(response, &["usage"])) });
    }
}

/// The id that results refer to. A compatible server with only one kind of id uses it for both.
fn call_id(item: &Value) -> String {
    json::maybe(item, "call_id").unwrap_or_else(|| json::text(item, "id")).to_owned()
}

fn whole_text(item: &Value) -> String {
    let parts = json::list(item, "content").iter();
    parts.map(|part| json::maybe(part, "text").unwrap_or_else(|| json::text(part, "refusal"))).collect()
}

fn whole_reasoning(item: &Value) -> String {
    let summary = json::list(item, "summary");
    let parts = if summary.is_empty() { json::list(item, "content") } else { summary };
    parts.iter().map(|part| json::text(part, "text")).collect::<Vec<_>>().join(PARAGRAPH)
}

fn usage(usage: &Value) -> Usage {
    let input = json::at(usage, &["input_tokens_details"]);
    let output = json::at(usage, &["output_tokens_details"]);
    let count = |value, key| json::count(value, key).unwrap_or_default();
    Usage {
        input: count(usage, "input_tokens"),
        output: count(usage, "output_tokens"),
        reasoning: count(output, "reasoning_tokens"),
        cache_read: count(input, "cached_tokens"),
        cache_write: count(input, "cache_write_tokens"),
        total: json::count(usage, "total_tokens"),
    }
}
