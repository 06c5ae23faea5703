//! The accept loop: bounded connections in, and a way out that takes five seconds at most.

mod stall;

use std::{io, pin::pin, time::Duration};

use axum::Router;
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use crate::security::Peer;
use stall::Stalling;

/// Connections at a time; more wait in the kernel's queue until one is closed.
pub const MAX_CONNECTIONS: usize = 4_096;
/// How long a client may take to say what it wants, and how long a connection may do nothing between calls.
pub const HEADER_READ: Duration = Duration::from_secs(30);
/// How long a client may leave a write blocked before it is taken for dead.
pub const WRITE_STALL: Duration = Duration::from_secs(30);
/// What a connection may hold back in memory, and the longest head of a call.
pub const MAX_BUFFER: usize = 64 * 1024;
/// How long to wait when no connection can be accepted, for want of file descriptors for instance.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// From the signal to the last connection; what remains of five seconds is for the store.
pub const DRAIN: Duration = Duration::from_millis(4_500);

/// Serves until `stop` resolves, then lets calls that have begun come to their end.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    serve_and_close(listener, router, stop, async {}).await;
}

/// Serves until `stop` resolves. Then nothing more is accepted, idle connections are closed, and `close` runs:
/// it has to end what keeps calls and event streams going. Whoever is still there after [`DRAIN`] is cut off.
pub async fn serve_and_close(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    close: impl Future<Output = ()>,
) {
    let connections = Connections::default();
    tokio::select! {
        () = connections.accept(listener, router) => {}
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

#[derive(Default)]
struct Connections {
    tasks: TaskTracker,
    /// Finish the call that is being answered, then close.
    finish: CancellationToken,
    /// Close now.
    cut: CancellationToken,
}

impl Connections {
    async fn accept(&self, listener: TcpListener, router: Router) {
        let places = std::sync::Arc::new(Semaphore::new(MAX_CONNECTIONS));
        // The semaphore is never closed, so this goes on until it is dropped.
        while let Ok(place) = places.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => self.start(stream, router.clone(), place),
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn start(&self, stream: TcpStream, router: Router, place: OwnedSemaphorePermit) {
        let (finish, cut) = (self.finish.clone(), self.cut.clone());
        self.tasks.spawn(async move {
            let ended = tokio::select! {
                ended = converse(stream, router, finish) => ended,
                () = cut.cancelled() => Ok(()),
            };
            if let Err(error) = ended {
                tracing::debug!(error = %error, "a connection broke");
            }
            drop(place);
        });
    }
}

/// Answers the calls of one connection.
async fn converse(
    stream: TcpStream,
    router: Router,
    finish: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    prepare(&stream)?;
    let peer = Peer::new(stream.peer_addr()?, stream.local_addr()?);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(Stalling::new(stream, WRITE_STALL)), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return Ok(ended?),
        () = finish.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    Ok(connection.await?)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    // A delta is small and late is worse than many.
    stream.set_nodelay(true)?;
    // A peer that vanished without a word does not fill the buffer, so no write blocks: the kernel has to
    // give up on it.
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_user_timeout(stream, u32::try_from(WRITE_STALL.as_millis()).unwrap_or(0))?;
    Ok(())
}

#[cfg(test)]
mod tests;
