//! A client's event stream: missed events, then the current state, then live events.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use protocol::{
    EventBody, WorkspaceId,
    event::{PartInfo, Resync},
};
use tokio::time::timeout;

use super::{Sessions, Shared};
use crate::{
    Error,
    bus::{Frame, Lagged, Place, Scope, Subscription},
    limits::REPLAY_PAGE,
    mint::Mint,
    ports::{Span, Stored},
};

/// Time for this node to publish what another node has stored.
const TAIL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub enum StreamItem {
    /// Frames to send, in order.
    Frames(Vec<Arc<Frame>>),
    /// The client fell behind and is disconnected; it may resume.
    Lagged(Lagged),
    /// The server shuts down.
    End,
}

/// A client's event stream.
pub struct Stream {
    shared: Arc<Shared>,
    workspace: Option<WorkspaceId>,
    /// Replays events after this position…
    after: u64,
    /// …up to this one; later events come live.
    upto: u64,
    /// Sent after the replay: a resync event, statuses and open requests, the open parts.
    then: VecDeque<Arc<Frame>>,
    live: Subscription,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Stream")
            .field("after", &self.after)
            .field("upto", &self.upto)
            .finish_non_exhaustive()
    }
}

impl Sessions {
    /// Joins the event stream of one workspace or of all. With a cursor, events since then are replayed first; if
    /// the log no longer reaches back that far, `server.resync` is sent instead. Then every client receives the
    /// statuses that are not idle and the open requests, even if the replay contained them, because repeating a
    /// state is harmless. Clients without a cursor also receive the idle of turns that ended during recovery, while
    /// no client could be connected. A client that comes from another node of a fleet may have seen an event that this
    /// node has not published yet; it waits for that event.
    pub async fn subscribe(&self, scope: Scope, cursor: Option<u64>) -> Result<Stream, Error> {
        let mut joined = self.shared.bus.subscribe(&scope);
        let mut then = VecDeque::new();
        let mut after = joined.position;
        if let Some(cursor) = cursor {
            let (oldest, newest) = self.shared.reads.bounds().await?;
            if (joined.position + 1..=newest).contains(&cursor) {
                // A failure to publish in time is answered like a cursor that the log does not have.
                let _ = timeout(TAIL, self.shared.bus.reach(cursor)).await;
                joined = self.shared.bus.subscribe(&scope);
            }
            if cursor.saturating_add(1) < oldest || cursor > joined.position {
                then.push_back(resync(&self.shared.mint, oldest));
            } else {
                after = cursor;
            }
        }
        if cursor.is_none() || !then.is_empty() {
            then.extend(joined.unheard.into_iter().map(|(place, body)| self.frame(Some(&place), body)));
        }
        then.extend(joined.going.into_iter().map(|(place, body)| self.frame(Some(&place), body)));
        for (place, part) in joined.open {
            let session_id = part.session_id.clone();
            let time = self.shared.mint.now();
            let body = EventBody::PartUpdated(PartInfo::new(session_id, part, time));
            then.push_back(self.frame(Some(&place), body));
        }
        let (shared, upto, live) = (self.shared.clone(), joined.position, joined.subscription);
        let workspace = scope.workspace;
        Ok(Stream { shared, workspace, after, upto, then, live })
    }

    /// The place of events in a directory of this node.
    pub fn place_in(&self, directory: impl Into<Arc<str>>, project: impl Into<Arc<str>>) -> Place {
        self.shared.bus.place(directory, project)
    }

    /// The scope of a client that wants the events of a directory of this node.
    pub fn scope(&self, directory: &str) -> Scope {
        self.shared.bus.scope(directory)
    }

    /// Encodes an event for one client only.
    pub fn frame(&self, place: Option<&Place>, body: EventBody) -> Arc<Frame> {
        Arc::new(Frame::live(place, self.shared.mint.encoded(body).json))
    }

    /// Publishes a live event to all subscribers whose scope includes it.
    pub fn publish(&self, place: Option<&Place>, body: EventBody) {
        self.shared.bus.publish(place, &self.shared.mint.event(body));
    }
}

fn resync(mint: &Mint, oldest: u64) -> Arc<Frame> {
    let body = EventBody::ServerResync(Resync::new(oldest));
    Arc::new(Frame::live(None, mint.encoded(body).json))
}

impl Stream {
    /// Position in the log after which the stream begins, before the first frame is read.
    pub fn cursor(&self) -> u64 {
        self.after
    }

    /// Position in the log up to which the replay and the current state go, once they have been read.
    pub fn caught_up(&self) -> Option<u64> {
        (self.after >= self.upto && self.then.is_empty()).then_some(self.upto)
    }

    pub async fn next(&mut self) -> Result<StreamItem, Error> {
        if self.after < self.upto {
            let frames = self.replay().await?;
            if !frames.is_empty() {
                return Ok(StreamItem::Frames(frames));
            }
        }
        if !self.then.is_empty() {
            return Ok(StreamItem::Frames(self.then.drain(..).collect()));
        }
        Ok(match self.live.next().await {
            Ok(frames) if frames.is_empty() => StreamItem::End,
            Ok(frames) => StreamItem::Frames(frames),
            Err(lagged) => StreamItem::Lagged(lagged),
        })
    }

    async fn replay(&mut self) -> Result<Vec<Arc<Frame>>, Error> {
        let span = Span {
            after: self.after,
            upto: self.upto,
            workspace: self.workspace.clone(),
            limit: REPLAY_PAGE,
        };
        let stored = self.shared.reads.replay(span).await?;
        let (oldest, _) = self.shared.reads.bounds().await?;
        if self.after.saturating_add(1) < oldest {
            // The log was trimmed between two pages, because the client reads slowly.
            self.after = self.upto;
            return Ok(vec![resync(&self.shared.mint, oldest)]);
        }
        // A short page means that the range is exhausted, whatever other workspaces wrote in between.
        self.after = match stored.last() {
            Some(last) if stored.len() >= REPLAY_PAGE => last.position,
            _ => self.upto,
        };
        let frame = |stored: Stored| {
            let Stored { position, workspace, directory, project, json } = stored;
            Arc::new(Frame::durable(&Place { workspace, directory, project }, position, json))
        };
        Ok(stored.into_iter().map(frame).collect())
    }
}
