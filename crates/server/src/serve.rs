//! The accept loop: a bounded number of connections, and a shutdown within five seconds.

mod connection;
mod places;
mod refusal;
mod socket;
mod stall;

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::security::Peer;
use connection::converse;
use places::ConnectionSlots;
pub use places::{Capacity, MAX_CONNECTIONS};
use refusal::Refusal;

/// Timeout for the head of a call, and for idle time between calls.
pub const HEADER_READ: Duration = Duration::from_secs(30);
/// Longest time that a write may block before the client counts as dead.
pub const WRITE_STALL: Duration = Duration::from_secs(30);
/// Largest buffer of a connection, in bytes.
const MAX_BUFFER: usize = 64 * 1024;
/// The longest head of a call, in bytes. A longer one is answered with 431.
pub const MAX_HEAD: usize = 64 * 1024;
/// Pause after a failed accept, for instance when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time from the signal to the last connection; the rest of five seconds is for the store.
pub const DRAIN: Duration = Duration::from_millis(4_500);

/// Limits on connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct Admission {
    pub capacity: Capacity,
    /// True if connections of other users are refused at once. Their calls would fail anyway; refusing the
    /// connection keeps them from using up the places of the server's own user.
    pub own_user_only: bool,
}

/// Serves until `stop` resolves, then finishes the calls that have begun.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    serve_and_close(listener, router, Admission::default(), stop, async {}).await;
}

/// Serves until `stop` resolves. Then it accepts no more connections, closes idle ones and runs `close`, which
/// must end everything that keeps calls and event streams open. Connections that remain after [`DRAIN`] are cut
/// off.
pub async fn serve_and_close(
    listener: TcpListener,
    router: Router,
    admission: Admission,
    stop: impl Future<Output = ()>,
    close: impl Future<Output = ()>,
) {
    let connections = Connections::new(router, admission);
    tokio::select! {
        () = connections.accept(listener) => {}
        () = stop => {}
    }
    connections.finish.cancel();
    connections.tasks.close();
    let drained = async {
        close.await;
        connections.tasks.wait().await;
    };
    if timeout(DRAIN, drained).await.is_err() {
        tracing::warn!(connections = connections.tasks.len(), "some connections did not end in time");
    }
    connections.cut.cancel();
}

/// Shared state of all connections. Cheap to clone.
#[derive(Clone)]
struct Connections {
    router: Router,
    own_user_only: bool,
    places: Arc<ConnectionSlots>,
    /// Permits for connections whose user is being looked up, or that wait for a place.
    arrivals: Arc<Semaphore>,
    /// Permits for connections that are being refused.
    refusals: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Ends each connection after the call it is answering.
    finish: CancellationToken,
    /// Closes all connections at once.
    cut: CancellationToken,
}

impl Connections {
    fn new(router: Router, Admission { capacity, own_user_only }: Admission) -> Self {
        Self {
            router,
            own_user_only,
            places: ConnectionSlots::new(capacity),
            arrivals: Arc::new(Semaphore::new(capacity.spare())),
            refusals: Arc::new(Semaphore::new(capacity.spare())),
            tasks: TaskTracker::new(),
            finish: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }

    async fn accept(&self, listener: TcpListener) {
        let mut is_failing = false;
        // The semaphore is never closed, so the loop runs until its future is dropped.
        while let Ok(arrival) = self.arrivals.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    is_failing = false;
                    self.start(stream, arrival);
                }
                Err(error) => {
                    if !is_failing {
                        tracing::warn!(%error, "cannot accept a connection");
                    }
                    is_failing = true;
                    self.places.make_file();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn start(&self, stream: TcpStream, arrival: OwnedSemaphorePermit) {
        let (connections, cut) = (self.clone(), self.cut.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = connections.welcome(stream, arrival) => {}
                () = cut.cancelled() => {}
            }
        });
    }

    /// Assigns a place to a connection and answers its calls, or refuses it with a reason.
    async fn welcome(self, stream: TcpStream, arrival: OwnedSemaphorePermit) {
        let peer = match ends(&stream) {
            Ok(peer) => peer,
            Err(error) => return tracing::debug!(%error, "connection failed"),
        };
        let source = peer.source().await;
        let is_welcome = !self.own_user_only || peer.is_own_user().await;
        let place = if is_welcome { self.places.take(source).await } else { Err(Refusal::OtherUser) };
        drop(arrival);
        match place {
            Ok(place) => {
                if let Err(error) = converse(stream, peer, place, self.router, self.finish).await {
                    tracing::debug!(%error, "connection failed");
                }
            }
            // When too many are refused at once, the rest are closed without a response.
            Err(refusal) => {
                if let Ok(_permit) = self.refusals.try_acquire() {
                    refusal.answer(stream).await;
                }
            }
        }
    }
}

fn ends(stream: &TcpStream) -> io::Result<Peer> {
    Ok(Peer::new(stream.peer_addr()?, stream.local_addr()?))
}

#[cfg(test)]
mod tests;
