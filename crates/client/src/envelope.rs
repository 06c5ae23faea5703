//! The content of a frame of an event stream.

use protocol::Event;
use serde_json::Value;

/// An event, and its directory if the frame has one.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) directory: Option<String>,
    pub(crate) event: Event,
}

/// Opens a frame of `/event`, which is an event, or of `/global/event`, which has an event as its `payload`. There,
/// OpenCode also sends a second copy of durable events (`sync`) for its replicator; all other clients ignore it.
pub(crate) fn open(mut frame: Value) -> Result<Option<Envelope>, serde_json::Error> {
    let directory = frame.get("directory").and_then(Value::as_str).map(str::to_owned);
    let mut event = frame.get_mut("payload").map(Value::take).unwrap_or(frame);
    if event.get("type").is_some_and(|kind| kind == "sync") {
        return Ok(None);
    }
    // Older servers send events without an id, and nothing here depends on one.
    if let Some(fields) = event.as_object_mut().filter(|fields| fields.contains_key("type")) {
        fields.entry("id").or_insert_with(|| "evt_0".into());
    }
    Ok(Some(Envelope { directory, event: serde_json::from_value(event)? }))
}
