//! An incremental decoder of server-sent events: bytes in, frames out.
//!
//! It follows the standard's parsing rules (CR, LF and CRLF, one byte order mark, comments, a single space
//! after the colon) with two differences for clients that resume. [`Frame::id`] is the id of *this* frame and not
//! the last one seen, because only durable events have one. A block without data, which is no event, passes its `id`
//! and `retry` on to the next frame instead of losing them.

use std::{collections::VecDeque, mem};

/// Default limit for one line, in bytes. A part with an attachment is one line.
pub const MAX_LINE: usize = 32 << 20;

/// Default limit for the data of one event, in bytes over all its lines.
pub const MAX_EVENT: usize = 64 << 20;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// The position in the stream; only durable events have one.
    pub id: Option<String>,
    /// The type; OpenCode puts it into the data instead.
    pub event: Option<String>,
    /// The data; several lines are joined by line feeds.
    pub data: String,
    /// Milliseconds to wait before reconnecting.
    pub retry: Option<u64>,
}

/// A stream that cannot be decoded any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("a line of the event stream is longer than {limit} bytes")]
    LineTooLong { limit: usize },
    #[error("an event of the stream is longer than {limit} bytes")]
    EventTooLong { limit: usize },
}

/// Decodes a stream that arrives in chunks of any size.
///
/// Lines are split as bytes and decoded whole, so a character may be split between two chunks. Invalid UTF-8 becomes
/// U+FFFD.
#[derive(Debug)]
pub struct Decoder {
    max_line: usize,
    max_event: usize,
    /// The unfinished line.
    line: Vec<u8>,
    /// The last byte was a CR, so an LF right after it belongs to the same line ending.
    after_cr: bool,
    /// No line has ended yet; the first may begin with a byte order mark.
    at_start: bool,
    pending: Frame,
    has_data: bool,
    ready: VecDeque<Frame>,
    failed: Option<Error>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limits(MAX_LINE, MAX_EVENT)
    }
}

impl Decoder {
    /// Creates a decoder for one connection.
    pub fn with_limits(max_line: usize, max_event: usize) -> Self {
        Self {
            max_line,
            max_event,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            pending: Frame::default(),
            has_data: false,
            ready: VecDeque::new(),
            failed: None,
        }
    }

    /// Takes the next bytes of the stream. After an error, [`Decoder::frame`] still returns the frames that were
    /// complete, and every further push returns the same error.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while self.failed.is_none() {
            if mem::take(&mut self.after_cr) {
                match bytes {
                    [b'\n', rest @ ..] => bytes = rest,
                    [] => self.after_cr = true,
                    _ => {}
                }
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (head, tail) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + head.len() > self.max_line {
                self.failed = Some(Error::LineTooLong { limit: self.max_line });
                break;
            }
            self.line.extend_from_slice(head);
            let [ending, tail @ ..] = tail else { return Ok(()) };
            self.after_cr = *ending == b'\r';
            bytes = tail;
            self.failed = self.end_line().err();
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Returns the next complete frame.
    pub fn frame(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) -> Result<(), Error> {
        let line = mem::take(&mut self.line);
        let mut line = line.as_slice();
        if mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            self.end_block();
            return Ok(());
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => return self.add_data(&String::from_utf8_lossy(value)),
            b"event" => self.pending.event = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" if !value.contains(&0) => {
                self.pending.id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"retry" => self.pending.retry = digits(value).or(self.pending.retry),
            // Comments and unknown fields.
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), Error> {
        if self.pending.data.len() + value.len() >= self.max_event {
            return Err(Error::EventTooLong { limit: self.max_event });
        }
        if mem::replace(&mut self.has_data, true) {
            self.pending.data.push('\n');
        }
        self.pending.data.push_str(value);
        Ok(())
    }

    fn end_block(&mut self) {
        if mem::take(&mut self.has_data) {
            self.ready.push_back(mem::take(&mut self.pending));
        } else {
            self.pending.event = None;
        }
    }
}

/// Parses a number that consists of digits only, as the standard requires.
fn digits(value: &[u8]) -> Option<u64> {
    let text = str::from_utf8(value).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(chunks: &[&[u8]]) -> (Vec<Frame>, Result<(), Error>) {
        let mut decoder = Decoder::with_limits(64, 96);
        let mut end = Ok(());
        for chunk in chunks {
            end = decoder.push(chunk);
        }
        (std::iter::from_fn(|| decoder.frame()).collect(), end)
    }

    fn data(text: &str) -> Frame {
        Frame { data: text.into(), ..Frame::default() }
    }

    #[track_caller]
    fn check(stream: &str, frames: &[Frame]) {
        assert_eq!(decode(&[stream.as_bytes()]), (frames.to_vec(), Ok(())), "{stream:?}");
    }

    #[test]
    fn a_frame_ends_at_an_empty_line() {
        check("data: one\n\ndata: two\n\ndata: cut o", &[data("one"), data("two")]);
    }

    #[test]
    fn all_line_endings_mean_the_same() {
        for end in ["\n", "\r", "\r\n"] {
            check(&format!("data: a{end}data: b{end}{end}data: c{end}{end}"), &[data("a\nb"), data("c")]);
        }
    }

    #[test]
    fn only_one_space_is_taken_after_the_colon() {
        check("data:x\n\ndata: x\n\ndata:  x\n\ndata\n\n", &[data("x"), data("x"), data(" x"), data("")]);
    }

    #[test]
    fn fields_are_read_and_comments_are_not() {
        let frame =
            Frame { id: Some("7".into()), event: Some("e".into()), data: "d".into(), retry: Some(250) };
        check(": hello\nid: 7\nevent: e\nretry: 250\nfuture: x\ndata: d\n\n: heartbeat\n\n", &[frame]);
    }

    #[test]
    fn a_block_without_data_passes_its_id_to_the_next_frame() {
        let frame = Frame { id: Some("7".into()), data: "d".into(), ..Frame::default() };
        check("id: 7\nevent: dropped\n\ndata: d\n\ndata: e\n\n", &[frame, data("e")]);
    }

    #[test]
    fn nonsense_in_id_and_retry_is_ignored() {
        check("id: a\0b\nretry: -1\nretry: 1x\ndata: d\n\n", &[data("d")]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_once() {
        check("\u{FEFF}data: a\n\n\u{FEFF}data: b\n\n", &[data("a")]);
    }

    #[test]
    fn invalid_utf_8_does_not_end_the_stream() {
        assert_eq!(decode(&[b"data: a\xFFb\n\ndata: c\n\n"]).0, [data("a\u{FFFD}b"), data("c")]);
    }

    #[test]
    fn lines_and_events_over_the_limit_fail_after_complete_frames() {
        let long = format!("data: a\n\ndata: {}", "x".repeat(64));
        assert_eq!(decode(&[long.as_bytes()]), (vec![data("a")], Err(Error::LineTooLong { limit: 64 })));
        let many = format!("data: a\n\n{}", format!("data: {}\n", "x".repeat(40)).repeat(3));
        assert_eq!(decode(&[many.as_bytes()]), (vec![data("a")], Err(Error::EventTooLong { limit: 96 })));
        assert!(decode(&[long.as_bytes(), b"\n\ndata: b\n\n"]).1.is_err(), "an error is permanent");
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames(
            lines in proptest::collection::vec(
                prop_oneof![
                    4 => "(data|id|event|retry|x)?(: ?)?[a-z0-9é€😀]{0,12}",
                    3 => Just(String::new()),
                    1 => "[ -~]{50,80}",
                    1 => "(\u{FEFF}|\0|:)?data: .{0,4}",
                ],
                0..30,
            ),
            endings in proptest::collection::vec(prop_oneof![Just("\n"), Just("\r"), Just("\r\n")], 1..30),
            broken in any::<Option<(proptest::sample::Index, u8)>>(),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let mut stream = Vec::new();
            for (line, ending) in lines.iter().zip(endings.iter().cycle()) {
                stream.extend_from_slice(line.as_bytes());
                stream.extend_from_slice(ending.as_bytes());
            }
            if let Some((index, byte)) = broken && !stream.is_empty() {
                let index = index.index(stream.len());
                stream[index] = byte;
            }
            let whole = decode(&[&stream]);
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(&decode(&bytes), &whole);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.sort_unstable();
            let mut rest = stream.as_slice();
            let mut chunks = Vec::new();
            for cut in cuts {
                let (head, tail) = rest.split_at(cut - (stream.len() - rest.len()));
                chunks.push(head);
                rest = tail;
            }
            chunks.push(rest);
            prop_assert_eq!(&decode(&chunks), &whole);
        }
    }
}
