//! Shares the connections that a server can hold among its clients.
//!
//! A server without a free place closes the connection that has been idle for longest, of the
//! source that holds the most, so a client that opens thousands of connections closes its own. A source never
//! holds all places, and event streams never take all places of a source: ordinary calls are served while
//! streams have to wait. A new connection for which no place can be freed gets an error response.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::refusal::Refusal;
use crate::security::Source;

/// Most concurrent connections, if the process may open enough files.
pub const MAX_CONNECTIONS: usize = 4_096;
/// Fewest concurrent connections, however few files the process may open.
const MIN_CONNECTIONS: usize = 4;
/// Files reserved for the database, the log and processes; a quarter of the limit if that is more.
const RESERVED_FILES: u64 = 48;
/// Idle time below which a connection is not closed for another, because its first call may be on its way.
const FRESH: Duration = Duration::from_millis(250);
/// Time that a new connection waits for others that were asked to close.
const LEAVING: Duration = Duration::from_secs(1);
/// Time that an idle connection has to close. One that has sent half a call would otherwise stay until its head
/// times out.
const VACATE: Duration = Duration::from_millis(100);

/// Number of connections and how they are shared.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    connections: usize,
    fresh: Duration,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { connections: MAX_CONNECTIONS, fresh: FRESH }
    }
}

impl Capacity {
    /// Capacity of a process that may open this many files; `None` means unlimited.
    pub fn of_files(limit: Option<u64>) -> Self {
        let Some(limit) = limit else { return Self::default() };
        let rest = limit.saturating_sub(RESERVED_FILES.max(limit / 4));
        let connections = usize::try_from(rest).unwrap_or(MAX_CONNECTIONS);
        Self { connections: connections.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS), ..Self::default() }
    }

    /// Most connections in total.
    pub fn connections(self) -> usize {
        self.connections
    }

    /// Most connections of one source: three quarters.
    fn of_one(self) -> usize {
        self.connections * 3 / 4
    }

    /// Most event streams and WebSockets in total: seven eighths.
    fn streams(self) -> usize {
        self.connections * 7 / 8
    }

    /// Most event streams and WebSockets of one source: five eighths.
    fn streams_of_one(self) -> usize {
        self.connections * 5 / 8
    }

    /// Additional connections that are about to close, or that only receive a refusal.
    pub(super) fn spare(self) -> usize {
        (self.connections / 8).clamp(2, 64)
    }
}

/// All connections of a server.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    capacity: Capacity,
    held: Mutex<Held>,
    /// True while places are exhausted, so that the log reports each shortage once.
    is_full: AtomicBool,
    /// Wakes new connections that wait for a place.
    left: Notify,
}

#[derive(Debug, Default)]
struct Held {
    connections: HashMap<u64, Connection>,
    sources: HashMap<Source, Count>,
    streams: usize,
    next: u64,
}

#[derive(Debug, Default)]
struct Count {
    connections: usize,
    streams: usize,
}

#[derive(Debug)]
struct Connection {
    source: Source,
    state: State,
    /// Ends the connection after the response that is being sent.
    leave: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No call in progress since then.
    Idle(Instant),
    Busy,
    /// An event stream or a WebSocket.
    Stream,
    /// Was asked to close.
    Leaving,
}

/// The place of one connection; dropping it frees the place.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    id: u64,
    /// True while a call is being answered.
    is_answering: AtomicBool,
    /// Cancelled when another connection needs the place.
    pub(super) leave: CancellationToken,
}

/// Marks a call in progress; dropping it makes the connection idle.
#[derive(Debug)]
pub(super) struct Occupied(Option<Arc<ConnectionSlot>>);

impl ConnectionSlots {
    pub(super) fn new(capacity: Capacity) -> Arc<Self> {
        let (held, is_full, left) = Default::default();
        Arc::new(Self { capacity, held, is_full, left })
    }

    /// Takes a free place, or frees one. Waits for connections that were asked to close.
    pub(super) async fn take(self: &Arc<Self>, source: Source) -> Result<Arc<ConnectionSlot>, Refusal> {
        let deadline = Instant::now() + LEAVING;
        let taken = loop {
            let mut left = pin!(self.left.notified());
            // Registered before the check, so that no release is missed in between.
            left.as_mut().enable();
            let taken = self.try_take(source);
            if taken.is_ok()
                || !self.held.lock().is_anyone_leaving()
                || timeout_at(deadline, left).await.is_err()
            {
                break taken;
            }
        };
        self.report(taken.as_ref().err());
        taken
    }

    fn try_take(self: &Arc<Self>, source: Source) -> Result<Arc<ConnectionSlot>, Refusal> {
        let mut held = self.held.lock();
        self.make_room(&mut held, source)?;
        let id = held.next;
        held.next += 1;
        let leave = CancellationToken::new();
        let state = State::Idle(Instant::now());
        held.connections.insert(id, Connection { source, state, leave: leave.clone() });
        held.sources.entry(source).or_default().connections += 1;
        drop(held);
        let is_answering = AtomicBool::new(false);
        Ok(Arc::new(ConnectionSlot { places: Arc::clone(self), id, is_answering, leave }))
    }

    /// Closes the connection that has been idle for longest, of any source, because the process has no file
    /// descriptor left.
    pub(super) fn make_file(&self) {
        let mut held = self.held.lock();
        held.evict(|_| true, Duration::ZERO);
    }

    fn make_room(&self, held: &mut Held, source: Source) -> Result<(), Refusal> {
        let Capacity { connections, fresh } = self.capacity;
        if held.connections.len() >= connections + self.capacity.spare() {
            return Err(Refusal::Full { connections });
        }
        let own = held.sources.get(&source).map_or(0, |count| count.connections);
        if own >= self.capacity.of_one() {
            let made = held.evict(|other| other == source, fresh);
            return if made { Ok(()) } else { Err(Refusal::Share { connections: self.capacity.of_one() }) };
        }
        if held.connections.len() < connections {
            return Ok(());
        }
        let mut sources: Vec<_> =
            held.sources.iter().map(|(source, count)| (count.connections, *source)).collect();
        sources.sort_unstable_by_key(|(connections, _)| std::cmp::Reverse(*connections));
        let made = sources.into_iter().any(|(_, greedy)| held.evict(|other| other == greedy, fresh));
        if made { Ok(()) } else { Err(Refusal::Full { connections }) }
    }

    fn report(&self, refusal: Option<&Refusal>) {
        let connections = self.held.lock().connections.len();
        if let Some(refusal) = refusal {
            if !self.is_full.swap(true, Ordering::Relaxed) {
                tracing::warn!(connections, reason = %refusal, "refusing connections");
            }
        } else if connections < self.capacity.of_one() && self.is_full.swap(false, Ordering::Relaxed) {
            tracing::info!(connections, "accepting connections again");
        }
    }
}

impl Held {
    /// Asks the longest idle connection to close. Returns false if none was idle for `at_least`.
    fn evict(&mut self, may_be: impl Fn(Source) -> bool, at_least: Duration) -> bool {
        let now = Instant::now();
        let idle = self.connections.values_mut().filter_map(|connection| match connection.state {
            State::Idle(since) if may_be(connection.source) && now - since >= at_least => {
                Some((since, connection))
            }
            _ => None,
        });
        let Some((_, connection)) = idle.min_by_key(|(since, _)| *since) else { return false };
        connection.state = State::Leaving;
        connection.leave.cancel();
        true
    }

    fn is_anyone_leaving(&self) -> bool {
        self.connections.values().any(|connection| connection.state == State::Leaving)
    }

    /// Changes a connection's state and updates the number of streams.
    fn change(&mut self, id: u64, state: State) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.state == State::Leaving {
            return;
        }
        let (was, is) = (connection.state == State::Stream, state == State::Stream);
        connection.state = state;
        let source = connection.source;
        self.count_stream(source, was, is);
    }

    fn count_stream(&mut self, source: Source, was: bool, is: bool) {
        let Some(count) = self.sources.get_mut(&source) else { return };
        if is && !was {
            self.streams += 1;
            count.streams += 1;
        } else if was && !is {
            self.streams = self.streams.saturating_sub(1);
            count.streams = count.streams.saturating_sub(1);
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.count_stream(connection.source, connection.state == State::Stream, false);
        let Some(count) = self.sources.get_mut(&connection.source) else { return };
        count.connections = count.connections.saturating_sub(1);
        if count.connections == 0 {
            self.sources.remove(&connection.source);
        }
    }
}

impl ConnectionSlot {
    /// Marks the connection as busy until the result is dropped.
    pub(super) fn occupy(self: &Arc<Self>) -> Occupied {
        self.is_answering.store(true, Ordering::Relaxed);
        self.places.held.lock().change(self.id, State::Busy);
        Occupied(Some(Arc::clone(self)))
    }

    /// Resolves when the connection was asked to close, had time to do so and is not answering a call.
    pub(super) async fn overdue(&self) {
        self.leave.cancelled().await;
        loop {
            sleep(VACATE).await;
            if !self.is_answering.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.held.lock().remove(self.id);
        self.places.left.notify_waiters();
    }
}

impl Occupied {
    /// Marks the response as a stream, if the limits on streams allow it.
    pub(super) fn stream(&self) -> Result<(), Refusal> {
        let Some(place) = &self.0 else { return Ok(()) };
        let capacity = place.places.capacity;
        let mut held = place.places.held.lock();
        let source = held.connections.get(&place.id).map(|connection| connection.source);
        let own = source.and_then(|source| held.sources.get(&source)).map_or(0, |count| count.streams);
        if held.streams >= capacity.streams() || own >= capacity.streams_of_one() {
            drop(held);
            let refusal = Refusal::Streams { streams: capacity.streams_of_one() };
            place.places.report(Some(&refusal));
            return Err(refusal);
        }
        held.change(place.id, State::Stream);
        Ok(())
    }

    /// Counts the connection as a stream until it closes, because it switched to another protocol.
    pub(super) fn keep(mut self) {
        if let Some(place) = self.0.take() {
            place.places.held.lock().change(place.id, State::Stream);
        }
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        if let Some(place) = &self.0 {
            place.is_answering.store(false, Ordering::Relaxed);
            place.places.held.lock().change(place.id, State::Idle(Instant::now()));
        }
    }
}

#[cfg(test)]
impl Capacity {
    /// A small capacity whose idle connections can be closed at once.
    pub(super) fn small(connections: usize) -> Self {
        Self { connections, fresh: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests;
