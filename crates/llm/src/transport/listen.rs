//! Reads a response: bytes in, events out, with a timeout for every silence.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use net::sse::{self, Frame};
use tokio::time::{Instant, timeout, timeout_at};

use super::Deadlines;
use super::inflate::Inflate;
use crate::dialect::Decoder;
use crate::{Deadline, Error, ModelEvent};

#[cfg(test)]
mod tests;

/// Largest response in bytes. Models write a few hundred kilobytes at most.
pub const MAX_ANSWER: usize = 64 << 20;

/// Time for usage to follow the finish reason. Some servers forget to end the stream.
const SETTLE: Duration = Duration::from_secs(5);

/// Time for the body to end after the last event. A connection whose body was read to its end can be reused for
/// the next step.
const DRAIN: Duration = Duration::from_millis(100);

/// Longest quote of an invalid response, in characters.
const EXCERPT: usize = 200;

/// Format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Server-sent events.
    Events,
    /// One JSON document: the server does not stream.
    Whole,
    /// A web page, sent by another server than the provider's.
    Page,
    /// Not determined yet.
    Unknown,
}

impl Shape {
    /// Determines the format by `content-type`. For other types the first character decides.
    pub(super) fn of(kind: Option<&str>) -> Self {
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        if kind.contains("event-stream") {
            Self::Events
        } else if kind.contains("html") {
            Self::Page
        } else {
            Self::Unknown
        }
    }

    fn of_first_letter(letter: u8) -> Self {
        match letter {
            b'{' | b'[' => Self::Whole,
            b'<' => Self::Page,
            _ => Self::Events,
        }
    }
}

/// Properties of a response before its body is read.
pub(super) struct Answer {
    pub(super) inflate: Inflate,
    pub(super) shape: Shape,
    pub(super) decoder: Decoder,
    pub(super) deadlines: Deadlines,
    /// Deadline of the whole call.
    pub(super) total: Instant,
    /// Largest size in bytes.
    pub(super) limit: usize,
}

/// Events of a response. An error is the last one.
pub(super) fn listen<S>(body: S, answer: Answer) -> impl Stream<Item = Result<ModelEvent, Error>> + Send
where
    S: Stream<Item = Result<Bytes, Error>> + Unpin + Send,
{
    let now = Instant::now();
    let listener = Listener {
        body,
        frames: sse::Decoder::with_limits(answer.limit, answer.limit),
        whole: Vec::new(),
        taken: 0,
        heard: VecDeque::new(),
        silent_from: now,
        left_at: now,
        said: false,
        over: false,
        answer,
    };
    stream::unfold(listener, |mut listener| async {
        let event = listener.next().await?;
        Some((event, listener))
    })
}

struct Listener<S> {
    body: S,
    answer: Answer,
    frames: sse::Decoder,
    /// The body so far, if the server does not stream.
    whole: Vec<u8>,
    taken: usize,
    heard: VecDeque<Result<ModelEvent, Error>>,
    /// Start of the current silence, excluding the time in which the caller did not poll.
    silent_from: Instant,
    /// Time at which the last event was returned.
    left_at: Instant,
    /// True once any event has arrived.
    said: bool,
    over: bool,
}

impl<S: Stream<Item = Result<Bytes, Error>> + Unpin> Listener<S> {
    async fn next(&mut self) -> Option<Result<ModelEvent, Error>> {
        // Time in which the caller did not poll is not silence of the provider.
        self.silent_from += self.left_at.elapsed();
        let event = self.hear_next().await;
        self.left_at = Instant::now();
        event
    }

    async fn hear_next(&mut self) -> Option<Result<ModelEvent, Error>> {
        while self.heard.is_empty() && !self.over {
            let (at, passed) = self.deadline();
            match timeout_at(at, self.body.next()).await {
                Ok(Some(Ok(bytes))) => self.take(bytes),
                Ok(None) => self.end(),
                // Everything important has arrived.
                Ok(Some(Err(_))) | Err(_) if self.answer.decoder.is_settled() => self.end(),
                Ok(Some(Err(error))) => self.fail(error),
                Err(_) => self.fail(passed),
            }
            if self.over {
                self.drain().await;
            }
        }
        self.heard.pop_front()
    }

    /// Deadline of the current wait, and the error when it passes.
    fn deadline(&self) -> (Instant, Error) {
        let Answer { deadlines, decoder, total, .. } = &self.answer;
        let (deadline, mut after) = if self.said {
            (Deadline::NextChunk, deadlines.next_chunk)
        } else {
            (Deadline::FirstChunk, deadlines.first_chunk)
        };
        if decoder.is_settled() {
            after = after.min(SETTLE);
        }
        let at = self.silent_from + after;
        if *total <= at {
            return (*total, Error::Stalled { deadline: Deadline::Total, after: deadlines.total });
        }
        (at, Error::Stalled { deadline, after })
    }

    fn take(&mut self, bytes: Bytes) {
        let bytes = match self.answer.inflate.push(bytes) {
            Ok(bytes) => bytes,
            Err(error) => return self.fail(error),
        };
        self.taken = self.taken.saturating_add(bytes.len());
        if self.taken > self.answer.limit {
            return self.fail(Error::TooLong { limit: self.answer.limit });
        }
        if self.answer.shape == Shape::Unknown {
            let Some(letter) = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) else { return };
            self.answer.shape = Shape::of_first_letter(*letter);
        }
        match self.answer.shape {
            Shape::Whole => self.whole.extend_from_slice(&bytes),
            Shape::Page => self.fail(Error::Other(
                "the provider answered with a web page; its address may be wrong, or a proxy may be in the way"
                    .to_owned(),
            )),
            Shape::Events | Shape::Unknown => {
                let pushed = self.frames.push(&bytes);
                while let Some(frame) = self.frames.frame() {
                    self.read_frame(&frame);
                }
                if pushed.is_err() {
                    self.fail(Error::TooLong { limit: self.answer.limit });
                }
            }
        }
    }

    fn read_frame(&mut self, frame: &Frame) {
        let was_settled = self.answer.decoder.is_settled();
        let events = self.answer.decoder.push(frame);
        self.said |= !events.is_empty();
        if !events.is_empty() || (self.answer.decoder.is_settled() && !was_settled) {
            self.silent_from = Instant::now();
        }
        self.heard.extend(events);
        self.over |= self.answer.decoder.is_over();
    }

    /// Handles the end of the body, or stops waiting for it.
    fn end(&mut self) {
        if self.answer.shape == Shape::Whole {
            let data = String::from_utf8_lossy(&self.whole).into_owned();
            let excerpt: String = data.chars().take(EXCERPT).collect();
            self.read_frame(&Frame { data, ..Frame::default() });
            // A complete JSON document cannot have been cut off, so it is an invalid response.
            let ended = self.answer.decoder.end();
            self.heard.extend(ended.into_iter().map(|event| match event {
                Err(Error::Dropped) => Err(Error::Garbled(format!("it starts with {excerpt:?}"))),
                event => event,
            }));
        } else {
            // The format ignores a last frame without its end, but some servers omit the end by mistake.
            let _ = self.frames.push(b"\n\n");
            while let Some(frame) = self.frames.frame() {
                self.hear_last(&frame);
            }
            self.heard.extend(self.answer.decoder.end());
        }
        self.over = true;
    }

    /// Handles an unterminated frame. It counts if it can be parsed; otherwise it was cut off and is ignored.
    fn hear_last(&mut self, frame: &Frame) {
        if frame.data == "[DONE]" || serde_json::from_str::<serde::de::IgnoredAny>(&frame.data).is_ok() {
            self.read_frame(frame);
        }
    }

    fn fail(&mut self, error: Error) {
        if !std::mem::replace(&mut self.over, true) {
            self.heard.push_back(Err(error));
        }
    }

    /// Reads the rest of a finished response.
    async fn drain(&mut self) {
        if matches!(self.heard.back(), Some(Ok(ModelEvent::Finish { .. }))) {
            let _ = timeout(DRAIN, async { while let Some(Ok(_)) = self.body.next().await {} }).await;
        }
    }
}
