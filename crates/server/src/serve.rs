//! The accept loop: bounded connections in, and a way out that takes five seconds at most.

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
use places::Places;
pub use places::{Capacity, MAX_CONNECTIONS};
use refusal::Refusal;

/// How long a client may take to say what it wants, and how long a connection may do nothing between calls.
pub const HEADER_READ: Duration = Duration::from_secs(30);
/// How long a client may leave a write blocked before it is taken for dead.
pub const WRITE_STALL: Duration = Duration::from_secs(30);
/// What a connection may hold back in memory.
const MAX_BUFFER: usize = 64 * 1024;
/// The longest head of a call, in bytes. A longer one is answered with 431.
pub const MAX_HEAD: usize = 64 * 1024;
/// How long to wait when no connection can be accepted, for want of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// From the signal to the last connection; what remains of five seconds is for the store.
pub const DRAIN: Duration = Duration::from_millis(4_500);

/// Who may connect to a server, and how many.
#[derive(Debug, Clone, Copy, Default)]
pub struct Admission {
    /// How many connections there may be.
    pub capacity: Capacity,
    /// Whether connections of other users get no place. Their calls would be refused anyway; without a place,
    /// they cannot keep the server's own user out by connecting often.
    pub own_user_only: bool,
}

/// Serves until `stop` resolves, then lets calls that have begun come to their end.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    serve_and_close(listener, router, Admission::default(), stop, async {}).await;
}

/// Serves until `stop` resolves. Then nothing more is accepted, idle connections are closed, and `close` runs:
/// it has to end what keeps calls and event streams going. Connections that are left after [`DRAIN`] are cut off.
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

/// Cheap to clone.
#[derive(Clone)]
struct Connections {
    router: Router,
    own_user_only: bool,
    places: Arc<Places>,
    /// Connections whose user is being looked up, or that wait for a place.
    arrivals: Arc<Semaphore>,
    /// Connections that are being told that there is no place for them.
    refusals: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Finish the call that is being answered, then close.
    finish: CancellationToken,
    /// Close now.
    cut: CancellationToken,
}

impl Connections {
    fn new(router: Router, Admission { capacity, own_user_only }: Admission) -> Self {
        Self {
            router,
            own_user_only,
            places: Places::new(capacity),
            arrivals: Arc::new(Semaphore::new(capacity.spare())),
            refusals: Arc::new(Semaphore::new(capacity.spare())),
            tasks: TaskTracker::new(),
            finish: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }

    async fn accept(&self, listener: TcpListener) {
        let mut is_failing = false;
        // The semaphore is never closed, so this goes on until it is dropped.
        while let Ok(arrival) = self.arrivals.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    is_failing = false;
                    self.start(stream, arrival);
                }
                Err(error) => {
                    if !is_failing {
                        tracing::warn!(%error, "could not accept a connection");
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

    /// Gives a connection a place and answers its calls, or tells it why it gets none.
    async fn welcome(self, stream: TcpStream, arrival: OwnedSemaphorePermit) {
        let peer = match ends(&stream) {
            Ok(peer) => peer,
            Err(error) => return tracing::debug!(%error, "a connection broke"),
        };
        let source = peer.source().await;
        let is_welcome = !self.own_user_only || peer.is_own_user().await;
        let place = if is_welcome { self.places.take(source).await } else { Err(Refusal::OtherUser) };
        drop(arrival);
        match place {
            Ok(place) => {
                if let Err(error) = converse(stream, peer, place, self.router, self.finish).await {
                    tracing::debug!(%error, "a connection broke");
                }
            }
            // When too many are refused at once, the others are closed without a word.
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
