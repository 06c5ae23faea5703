//! JSON-RPC with the host process: one message per line, calls in both directions, all queues bounded.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Limit of lines that wait to be written. Senders wait when it is reached.
const MAX_OUTGOING: usize = 256;
/// Limit of received messages that are not processed yet.
const MAX_INCOMING: usize = 256;
/// Maximum length of a line; a whole conversation with images is one line.
const MAX_LINE: usize = 32 * 1024 * 1024;

/// The error code of an exception in a plugin; other codes come from the host.
const THROWN: i32 = -32000;

/// A call without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// The plugin threw an error.
    #[error("{0}")]
    Thrown(String),
    /// The process has exited.
    #[error("the plugin host has exited")]
    Gone,
    /// The request or the answer is not JSON of the right shape.
    #[error("{0}")]
    Misfit(String),
}

/// A message from the process that is not an answer.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Set if it expects an answer.
    pub(super) id: Option<u64>,
    pub(super) method: String,
    pub(super) params: Box<RawValue>,
}

/// Baton's end of the connection. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Wire {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
    next: AtomicU64,
    over: CancellationToken,
    reading: JoinHandle<()>,
    writing: JoinHandle<()>,
}

/// The result of a call.
type Answered = Result<Box<RawValue>, Failure>;

#[derive(Debug, Default)]
struct Waiting {
    calls: HashMap<u64, oneshot::Sender<Answered>>,
    is_over: bool,
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct Reply<'a> {
    jsonrpc: &'static str,
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Complaint<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Value>,
}

#[derive(Serialize)]
struct Complaint<'a> {
    code: i32,
    message: &'a str,
}

/// Any line: a request or notification if it has a method, otherwise an answer.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Box<RawValue>,
    #[serde(default)]
    result: Box<RawValue>,
    #[serde(default)]
    error: Option<Told>,
}

#[derive(Deserialize)]
struct Told {
    code: i32,
    message: String,
}

impl From<Told> for Failure {
    fn from(Told { code, message }: Told) -> Self {
        if code == THROWN { Self::Thrown(message) } else { Self::Misfit(message) }
    }
}

impl Wire {
    /// Connects these pipes. The receiver gets the process's requests and notifications, and ends with the process.
    pub(super) fn new(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) -> (Self, mpsc::Receiver<Incoming>) {
        let (outgoing, lines) = mpsc::channel(MAX_OUTGOING);
        let (told, incoming) = mpsc::channel(MAX_INCOMING);
        let waiting = Arc::<Mutex<Waiting>>::default();
        let over = CancellationToken::new();
        let reading =
            tokio::spawn(read(BufReader::new(output), Arc::clone(&waiting), told, over.clone().drop_guard()));
        let writing = tokio::spawn(write(input, lines));
        (Self { outgoing, waiting, next: AtomicU64::new(1), over, reading, writing }, incoming)
    }

    /// Waits until the process closes its output or sends a line that is too long.
    pub(super) async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Makes a call. Dropping the future withdraws the call.
    pub(super) async fn call(
        &self,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<Box<RawValue>, Failure> {
        let (mut call, answer) = self.open()?;
        self.send(Outgoing { jsonrpc: "2.0", id: Some(call.id), method, params }).await?;
        let answered = answer.await.map_err(|_| Failure::Gone);
        call.is_answered = true;
        answered?
    }

    /// Sends a notification.
    pub(super) async fn notify(&self, method: &str, params: &(impl Serialize + Sync)) -> Result<(), Failure> {
        self.send(Outgoing { jsonrpc: "2.0", id: None, method, params }).await
    }

    /// Answers a request of the process.
    pub(super) async fn reply(&self, id: u64, result: Result<Value, String>) -> Result<(), Failure> {
        let (error, result) = match &result {
            Ok(result) => (None, Some(result)),
            Err(message) => (Some(Complaint { code: THROWN, message }), None),
        };
        self.send(Reply { jsonrpc: "2.0", id, error, result }).await
    }

    /// Sends a notification if there is room in the queue; does not wait.
    pub(super) fn tell(&self, method: &str, params: &impl Serialize) {
        self.try_send(Outgoing { jsonrpc: "2.0", id: None, method, params });
    }

    fn open(&self) -> Result<(Call<'_>, oneshot::Receiver<Answered>), Failure> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        let mut waiting = lock(&self.waiting);
        if waiting.is_over {
            return Err(Failure::Gone);
        }
        waiting.calls.insert(id, answered);
        Ok((Call { wire: self, id, is_answered: false }, answer))
    }

    async fn send(&self, message: impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(&message).map_err(|error| Failure::Misfit(error.to_string()))?;
        line.push(b'\n');
        self.outgoing.send(line).await.map_err(|_| Failure::Gone)
    }

    /// Sends a message if there is room in the queue.
    fn try_send(&self, message: impl Serialize) {
        if let Ok(mut line) = serde_json::to_vec(&message) {
            line.push(b'\n');
            // If the queue is full, the process does not read, and its pings will fail.
            let _ = self.outgoing.try_send(line);
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.reading.abort();
        self.writing.abort();
        lock(&self.waiting).close();
    }
}

/// A pending call.
struct Call<'a> {
    wire: &'a Wire,
    id: u64,
    is_answered: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.is_answered && lock(&self.wire.waiting).calls.remove(&self.id).is_some() {
            let about = serde_json::json!({ "id": self.id });
            self.wire.tell("cancel", &about);
        }
    }
}

impl Waiting {
    fn close(&mut self) {
        self.is_over = true;
        self.calls.clear();
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn write(mut input: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if input.write_all(&line).await.is_err() {
            return;
        }
    }
}

async fn read(
    mut output: impl AsyncBufRead + Unpin,
    waiting: Arc<Mutex<Waiting>>,
    told: mpsc::Sender<Incoming>,
    _over: DropGuard,
) {
    loop {
        match line(&mut output).await {
            Ok(Some(line)) => take(&line, &waiting, &told).await,
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "cannot read from the plugin host");
                break;
            }
        }
    }
    lock(&waiting).close();
}

async fn take(line: &[u8], waiting: &Mutex<Waiting>, told: &mpsc::Sender<Incoming>) {
    match serde_json::from_slice::<Line>(line) {
        Ok(Line { id, method: Some(method), params, .. }) => {
            // The host may be shutting down.
            let _ = told.send(Incoming { id, method, params }).await;
        }
        Ok(Line { id: Some(id), result, error, .. }) => {
            if let Some(call) = lock(waiting).calls.remove(&id) {
                // The caller may have gone.
                let _ = call.send(error.map_or(Ok(result), |error| Err(error.into())));
            }
        }
        Ok(_) => tracing::warn!("the plugin host sent a message that is neither a call nor an answer"),
        Err(error) => tracing::warn!(%error, "the plugin host sent a line that is not a message"),
    }
}

/// The next line without its end; `None` at the end of the stream.
async fn line(output: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let available = output.fill_buf().await?;
        if available.is_empty() {
            return Ok(None);
        }
        let end = memchr::memchr(b'\n', available);
        let count = end.map_or(available.len(), |at| at + 1);
        line.extend_from_slice(available.get(..count).unwrap_or_default());
        output.consume(count);
        if end.is_some() {
            line.pop();
            return Ok(Some(line));
        }
        if line.len() > MAX_LINE {
            return Err(io::Error::other(format!("a line is longer than {MAX_LINE} bytes")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::io::{DuplexStream, duplex, split};

    /// Both ends of a connection.
    fn connected() -> (Wire, mpsc::Receiver<Incoming>, BufReader<DuplexStream>) {
        let (near, far) = duplex(1024);
        let (output, input) = split(near);
        let (wire, incoming) = Wire::new(input, output);
        (wire, incoming, BufReader::new(far))
    }

    async fn heard(far: &mut BufReader<DuplexStream>) -> serde_json::Value {
        serde_json::from_slice(&line(far).await.unwrap().unwrap()).unwrap()
    }

    async fn say(far: &mut BufReader<DuplexStream>, message: serde_json::Value) {
        far.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn a_call_gets_its_own_answer() {
        let (wire, _incoming, mut far) = connected();
        let (one, two) = (json!(1), json!(2));
        let peer = async {
            let (first, second) = (heard(&mut far).await, heard(&mut far).await);
            assert_eq!((&first["method"], &first["params"]), (&json!("hook"), &json!(1)));
            say(
                &mut far,
                json!({ "jsonrpc": "2.0", "id": second["id"], "error": { "code": -32000, "message": "no" } }),
            )
            .await;
            say(&mut far, json!({ "jsonrpc": "2.0", "id": first["id"], "result": "yes" })).await;
        };
        let (first, second, ()) = tokio::join!(wire.call("hook", &one), wire.call("hook", &two), peer);
        assert_eq!(first.unwrap().get(), "\"yes\"");
        assert_eq!(second.unwrap_err(), Failure::Thrown("no".to_owned()));
    }

    #[tokio::test]
    async fn a_dropped_call_is_withdrawn() {
        let (wire, _incoming, mut far) = connected();
        let id = {
            let params = json!({});
            let call = wire.call("tool", &params);
            tokio::pin!(call);
            tokio::select! {
                biased;
                _ = &mut call => unreachable!(),
                message = heard(&mut far) => message["id"].clone(),
            }
        };
        let cancel = heard(&mut far).await;
        assert_eq!((&cancel["method"], &cancel["params"]["id"]), (&json!("cancel"), &id));
        // A late answer is dropped.
        say(&mut far, json!({ "jsonrpc": "2.0", "id": id, "result": 1 })).await;
        assert!(lock(&wire.waiting).calls.is_empty());
    }

    #[tokio::test]
    async fn incoming_requests_arrive_in_order_and_can_be_answered() {
        let (wire, mut incoming, mut far) = connected();
        say(&mut far, json!({ "jsonrpc": "2.0", "method": "report", "params": { "message": "m" } })).await;
        far.write_all(b"this is no message\n").await.unwrap();
        say(&mut far, json!({ "jsonrpc": "2.0", "id": 7, "method": "tool.ask" })).await;
        assert_eq!(incoming.recv().await.unwrap().method, "report");
        assert_eq!(incoming.recv().await.unwrap().id, Some(7));
        wire.reply(7, Err("refused".to_owned())).await.unwrap();
        assert_eq!(heard(&mut far).await["error"]["message"], "refused");
    }

    #[tokio::test]
    async fn pending_and_later_calls_fail_when_the_process_ends() {
        let (wire, mut incoming, mut far) = connected();
        let params = json!({});
        let peer = async {
            heard(&mut far).await;
            drop(far);
        };
        let (answer, ()) = tokio::join!(wire.call("hook", &params), peer);
        assert_eq!(answer.unwrap_err(), Failure::Gone);
        assert!(incoming.recv().await.is_none());
        assert_eq!(wire.call("hook", &params).await.unwrap_err(), Failure::Gone);
    }

    #[tokio::test]
    async fn a_line_without_an_end_ends_the_conversation() {
        let (near, mut far) = duplex(1024 * 1024);
        let (output, input) = split(near);
        let (wire, mut incoming) = Wire::new(input, output);
        let flood = async {
            let chunk = vec![b'x'; 1024 * 1024];
            // The connection is closed before all of it is written.
            for _ in 0..40 {
                if far.write_all(&chunk).await.is_err() {
                    break;
                }
            }
        };
        let ended = async {
            assert!(incoming.recv().await.is_none());
            wire.ended().await;
        };
        tokio::select! {
            () = flood => panic!("the connection stays open"),
            () = ended => {}
        }
    }
}
