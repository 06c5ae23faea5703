//! Common part of all decoders: JSON from frames, exactly one end, and nothing after it.

use std::fmt;

use net::sse::Frame;
use serde_json::Value;

use crate::{Error, ModelEvent};

/// End mark of `OpenAI`'s streams.
const DONE: &str = "[DONE]";

/// Event names of frames without content.
const KEEP_ALIVES: [&str; 5] = ["ping", "keepalive", "keep-alive", "heartbeat", "comment"];

/// The dialect-specific part of a decoder.
pub(super) trait Decode: Send + fmt::Debug {
    /// Decodes one payload. An error ends the stream.
    fn payload(&mut self, payload: &Value, out: &mut Vec<ModelEvent>) -> Result<(), Error>;

    /// Handles the end of the stream: closes open blocks and finishes, if the provider sent a reason. `marked`
    /// is true for the dialect's end mark and false for a connection that merely ended.
    fn end(&mut self, marked: bool, out: &mut Vec<ModelEvent>);

    /// Returns true if the provider has sent a finish reason, so that only usage can follow.
    fn is_settled(&self) -> bool;
}

/// Decodes the frames of one response into events.
///
/// A stream ends exactly once, with [`ModelEvent::Finish`] or with an error; later frames are ignored.
#[derive(Debug)]
pub struct Decoder {
    dialect: Box<dyn Decode>,
    over: bool,
}

impl Decoder {
    pub(super) fn new(dialect: impl Decode + 'static) -> Self {
        Self { dialect: Box::new(dialect), over: false }
    }

    /// Decodes a frame. Returns no events for a keep-alive or a frame without content.
    pub fn push(&mut self, frame: &Frame) -> Vec<Result<ModelEvent, Error>> {
        let data = frame.data.trim();
        if self.over || data.is_empty() {
            return Vec::new();
        }
        if data == DONE {
            return self.close(true);
        }
        match serde_json::from_str(data) {
            // A server that does not stream sends everything in one list.
            Ok(Value::Array(payloads)) => self.take(&payloads),
            Ok(payload) => self.take(&[payload]),
            Err(_) if frame.event.as_deref().is_some_and(|event| KEEP_ALIVES.contains(&event)) => Vec::new(),
            Err(error) => {
                self.over = true;
                vec![Err(Error::Garbled(format!("not JSON ({error})")))]
            }
        }
    }

    /// Handles the end of the stream. Without the provider's end mark, the connection was lost.
    pub fn end(&mut self) -> Vec<Result<ModelEvent, Error>> {
        if self.over { Vec::new() } else { self.close(false) }
    }

    /// Returns true if no more events can follow.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Returns true if the provider has sent a finish reason, so that only usage can follow. Not every server
    /// ends the stream then, so callers should not wait long.
    pub fn is_settled(&self) -> bool {
        self.over || self.dialect.is_settled()
    }

    fn take(&mut self, payloads: &[Value]) -> Vec<Result<ModelEvent, Error>> {
        let mut events = Vec::new();
        let failed = payloads.iter().find_map(|payload| self.dialect.payload(payload, &mut events).err());
        self.deliver(events, failed)
    }

    fn close(&mut self, marked: bool) -> Vec<Result<ModelEvent, Error>> {
        let mut events = Vec::new();
        self.dialect.end(marked, &mut events);
        let finished = events.iter().any(is_finish);
        self.deliver(events, (!finished).then_some(Error::Dropped))
    }

    fn deliver(&mut self, events: Vec<ModelEvent>, failed: Option<Error>) -> Vec<Result<ModelEvent, Error>> {
        let mut delivered = Vec::with_capacity(events.len() + 1);
        for event in events {
            self.over = is_finish(&event);
            delivered.push(Ok(event));
            if self.over {
                return delivered;
            }
        }
        if let Some(error) = failed {
            self.over = true;
            delivered.push(Err(error));
        }
        delivered
    }
}

fn is_finish(event: &ModelEvent) -> bool {
    matches!(event, ModelEvent::Finish { .. })
}
