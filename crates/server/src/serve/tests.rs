//! The accept loop on real sockets.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{Router, body::Body, routing::get};
use bytes::Bytes;
use futures::stream;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    net::{TcpListener, TcpStream},
    sync::{Notify, oneshot},
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{stall::Stalling, *};

struct Served {
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn start(router: Router, close: impl Future<Output = ()> + Send + 'static) -> Served {
    start_with(router, Admission::default(), close).await
}

async fn start_with(
    router: Router,
    admission: Admission,
    close: impl Future<Output = ()> + Send + 'static,
) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let stopped = async { _ = stopped.await };
    Served { address, stop, task: tokio::spawn(serve_and_close(listener, router, admission, stopped, close)) }
}

async fn call(served: &Served, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

/// Reads up to and including `end`.
async fn until(stream: &mut TcpStream, end: &str) {
    let mut read = Vec::new();
    let reading = async {
        while !read.ends_with(end.as_bytes()) {
            read.push(stream.read_u8().await.unwrap());
        }
    };
    timeout(Duration::from_secs(10), reading).await.unwrap();
}

async fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    timeout(Duration::from_secs(10), stream.read_to_string(&mut text)).await.unwrap().unwrap();
    text
}

#[tokio::test]
async fn calls_that_have_begun_are_answered_and_idle_connections_closed() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (begun, go_on) = (begun.clone(), go_on.clone());
        || async move {
            begun.notify_one();
            go_on.notified().await;
            "done"
        }
    };
    let served = start(Router::new().route("/slow", get(slow)), async {}).await;
    let idle = TcpStream::connect(served.address).await.unwrap();
    let busy = call(&served, "/slow").await;
    begun.notified().await;
    served.stop.send(()).unwrap();
    go_on.notify_one();
    assert!(rest(busy).await.ends_with("done"));
    assert_eq!(rest(idle).await, "");
    served.task.await.unwrap();
    assert!(TcpStream::connect(served.address).await.is_err(), "nothing more is accepted");
}

#[tokio::test]
async fn streams_end_when_closing_ends_them() {
    let (end, ended) = oneshot::channel::<()>();
    let ended = std::sync::Arc::new(tokio::sync::Mutex::new(Some(ended)));
    let open = move || {
        let ended = ended.clone();
        async move {
            let first = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"first\n")) });
            let last = stream::once(async move {
                let ended = ended.lock().await.take().unwrap();
                _ = ended.await;
                Ok(Bytes::from_static(b"last\n"))
            });
            Body::from_stream(futures::StreamExt::chain(first, last))
        }
    };
    let close = async { end.send(()).unwrap() };
    let served = start(Router::new().route("/open", get(open)), close).await;
    let mut open = call(&served, "/open").await;
    until(&mut open, "first\n").await;
    served.stop.send(()).unwrap();
    let text = rest(open).await;
    assert!(text.contains("last\n") && text.ends_with("0\r\n\r\n"), "{text:?}");
    served.task.await.unwrap();
}

#[tokio::test]
async fn connections_that_do_not_end_are_cut_off() {
    let never = || async { Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()) };
    let served = start(Router::new().route("/never", get(never)), async {}).await;
    let mut open = call(&served, "/never").await;
    until(&mut open, "\r\n\r\n").await;
    served.stop.send(()).unwrap();
    let text = rest(open).await;
    assert!(!text.ends_with("0\r\n\r\n"), "cut off, not ended: {text:?}");
    served.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_blocked_write_is_given_up() {
    let (near, mut far) = duplex(8);
    let mut near = Stalling::new(near, Duration::from_secs(30));
    let started = Instant::now();
    let error = near.write_all(&[0; 64]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(started.elapsed().as_secs(), 30);

    let mut read = [0; 64];
    let (written, _) = tokio::join!(near.write_all(&[0; 56]), far.read_exact(&mut read));
    written.unwrap();
}

/// A router whose `/events` never ends and signals when its client is gone, and whose `/` answers at once.
fn events() -> (Router, Arc<Semaphore>) {
    struct Gone(Arc<Semaphore>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.add_permits(1);
        }
    }
    let gone = Arc::new(Semaphore::new(0));
    let events = {
        let gone = gone.clone();
        move || async move {
            let watch = Gone(gone);
            let first = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"data: 1\n\n")) });
            let rest = stream::poll_fn(move |_| {
                let _ = &watch;
                std::task::Poll::Pending
            });
            ([("content-type", "text/event-stream")], Body::from_stream(stream::select(first, rest)))
        }
    };
    (Router::new().route("/events", get(events)).route("/", get(|| async { "here" })), gone)
}

fn small(connections: usize) -> Admission {
    Admission { capacity: Capacity::small(connections), ..Admission::default() }
}

#[tokio::test]
async fn a_call_is_answered_while_one_client_holds_more_idle_connections_than_there_are_places() {
    let served = start_with(events().0, small(16), async {}).await;
    for begun in ["", "GET / HTTP/1.1\r\nhost: "] {
        let mut idle = Vec::new();
        for _ in 0..32 {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            // The server may have closed it already.
            _ = stream.write_all(begun.as_bytes()).await;
            idle.push(stream);
        }
        // On a slow machine a place may become free too late, which results in 503.
        let answered = async {
            loop {
                let mut stream = TcpStream::connect(served.address).await.unwrap();
                let mut text = String::new();
                _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
                _ = stream.read_to_string(&mut text).await;
                if text.ends_with("here") {
                    break;
                }
            }
        };
        timeout(Duration::from_secs(20), answered).await.unwrap();
    }
}

#[tokio::test]
async fn streams_without_a_place_are_refused_and_calls_are_answered() {
    let served = start_with(events().0, small(16), async {}).await;
    let mut open = Vec::new();
    for _ in 0..10 {
        let mut stream = call(&served, "/events").await;
        until(&mut stream, "data: 1\n\n\r\n").await;
        open.push(stream);
    }
    let mut refused = call(&served, "/events").await;
    until(&mut refused, "(ulimit -n)\"}").await;
    let mut answered = call(&served, "/").await;
    until(&mut answered, "here").await;
}

#[tokio::test]
async fn connections_beyond_a_busy_share_are_refused_with_a_response() {
    let begun = Arc::new(Semaphore::new(0));
    let slow = {
        let begun = begun.clone();
        || async move {
            begun.add_permits(1);
            std::future::pending::<()>().await;
        }
    };
    let served = start_with(Router::new().route("/slow", get(slow)), small(8), async {}).await;
    let mut busy = Vec::new();
    for _ in 0..6 {
        busy.push(call(&served, "/slow").await);
        begun.acquire().await.unwrap().forget();
    }
    let text = rest(call(&served, "/").await).await;
    assert!(
        text.starts_with("HTTP/1.1 503 ") && text.contains("the most that one client may hold"),
        "{text}"
    );
    assert!(text.contains("retry-after: 1\r\n") && text.contains("ServiceUnavailableError"), "{text}");
}

#[tokio::test]
async fn a_client_that_sends_nothing_more_gets_its_answer() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (begun, go_on) = (begun.clone(), go_on.clone());
        || async move {
            begun.notify_one();
            go_on.notified().await;
            "done"
        }
    };
    let served = start(Router::new().route("/slow", get(slow)), async {}).await;
    let mut half = call(&served, "/slow").await;
    begun.notified().await;
    half.shutdown().await.unwrap();
    go_on.notify_one();
    assert!(rest(half).await.ends_with("done"));
}

#[tokio::test]
async fn a_client_that_has_left_is_noticed_without_a_write() {
    let (router, gone) = events();
    let served = start(router, async {}).await;
    let mut reset = call(&served, "/events").await;
    until(&mut reset, "data: 1\n\n\r\n").await;
    reset.set_zero_linger().unwrap();
    drop(reset);
    timeout(Duration::from_mins(1), gone.acquire()).await.unwrap().unwrap().forget();
    if !cfg!(target_os = "linux") {
        return;
    }
    let mut closed = call(&served, "/events").await;
    until(&mut closed, "data: 1\n\n\r\n").await;
    drop(closed);
    // Long timeout, because a kernel that does not report socket owners notices it only by its own probes.
    timeout(Duration::from_mins(2), gone.acquire()).await.unwrap().unwrap().forget();
}

#[tokio::test]
async fn the_longest_head_is_served_and_a_longer_one_is_not() {
    let served = start(events().0, async {}).await;
    let address = served.address;
    let ask = |size: usize| {
        let start = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-long: ";
        let head = format!("{start}{}\r\n\r\n", "x".repeat(size - start.len() - 4));
        assert_eq!(head.len(), size);
        async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            rest(stream).await
        }
    };
    assert!(ask(MAX_HEAD).await.starts_with("HTTP/1.1 200 "));
    for size in [MAX_HEAD + 1, 70_000, 10 * MAX_HEAD] {
        let text = ask(size).await;
        assert!(text.starts_with("HTTP/1.1 431 "), "{size}: {text}");
    }
}
