//! Listening to an answer: bytes in, events out, and an end to every silence.

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

/// The most bytes an answer may have. Models write a few hundred kilobytes at most.
pub const MAX_ANSWER: usize = 64 << 20;

/// How long numbers may take to follow the reason to stop. Some servers forget to end the stream.
const SETTLE: Duration = Duration::from_secs(5);

/// How long the end of the body may take to follow the last event. A body that has been read to its end leaves
/// a connection that the next step can use.
const DRAIN: Duration = Duration::from_millis(100);

/// The most of an unintelligible answer that is quoted.
const EXCERPT: usize = 200;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Server-sent events.
    Events,
    /// All at once: the server does not stream.
    Whole,
    /// A web page: somebody else answered.
    Page,
    /// To be seen.
    Unknown,
}

impl Shape {
    /// By the `content-type`. Where it says something else, the first letter decides.
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

/// What is known about an answer before it is read.
pub(super) struct Answer {
    pub(super) inflate: Inflate,
    pub(super) shape: Shape,
    pub(super) decoder: Decoder,
    pub(super) deadlines: Deadlines,
    /// When everything has to be over.
    pub(super) total: Instant,
    /// The most bytes it may have.
    pub(super) limit: usize,
}

/// The events of an answer. An error is the last of them.
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
    /// An answer that comes all at once.
    whole: Vec<u8>,
    taken: usize,
    heard: VecDeque<Result<ModelEvent, Error>>,
    /// Since when nothing has been said, the time that nobody listened left out.
    silent_from: Instant,
    /// When the last event was handed over.
    left_at: Instant,
    /// Whether anything has been said at all.
    said: bool,
    over: bool,
}

impl<S: Stream<Item = Result<Bytes, Error>> + Unpin> Listener<S> {
    async fn next(&mut self) -> Option<Result<ModelEvent, Error>> {
        // While nobody listened, nobody can have been silent.
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
                // What matters has been said.
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

    /// Until when to wait, and what it means if nothing comes.
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
                "the provider answered with a web page; its address may be wrong, or a proxy is in the way"
                    .to_owned(),
            )),
            Shape::Events | Shape::Unknown => {
                let pushed = self.frames.push(&bytes);
                while let Some(frame) = self.frames.frame() {
                    self.hear(&frame);
                }
                if pushed.is_err() {
                    self.fail(Error::TooLong { limit: self.answer.limit });
                }
            }
        }
    }

    fn hear(&mut self, frame: &Frame) {
        let was_settled = self.answer.decoder.is_settled();
        let events = self.answer.decoder.push(frame);
        self.said |= !events.is_empty();
        if !events.is_empty() || (self.answer.decoder.is_settled() && !was_settled) {
            self.silent_from = Instant::now();
        }
        self.heard.extend(events);
        self.over |= self.answer.decoder.is_over();
    }

    /// The body has ended, or need not be waited for.
    fn end(&mut self) {
        if self.answer.shape == Shape::Whole {
            let data = String::from_utf8_lossy(&self.whole).into_owned();
            let excerpt: String = data.chars().take(EXCERPT).collect();
            self.hear(&Frame { data, ..Frame::default() });
            // A whole answer cannot have been cut off: it is something else.
            let ended = self.answer.decoder.end();
            self.heard.extend(ended.into_iter().map(|event| match event {
                Err(Error::Dropped) => Err(Error::Garbled(format!("it begins with {excerpt:?}"))),
                event => event,
            }));
        } else {
            // A last line without its end is none, by the rules; servers that forget it mean it all the same.
            let _ = self.frames.push(b"\n\n");
            while let Some(frame) = self.frames.frame() {
                self.hear_last(&frame);
            }
            self.heard.extend(self.answer.decoder.end());
        }
        self.over = true;
    }

    /// A frame that was not ended. It counts if it can be read, and is forgotten if it was cut.
    fn hear_last(&mut self, frame: &Frame) {
        if frame.data == "[DONE]" || serde_json::from_str::<serde::de::IgnoredAny>(&frame.data).is_ok() {
            self.hear(frame);
        }
    }

    fn fail(&mut self, error: Error) {
        if !std::mem::replace(&mut self.over, true) {
            self.heard.push_back(Err(error));
        }
    }

    /// Reads what is left of a finished answer.
    async fn drain(&mut self) {
        if matches!(self.heard.back(), Some(Ok(ModelEvent::Finish { .. }))) {
            let _ = timeout(DRAIN, async { while let Some(Ok(_)) = self.body.next().await {} }).await;
        }
    }
}
