//! Reads recorded streams of events in several formats.
//!
//! Three formats are detected: lines of a recorder (`{"k": "event", "d": {…}}`, several streams per file), lines of
//! plain events as `/event` or `/global/event` sends them, and raw server-sent events.

use net::sse::{self, Decoder};
use protocol::{Event, Millis};
use serde_json::Value;

use crate::envelope::{self, Envelope};

/// The content of a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// One per connection, in the order in which they began.
    pub streams: Vec<Stream>,
}

/// The events of one connection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stream {
    /// The recorder's name for it; empty if there is only one.
    pub name: String,
    /// The events in order.
    pub events: Vec<Observed>,
}

/// A recorded event.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// Time of arrival, if the recording has it.
    pub time: Option<Millis>,
    pub event: Event,
}

/// An invalid recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("line {line} is not JSON")]
    Json {
        /// Number of the line, from 1.
        line: usize,
        source: serde_json::Error,
    },
    #[error("line {line} is not an event")]
    Event {
        /// Number of the line, or of the frame in a raw stream, from 1.
        line: usize,
        source: serde_json::Error,
    },
    /// The raw stream cannot be decoded.
    #[error(transparent)]
    Sse(#[from] sse::Error),
}

impl Recording {
    /// Reads a recording of any format. Skips an incomplete last line, which the recorder leaves when it is killed.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let text = String::from_utf8_lossy(bytes);
        if text.trim_start_matches('\u{FEFF}').trim_start().starts_with('{') {
            Self::from_lines(&text)
        } else {
            Self::from_sse(bytes)
        }
    }

    fn from_lines(text: &str) -> Result<Self, Error> {
        let mut recording = Self::default();
        for (index, line) in text.trim_start_matches('\u{FEFF}').split_inclusive('\n').enumerate() {
            let number = index + 1;
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str(line) {
                Ok(value) => recording.add_line(number, value)?,
                Err(_) if !line.ends_with('\n') => break,
                Err(source) => return Err(Error::Json { line: number, source }),
            }
        }
        Ok(recording)
    }

    fn from_sse(bytes: &[u8]) -> Result<Self, Error> {
        let mut recording = Self::default();
        let mut decoder = Decoder::default();
        let end = decoder.push(bytes);
        let mut number = 0;
        while let Some(frame) = decoder.frame() {
            number += 1;
            let value =
                serde_json::from_str(&frame.data).map_err(|source| Error::Json { line: number, source })?;
            recording.add(number, String::new(), None, value)?;
        }
        end?;
        Ok(recording)
    }

    fn add_line(&mut self, number: usize, mut line: Value) -> Result<(), Error> {
        let Some(kind) = line.get("k").and_then(Value::as_str).map(str::to_owned) else {
            return self.add(number, String::new(), None, line);
        };
        let name = match (kind.as_str(), line.get("label").and_then(Value::as_str)) {
            ("event", None) => String::new(),
            ("event", Some(label)) => label.to_owned(),
            ("gevent", None) => "global".to_owned(),
            ("gevent", Some(label)) => format!("global {label}"),
            // Requests, answers and notes of the recorder.
            _ => return Ok(()),
        };
        #[expect(clippy::cast_possible_truncation, reason = "seconds of this century")]
        let time = line.get("t").and_then(Value::as_f64).map(|seconds| (seconds * 1000.0).round() as Millis);
        let event = line.get_mut("d").map(Value::take).unwrap_or_default();
        self.add(number, name, time, event)
    }

    fn add(&mut self, number: usize, name: String, time: Option<Millis>, value: Value) -> Result<(), Error> {
        let envelope = envelope::open(value).map_err(|source| Error::Event { line: number, source })?;
        let Some(Envelope { event, .. }) = envelope else { return Ok(()) };
        let index = self.streams.iter().position(|stream| stream.name == name).unwrap_or_else(|| {
            self.streams.push(Stream { name, events: Vec::new() });
            self.streams.len() - 1
        });
        if let Some(stream) = self.streams.get_mut(index) {
            stream.events.push(Observed { time, event });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: &str = r#"{"id":"evt_1","type":"session.idle","properties":{"sessionID":"ses_1"}}"#;

    #[track_caller]
    fn check(text: &str, streams: &[(&str, usize)]) {
        let recording = Recording::parse(text.as_bytes()).unwrap();
        let found: Vec<_> =
            recording.streams.iter().map(|stream| (stream.name.as_str(), stream.events.len())).collect();
        assert_eq!(found, streams, "{text}");
    }

    #[test]
    fn plain_events_are_one_stream() {
        check(&format!("{IDLE}\n\n{IDLE}\n"), &[("", 2)]);
    }

    #[test]
    fn frames_of_global_event_are_unwrapped() {
        let sync = r#"{"payload":{"type":"sync","id":"evt_1","syncEvent":{}}}"#;
        check(&format!("{{\"directory\":\"/p\",\"payload\":{IDLE}}}\n{sync}\n"), &[("", 1)]);
    }

    #[test]
    fn events_of_older_servers_have_no_id() {
        check(r#"{"type":"session.idle","properties":{"sessionID":"ses_1"}}"#, &[("", 1)]);
    }

    #[test]
    fn a_recorder_s_streams_are_kept_apart() {
        let line =
            |kind: &str, label: &str| format!(r#"{{"t":1.5,"k":"{kind}","label":{label},"d":{IDLE}}}"#);
        let lines = [
            line("event", "null"),
            line("event", "\"B\""),
            line("gevent", "null"),
            line("event", "null"),
            r#"{"k":"note","text":"hello"}"#.into(),
        ];
        check(&lines.join("\n"), &[("", 2), ("B", 1), ("global", 1)]);
        let recording = Recording::parse(lines[0].as_bytes()).unwrap();
        assert_eq!(recording.streams[0].events[0].time, Some(1_500));
    }

    #[test]
    fn raw_server_sent_events_are_decoded() {
        check(&format!(": hello\nid: 7\ndata: {IDLE}\n\ndata: {IDLE}\n\n"), &[("", 2)]);
        check(&format!("\r\ndata:{IDLE}\r\n\r\n"), &[("", 1)]);
    }

    #[test]
    fn an_incomplete_last_line_is_skipped() {
        check(&format!("{IDLE}\n{{\"id\":\"evt_"), &[("", 1)]);
    }

    #[test]
    fn an_empty_file_has_no_streams() {
        check("", &[]);
    }

    #[test]
    fn an_invalid_line_is_refused_with_its_number() {
        let error = |text: &str| Recording::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error(&format!("{IDLE}\nnonsense\n")), "line 2 is not JSON");
        assert_eq!(error("{\"hello\":1}\n"), "line 1 is not an event");
        assert_eq!(error("data: nonsense\n\n"), "line 1 is not JSON");
    }
}
