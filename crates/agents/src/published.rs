//! The events that an engine publishes, one at a time, for tests of runners.

use std::{collections::VecDeque, time::Duration};

use engine::{Sessions, Stream, StreamItem, bus::Scope};
use protocol::Event;
use tokio::time::timeout;

/// Subscribes to an engine's events from now on.
pub(crate) struct Published {
    stream: Stream,
    unread: VecDeque<Event>,
}

impl Published {
    pub(crate) async fn by(sessions: &Sessions) -> Self {
        let stream = sessions.subscribe(Scope::default(), None).await.unwrap();
        Self { stream, unread: VecDeque::new() }
    }

    /// Returns the next event; panics if none arrives in time.
    pub(crate) async fn next(&mut self, patience: Duration) -> Event {
        while self.unread.is_empty() {
            match timeout(patience, self.stream.next()).await.expect("no event arrived in time").unwrap() {
                StreamItem::Frames(frames) => {
                    let read = |json: &[u8]| serde_json::from_slice::<Event>(json).unwrap();
                    self.unread.extend(frames.iter().map(|frame| read(frame.json())));
                }
                other => panic!("the stream ended: {other:?}"),
            }
        }
        self.unread.pop_front().unwrap()
    }
}
