//! A subscriber's queue: bounded, so that a client that does not read costs a fixed amount of memory.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::Frame;

/// Maximum number of frames that a subscriber may be behind.
pub const MAX_QUEUED_FRAMES: usize = 16_384;
/// Maximum number of bytes that a subscriber may be behind. Frames are shared, so this bounds the memory that one
/// slow client keeps alive.
pub const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;

/// The subscriber fell too far behind and was disconnected. It can resume from its last cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client did not keep up with the event stream; it can resume from its last event id")]
pub struct Lagged;

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy)]
enum End {
    Lagged,
    Finished,
}

impl Queue {
    /// Returns false if the subscriber is cut off.
    pub(super) fn push(&self, frame: &Arc<Frame>) -> bool {
        let mut state = self.lock();
        if state.frames.len() >= MAX_QUEUED_FRAMES || state.bytes + frame.json().len() > MAX_QUEUED_BYTES {
            *state = State { end: Some(End::Lagged), ..State::default() };
        } else {
            state.bytes += frame.json().len();
            state.frames.push_back(Arc::clone(frame));
        }
        let kept = state.end.is_none();
        drop(state);
        self.ready.notify_one();
        kept
    }

    pub(super) fn finish(&self) {
        self.lock().end.get_or_insert(End::Finished);
        self.ready.notify_one();
    }

    pub(super) fn len(&self) -> usize {
        self.lock().frames.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiving end. Dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<Queue>,
}

impl Subscription {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self { queue }
    }

    /// Waits for frames and takes all that are queued. An empty vector means that the stream has ended.
    pub async fn next(&mut self) -> Result<Vec<Arc<Frame>>, Lagged> {
        loop {
            {
                let mut state = self.queue.lock();
                if !state.frames.is_empty() {
                    state.bytes = 0;
                    return Ok(state.frames.drain(..).collect());
                }
                match state.end {
                    Some(End::Lagged) => return Err(Lagged),
                    Some(End::Finished) => return Ok(Vec::new()),
                    None => {}
                }
            }
            self.queue.ready.notified().await;
        }
    }
}
