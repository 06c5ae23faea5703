//! A scripted server with exact control over bytes and delays.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A running server. Dropping it stops it.
pub(crate) struct Fake {
    pub(crate) url: String,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    replies: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    /// Notified when a client closes its connection while the server hangs.
    gone: Notify,
}

/// A received call.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

/// The reply to a call.
#[derive(Clone)]
pub(crate) struct Reply {
    head: String,
    acts: Vec<Act>,
}

#[derive(Clone)]
enum Act {
    Send(Vec<u8>),
    Wait(Duration),
    /// Sends nothing until the client closes.
    Hang,
    /// Closes the connection.
    Close,
}

impl Reply {
    /// A chunked response with this status and these headers, without content yet.
    pub(crate) fn new(status: u16, headers: &[(&str, &str)]) -> Self {
        let mut head = format!("HTTP/1.1 {status} Whatever\r\ntransfer-encoding: chunked\r\n");
        head.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        Self { head, acts: Vec::new() }
    }

    /// A stream of events.
    pub(crate) fn events() -> Self {
        Self::new(200, &[("content-type", "text/event-stream; charset=utf-8")])
    }

    /// No response at all.
    pub(crate) fn silence() -> Self {
        Self { head: String::new(), acts: vec![Act::Hang] }
    }

    /// Sends these bytes as one chunk.
    pub(crate) fn send(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.acts.push(Act::Send(chunk));
        self
    }

    /// Sends these bytes in chunks of this size.
    pub(crate) fn send_in(self, size: usize, bytes: impl AsRef<[u8]>) -> Self {
        bytes.as_ref().chunks(size).fold(self, Self::send)
    }

    pub(crate) fn wait(mut self, millis: u64) -> Self {
        self.acts.push(Act::Wait(Duration::from_millis(millis)));
        self
    }

    pub(crate) fn hang(mut self) -> Self {
        self.acts.push(Act::Hang);
        self
    }

    /// Closes the connection during the response.
    pub(crate) fn close(mut self) -> Self {
        self.acts.push(Act::Close);
        self
    }
}

impl Fake {
    /// A server that gives these replies in order and then repeats the last one.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let state = Arc::new(State {
            replies: Mutex::new(replies.into_iter().collect()),
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
            gone: Notify::new(),
        });
        let serving = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(Arc::clone(&serving).serve(stream));
            }
        });
        Self { url, state, task }
    }

    /// All received calls.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// The only received call.
    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Waits until a client closes its connection to a hanging server.
    pub(crate) async fn hung_up(&self) {
        tokio::time::timeout(Duration::from_secs(5), self.state.gone.notified())
            .await
            .expect("no client closed its connection");
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(seen) = read(&mut stream, &mut buffer).await {
            self.seen.lock().unwrap().push(seen);
            let reply = {
                let mut replies = self.replies.lock().unwrap();
                if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() }
            };
            let Some(reply) = reply else { return };
            if !self.perform(&mut stream, reply).await {
                return;
            }
        }
    }

    /// Returns true if the connection can be used for another call.
    async fn perform(&self, stream: &mut TcpStream, reply: Reply) -> bool {
        if !reply.head.is_empty() && stream.write_all(format!("{}\r\n", reply.head).as_bytes()).await.is_err()
        {
            return false;
        }
        for act in reply.acts {
            match act {
                Act::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
                        self.gone.notify_one();
                        return false;
                    }
                    // Lets the client read before the next bytes, so that chunks stay separate.
                    tokio::task::yield_now().await;
                }
                Act::Wait(wait) => tokio::time::sleep(wait).await,
                Act::Hang => {
                    let _ = stream.read(&mut [0; 1]).await;
                    self.gone.notify_one();
                    return false;
                }
                Act::Close => return false,
            }
        }
        stream.write_all(b"0\r\n\r\n").await.is_ok()
    }
}

/// Reads one call.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Seen> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer.drain(..end + 4).collect()).ok()?;
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while buffer.len() < length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body: Vec<u8> = buffer.drain(..length).collect();
    Some(Seen { path, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}
