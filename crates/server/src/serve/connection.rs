//! One connection: serves its calls and detects its end.

use std::{
    convert::Infallible,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{Router, body::Body};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use hyper::{
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::{io::Interest, net::TcpStream, time::sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    HEADER_READ, MAX_BUFFER, MAX_HEAD, WRITE_STALL,
    places::{ConnectionSlot, Occupied},
    refusal::linger,
    socket::Socket,
    stall::Stalling,
};
use crate::security::Peer;

/// Interval for checking a half-closed client: it may still wait for its response or be gone.
const LOOK: Duration = Duration::from_secs(1);
/// Idle time before the kernel's first keep-alive probe, and the interval between probes.
const PROBE: Duration = Duration::from_secs(15);

/// Bytes of a response that are sent before the task yields to others.
const SLICE: usize = 64 * 1024;

/// Serves the calls of one connection until the client leaves, `finish` is cancelled or another connection
/// needs its place.
pub(super) async fn converse(
    stream: TcpStream,
    peer: Peer,
    place: Arc<ConnectionSlot>,
    router: Router,
    finish: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    prepare(&stream)?;
    let stream = Arc::new(stream);
    let service = service_fn({
        let (peer, place) = (peer.clone(), place.clone());
        move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            answer(request, router.clone(), place.occupy())
        }
    });
    let socket = Socket::new(stream.clone(), place.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ)
        .max_buf_size(MAX_BUFFER)
        .max_header_size(MAX_HEAD)
        .half_close(true)
        .serve_connection(TokioIo::new(Stalling::new(socket, WRITE_STALL)), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut gone = pin!(gone(&stream, &peer));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = &mut gone => return Ok(()),
        () = finish.cancelled() => None,
        () = place.leave.cancelled() => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection => ended,
            () = gone => return Ok(()),
            () = place.overdue() => return Ok(()),
        }
    };
    if ended.as_ref().is_err_and(hyper::Error::is_parse) {
        linger(&stream).await;
    }
    Ok(ended?)
}

/// Resolves when the client is gone. With half-closed connections allowed, hyper does not watch a client that
/// waits for its response, and the end of its input does not mean that it has left.
///
/// A client on this machine is gone when no process holds its socket. Any client is gone when its machine
/// resets the connection, as it does when anything reaches a closed socket: an event, a heartbeat or the
/// kernel's probe.
async fn gone(stream: &TcpStream, peer: &Peer) {
    let abandoned = async {
        loop {
            let Ok(ready) = stream.ready(Interest::READABLE).await else { return };
            if ready.is_read_closed() && peer.has_left() {
                return;
            }
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        _ = stream.ready(Interest::ERROR) => {}
        () = abandoned => {}
    }
}

async fn answer(
    request: Request<Incoming>,
    router: Router,
    occupied: Occupied,
) -> Result<Response<Answer>, Infallible> {
    let mut response = router.oneshot(request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        occupied.keep();
        return Ok(response.map(|body| Answer::new(body, None)));
    }
    if is_event_stream(&response)
        && let Err(refusal) = occupied.stream()
    {
        response = refusal.replace(response);
    }
    Ok(response.map(|body| Answer::new(body, Some(occupied))))
}

fn is_event_stream(response: &Response<Body>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// A response body that marks its connection as busy. It yields to other tasks after every [`SLICE`], because
/// compressing a large response takes CPU time and a client that reads fast never makes it wait.
struct Answer {
    body: Body,
    /// Bytes sent since the last yield.
    sent: usize,
    _occupied: Option<Occupied>,
}

impl Answer {
    fn new(body: Body, occupied: Option<Occupied>) -> Self {
        Self { body, sent: 0, _occupied: occupied }
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.sent >= SLICE {
            self.sent = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.sent += frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Deltas are small and must leave at once, so Nagle's algorithm is off.
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE)?;
    sockopt::set_tcp_keepintvl(stream, PROBE)?;
    // A peer that vanished does not fill the buffer, so no write blocks; the kernel has to time it out.
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(stream, u32::try_from(WRITE_STALL.as_millis()).unwrap_or(0))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::{FutureExt, stream};
    use hyper::body::Body as _;

    use super::*;

    #[tokio::test]
    async fn a_large_response_lets_other_tasks_run() {
        let frames = (0..33).map(|_| Ok::<_, Infallible>(Bytes::from(vec![0; SLICE / 16])));
        let mut answer = Answer::new(Body::from_stream(stream::iter(frames)), None);
        let mut counts = Vec::new();
        loop {
            let mut count = 0;
            let ended = loop {
                match poll_fn(|context| Pin::new(&mut answer).poll_frame(context)).now_or_never() {
                    Some(Some(_)) => count += 1,
                    Some(None) => break true,
                    None => break false,
                }
            };
            counts.push(count);
            if ended {
                break;
            }
        }
        assert_eq!(counts, [16, 16, 1]);
    }
}
