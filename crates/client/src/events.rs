//! The event stream, across reconnects.
//!
//! The first connection must work; after that the stream follows the server through restarts and broken
//! networks, asking each time for what came after the last event it saw. Baton replays that without gap or
//! duplicate. OpenCode replays nothing: after its `server.connected` a client has to fetch state anew.

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

/// A server may ask for other delays, within these bounds.
const MIN_DELAY: Duration = Duration::from_millis(10);
const MAX_DELAY: Duration = Duration::from_secs(10);

/// How often in a row a connection may fail before the stream gives up: about two minutes.
const MAX_FAILURES: u32 = 16;

/// How long the head of the answer may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Servers send a heartbeat every ten seconds. After three without one the connection is dead.
const SILENCE: Duration = Duration::from_secs(35);

/// Whose events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of the client's directory: `/event`.
    Directory,
    /// Those of every directory: `/global/event`.
    Global,
}

/// An event as it came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Where the stream can be taken up again; live events have no place of their own.
    pub cursor: Option<u64>,
    /// The directory it is about, where the server says so.
    pub directory: Option<String>,
    /// The event.
    pub event: Event,
}

/// Follows a server's events until it is dropped. An error that ends the stream is its last item; a frame that
/// is no event is an error that does not.
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
    /// Follows the events from now on, or from after a cursor.
    pub fn events(&self, scope: Scope, after: Option<u64>) -> EventStream {
        self.events_within(scope, after, Duration::MAX)
    }

    /// The same, but gives up when a connection has failed and nothing was heard for so long.
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
    /// The stream cannot be decoded beyond the frames that are ready.
    broken: Option<sse::Error>,
}

struct Follower {
    client: Client,
    scope: Scope,
    last_id: Option<String>,
    connection: Option<Connection>,
    was_connected: bool,
    /// Since the last frame.
    failures: u32,
    /// When that came.
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

    /// Connects, however often it takes within reason.
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

    /// Doubles with every failure in a row.
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
