//! The event stream, across reconnects.
//!
//! The first connection must succeed. After that the stream survives restarts and network failures, and asks after
//! each reconnect for the events since the last one it saw. Baton replays them without gap or duplicate. OpenCode
//! replays nothing: after its `server.connected` a client has to read the state again.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use net::sse::{self, Decoder, Frame};
use protocol::Event;
use reqwest::{Method, Response, header};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Client, Error,
    connection::accepted,
    envelope::{self, Envelope},
};

const FIRST_DELAY: Duration = Duration::from_millis(250);

/// Bounds for the delays that a server asks for.
const MIN_DELAY: Duration = Duration::from_millis(10);
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Number of failed connections in a row after which the stream ends, which takes about two minutes.
const MAX_FAILURES: u32 = 16;

/// Timeout for the head of the answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Servers send a heartbeat every ten seconds. After three missing ones the connection is considered dead.
const SILENCE: Duration = Duration::from_secs(35);

/// The selection of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Events of the client's directory: `/event`.
    Directory,
    /// Events of all directories: `/global/event`.
    Global,
}

/// A received event.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// The position at which the stream can be resumed; `None` for live events.
    pub cursor: Option<u64>,
    /// The directory of the event, if the server reports it.
    pub directory: Option<String>,
    pub event: Event,
}

/// Follows a server's events until it is dropped. An error that ends the stream is its last item; an unreadable
/// frame is an error that does not end it.
#[must_use = "a stream does nothing until it is polled"]
pub struct EventStream(stream::BoxStream<'static, Result<Received, Error>>);

impl fmt::Debug for EventStream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("EventStream")
    }
}

impl Stream for EventStream {
    type Item = Result<Received, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl Client {
    /// Follows the events from now on, or from a cursor.
    pub fn events(&self, scope: Scope, after: Option<u64>) -> EventStream {
        self.events_within(scope, after, Duration::MAX)
    }

    /// The same, but gives up if a connection fails and no frame arrived for `patience`.
    pub fn events_within(&self, scope: Scope, after: Option<u64>, patience: Duration) -> EventStream {
        let follower = Follower {
            client: self.clone(),
            scope,
            last_id: after.map(|cursor| cursor.to_string()),
            connection: None,
            was_connected: false,
            failures: 0,
            heard: Instant::now(),
            patience,
            first_delay: FIRST_DELAY,
        };
        EventStream(
            stream::unfold(Some(follower), |follower| async move {
                let mut follower = follower?;
                match follower.next().await {
                    Ok(item) => Some((item, Some(follower))),
                    Err(error) => Some((Err(error), None)),
                }
            })
            .boxed(),
        )
    }
}

struct Connection {
    response: Response,
    decoder: Decoder,
    /// The decoder's error, which ends the stream after the frames that are ready.
    broken: Option<sse::Error>,
}

struct Follower {
    client: Client,
    scope: Scope,
    last_id: Option<String>,
    connection: Option<Connection>,
    was_connected: bool,
    /// Failures since the last frame.
    failures: u32,
    /// Time of the last frame.
    heard: Instant,
    patience: Duration,
    first_delay: Duration,
}

impl Follower {
    /// The next item; the outer error ends the stream.
    async fn next(&mut self) -> Result<Result<Received, Error>, Error> {
        loop {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            if let Some(frame) = connection.decoder.frame() {
                if let Some(item) = self.receive(frame) {
                    return Ok(item);
                }
            } else if let Some(error) = connection.broken {
                return Err(error.into());
            } else if let Ok(Ok(Some(bytes))) = timeout(SILENCE, connection.response.chunk()).await {
                connection.broken = connection.decoder.push(&bytes).err();
            } else {
                self.connection = None;
                self.failures = self.failures.saturating_add(1);
            }
        }
    }

    /// Connects, with retries after the first success.
    async fn connect(&mut self) -> Result<&mut Connection, Error> {
        loop {
            if self.was_connected {
                sleep(self.delay()).await;
            }
            match self.attempt().await {
                Ok(response) => {
                    self.was_connected = true;
                    let connection = Connection { response, decoder: Decoder::default(), broken: None };
                    return Ok(self.connection.insert(connection));
                }
                Err(error) if error.is_transient() && self.may_try_again() => self.failures += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn attempt(&self) -> Result<Response, Error> {
        let path: &[&str] = match self.scope {
            Scope::Directory => &["event"],
            Scope::Global => &["global", "event"],
        };
        let mut request = self.client.request(Method::GET, path).header(header::ACCEPT, "text/event-stream");
        if let Some(id) = &self.last_id {
            request = request.header("last-event-id", id);
        }
        let response = timeout(HEAD_TIMEOUT, accepted(request)).await.map_err(|_| Error::Timeout)??;
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        match kind {
            Some(kind) if kind.starts_with("text/event-stream") => Ok(response),
            _ => Err(Error::Unexpected {
                status: response.status().as_u16(),
                excerpt: format!("content type {}", kind.unwrap_or("none")),
            }),
        }
    }

    fn may_try_again(&self) -> bool {
        self.was_connected && self.failures < MAX_FAILURES && self.heard.elapsed() < self.patience
    }

    /// The pause before a reconnect; doubles with every failure in a row.
    fn delay(&self) -> Duration {
        self.first_delay.saturating_mul(1 << self.failures.min(MAX_FAILURES)).min(MAX_DELAY)
    }

    fn receive(&mut self, frame: Frame) -> Option<Result<Received, Error>> {
        (self.failures, self.heard) = (0, Instant::now());
        if let Some(millis) = frame.retry {
            self.first_delay = Duration::from_millis(millis).clamp(MIN_DELAY, MAX_DELAY);
        }
        let cursor = frame.id.as_ref().and_then(|id| id.parse().ok());
        if frame.id.is_some() {
            self.last_id = frame.id;
        }
        match serde_json::from_str(&frame.data).and_then(envelope::open) {
            Ok(envelope) => {
                envelope.map(|Envelope { directory, event }| Ok(Received { cursor, directory, event }))
            }
            Err(error) => Some(Err(error.into())),
        }
    }
}
