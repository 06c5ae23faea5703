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

use super::*;

struct Served {
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn start(router: Router, close: impl Future<Output = ()> + Send + 'static) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let stopped = async { _ = stopped.await };
    Served { address, stop, task: tokio::spawn(serve_and_close(listener, router, stopped, close)) }
}

async fn call(served: &Served, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

/// Reads as far as this.
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
async fn whoever_does_not_end_is_cut_off() {
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
