//! One event as subscribers receive it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use protocol::{SessionId, WorkspaceId};

use super::Place;

/// An encoded event, shared by all queues that contain it.
#[derive(Debug)]
pub struct Frame {
    /// Position in the log, for durable events.
    pub position: Option<u64>,
    /// `None` for events that only global subscribers receive.
    pub(super) workspace: Option<WorkspaceId>,
    pub directory: Option<Arc<str>>,
    project: Option<Arc<str>>,
    /// The session of a delta.
    pub(super) delta_of: Option<SessionId>,
    json: Bytes,
    plain: OnceLock<Bytes>,
    global: OnceLock<Bytes>,
}

impl Frame {
    /// A frame for an event in the log.
    pub fn durable(place: &Place, position: u64, json: Bytes) -> Self {
        Self { position: Some(position), ..Self::live(Some(place), json) }
    }

    /// A frame for an event that is not in the log, so it gets no `id:`.
    pub fn live(place: Option<&Place>, json: Bytes) -> Self {
        Self {
            position: None,
            workspace: place.map(|place| place.workspace.clone()),
            directory: place.map(|place| place.directory.clone()),
            project: place.map(|place| place.project.clone()),
            delta_of: None,
            json,
            plain: OnceLock::new(),
            global: OnceLock::new(),
        }
    }

    /// `{"id":…,"type":…,"properties":…}`
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The frame of `GET /event`: encoded for the first subscriber and shared by the others.
    pub fn plain(&self) -> Bytes {
        self.plain.get_or_init(|| self.encode(|out| out.extend_from_slice(&self.json))).clone()
    }

    /// The frame of `GET /global/event`, which adds the event's directory and project.
    pub fn global(&self) -> Bytes {
        let write = |out: &mut Vec<u8>| {
            out.push(b'{');
            for (name, value) in [("directory", &self.directory), ("project", &self.project)] {
                if let Some(value) = value {
                    out.extend_from_slice(format!("\"{name}\":").as_bytes());
                    // Writing a string into memory cannot fail.
                    let _ = serde_json::to_writer(&mut *out, &**value);
                    out.push(b',');
                }
            }
            out.extend_from_slice(b"\"payload\":");
            out.extend_from_slice(&self.json);
            out.push(b'}');
        };
        self.global.get_or_init(|| self.encode(write)).clone()
    }

    fn encode(&self, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let mut out = Vec::with_capacity(self.json.len() + 160);
        if let Some(position) = self.position {
            out.extend_from_slice(format!("id: {position}\n").as_bytes());
        }
        out.extend_from_slice(b"data: ");
        write(&mut out);
        out.extend_from_slice(b"\n\n");
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::Bus;

    #[test]
    fn durable_frames_carry_an_id_and_global_ones_a_place() {
        let place = Bus::default().place("/a \"b\"", "global");
        let frame = Frame::durable(&place, 7, Bytes::from_static(b"{\"id\":\"evt_1\"}"));
        assert_eq!(frame.plain(), "id: 7\ndata: {\"id\":\"evt_1\"}\n\n");
        assert_eq!(
            frame.global(),
            "id: 7\ndata: {\"directory\":\"/a \\\"b\\\"\",\"project\":\"global\",\"payload\":{\"id\":\"evt_1\"}}\n\n"
        );
    }

    #[test]
    fn live_frames_carry_no_id() {
        let frame = Frame::live(None, Bytes::from_static(b"{}"));
        assert_eq!(frame.plain(), "data: {}\n\n");
        assert_eq!(frame.global(), "data: {\"payload\":{}}\n\n");
    }
}
