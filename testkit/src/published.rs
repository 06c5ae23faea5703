//! The events that an engine publishes, one at a time, for tests of runners.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test whose events do not arrive fails here"
)]

use std::{
    collections::{HashSet, VecDeque},
    fmt::Write as _,
    hash::BuildHasher,
    time::Duration,
};

use engine::{Sessions, Stream, StreamItem, bus::Scope};
use protocol::{Event, EventBody, PartBody, PartId, SessionId, ToolState};
use tokio::time::timeout;

/// Subscribes to an engine's events from now on.
#[derive(Debug)]
pub struct Published {
    stream: Stream,
    unread: VecDeque<Event>,
}

impl Published {
    pub async fn by(sessions: &Sessions) -> Self {
        let stream = sessions.subscribe(Scope::default(), None).await.unwrap();
        Self { stream, unread: VecDeque::new() }
    }

    /// Returns the next event; panics if none arrives in time.
    pub async fn next(&mut self, patience: Duration) -> Event {
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

/// The events of a session, one `word` in a line; events without a word are left out, and deltas in a row are counted.
pub fn story(
    events: &[Event],
    session: &SessionId,
    mut word: impl FnMut(&EventBody) -> Option<String>,
) -> String {
    let (mut story, mut deltas) = (String::new(), 0);
    for event in events.iter().filter(|event| event.body.session_id() == Some(session)) {
        if matches!(event.body, EventBody::PartDelta(_)) {
            deltas += 1;
            continue;
        }
        if deltas > 0 {
            writeln!(story, "delta x{deltas}").unwrap();
            deltas = 0;
        }
        if let Some(word) = word(&event.body) {
            writeln!(story, "{word}").unwrap();
        }
    }
    story
}

/// True for an update of a tool that is running, after the first one: their number depends on timing.
pub fn is_progress<S: BuildHasher>(running: &mut HashSet<PartId, S>, body: &EventBody) -> bool {
    matches!(body, EventBody::PartUpdated(it)
        if matches!(&it.part.body, PartBody::Tool(tool) if matches!(tool.state, ToolState::Running(_)))
            && !running.insert(it.part.id.clone()))
}
