//! What a frame of an event stream holds.

use protocol::Event;
use serde_json::Value;

/// An event, and the directory it is about where the frame says so.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) directory: Option<String>,
    pub(crate) event: Event,
}

/// Opens a frame of `/event`, which is an event, or of `/global/event`, which has one as its `payload`. OpenCode's
/// replicator reads a second copy of durable events (`sync`) there; for everybody else that is no event.
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
