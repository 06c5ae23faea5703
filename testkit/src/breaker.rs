//! A TCP proxy that breaks connections on demand, to stand between a program and the service that it calls.
//!
//! Tests in other languages control it over HTTP ([`control`]):
//!
//! | call | what it does |
//! |---|---|
//! | `POST /cut` | `{kind}`: breaks connections in this way: [`Cut`] |
//! | `POST /restore` | passes connections on again |
//! | `GET /broken?words=W` | waits until a call whose first line contains W was broken since the cut |

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Result;
use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    routing::{get, post},
};
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

/// Maximum time that a test waits for a broken call.
const PATIENCE: Duration = Duration::from_mins(1);

/// A way to break connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Cut {
    /// Closes every connection after the call was sent. The call does not reach the service.
    Reset,
    /// Accepts connections and stays silent. The call does not reach the service.
    Hang,
    /// Answers every call with 502. The call does not reach the service.
    BadGateway,
    /// Passes calls on, but not their answers.
    HalfOpen,
}

/// The proxy. Dropping it ends the listener.
#[derive(Debug)]
pub struct Breaker {
    address: SocketAddr,
    cut: watch::Sender<Option<Cut>>,
    /// The first lines of the calls that were broken.
    broken: watch::Sender<Vec<String>>,
    task: JoinHandle<()>,
}

impl Breaker {
    /// Listens on a free port of loopback and passes every connection on to `target`.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (cut, broken) = (watch::Sender::new(None), watch::Sender::default());
        let proxy = Proxy { target, cut: cut.subscribe(), broken: broken.clone() };
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(proxy.clone().carry(stream));
            }
        });
        Ok(Self { address, cut, broken, task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Breaks open connections, and all that follow until [`Breaker::restore`].
    pub fn cut(&self, cut: Cut) {
        self.broken.send_replace(Vec::new());
        self.cut.send_replace(Some(cut));
    }

    /// Closes broken connections and passes new ones on again.
    pub fn restore(&self) {
        self.cut.send_replace(None);
    }

    /// Waits until a call whose first line contains `words` was broken since the cut.
    pub async fn broken(&self, words: &str) {
        let mut broken = self.broken.subscribe();
        // The sender lives as long as `self`.
        let _ = broken.wait_for(|broken| broken.iter().any(|line| line.contains(words))).await;
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug, Deserialize)]
struct Broken {
    words: String,
}

type Shared = State<Arc<Breaker>>;

/// The control interface, to be served on an address of its own.
pub fn control(breaker: Arc<Breaker>) -> Router {
    Router::new()
        .route("/cut", post(async |State(it): Shared, Json(cut): Json<Cut>| it.cut(cut)))
        .route("/restore", post(async |State(it): Shared| it.restore()))
        .route(
            "/broken",
            get(async |State(it): Shared, Query(Broken { words }): Query<Broken>| {
                match timeout(PATIENCE, it.broken(&words)).await {
                    Ok(()) => StatusCode::OK,
                    Err(_) => StatusCode::REQUEST_TIMEOUT,
                }
            }),
        )
        .with_state(breaker)
}

#[derive(Clone)]
struct Proxy {
    target: SocketAddr,
    cut: watch::Receiver<Option<Cut>>,
    broken: watch::Sender<Vec<String>>,
}

impl Proxy {
    async fn carry(mut self, mut caller: TcpStream) -> Result<()> {
        let cut = *self.cut.borrow_and_update();
        let Some(cut) = cut else {
            let mut service = TcpStream::connect(self.target).await?;
            tokio::select! {
                done = copy_bidirectional(&mut caller, &mut service) => drop(done?),
                _ = self.cut.changed() => {}
            }
            return Ok(());
        };
        let call = read_call(&mut caller).await?;
        match cut {
            Cut::Reset => self.note(&call),
            Cut::Hang => {
                self.note(&call);
                self.cut.changed().await?;
            }
            Cut::BadGateway => {
                let answer = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                caller.write_all(answer).await?;
                self.note(&call);
            }
            Cut::HalfOpen => {
                let mut service = TcpStream::connect(self.target).await?;
                service.write_all(&call).await?;
                // The answer proves that the service has performed the call.
                tokio::select! {
                    answered = service.read_u8() => drop(answered?),
                    _ = self.cut.changed() => return Ok(()),
                }
                self.note(&call);
                self.cut.changed().await?;
            }
        }
        Ok(())
    }

    fn note(&self, call: &[u8]) {
        let line = call.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).into_owned();
        self.broken.send_modify(|broken| broken.push(line));
    }
}

/// Reads one HTTP call whose body has a known length.
async fn read_call(caller: &mut TcpStream) -> Result<Vec<u8>> {
    let mut call = Vec::new();
    loop {
        if let Some(end) = call.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(call.get(..end).unwrap_or_default()).to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            if call.len() >= end + 4 + length.unwrap_or(0_usize) {
                return Ok(call);
            }
        }
        anyhow::ensure!(caller.read_buf(&mut call).await? > 0, "the caller closed the connection");
    }
}
