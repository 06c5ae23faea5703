//! Test servers: a local program, and an HTTP server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::config::Mcp;
use protocol::mcp::McpTarget;
use serde_json::{Value, json};
use supervision::mcp::{Servers, Settings};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::tests::processes::marked;

/// The source of the program.
const SCRIPT: &str = include_str!("peer.sh");

/// No process at all.
pub(super) const NO_PROCESSES: [u32; 0] = [];

/// The timeout of every wait. Only a hang reaches it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A temporary directory with the program and its files.
pub(in crate::tests) struct Peer {
    pub(super) place: TempDir,
}

impl Peer {
    pub(in crate::tests) fn new() -> Self {
        let place = TempDir::new().unwrap();
        std::fs::write(place.path().join("peer.sh"), SCRIPT).unwrap();
        Self { place }
    }

    /// The configuration of the program with a behaviour.
    pub(super) fn config(&self, how: &str) -> Mcp {
        self.target(how).into()
    }

    /// The same for a server that a client adds.
    pub(super) fn target(&self, how: &str) -> McpTarget {
        let script = self.place.path().join("peer.sh");
        let value = json!({
            "type": "local", "command": ["bash", script, how], "timeout": 10_000,
            "environment": { "TOKEN": "tok-secret" },
        });
        serde_json::from_value(value).unwrap()
    }

    /// A handle with one server, named `peer`.
    pub(in crate::tests) fn servers(&self, how: &str) -> Servers {
        servers(self.config(how), self.settings())
    }

    pub(super) fn settings(&self) -> Settings {
        Settings { directory: self.place.path().to_owned(), ..Settings::default() }
    }

    /// Returns the running processes of the program.
    pub(super) fn processes(&self) -> Vec<u32> {
        marked(self.place.path().to_str().unwrap())
    }

    pub(super) async fn until_there(&self, file: &str) {
        until(|| self.place.path().join(file).exists()).await;
    }
}

pub(in crate::tests) fn servers(config: Mcp, settings: Settings) -> Servers {
    Servers::new(&BTreeMap::from([("peer".to_owned(), config)]), settings)
}

/// Polls a condition that has no notification.
pub(super) async fn until(is_so: impl Fn() -> bool) {
    let polling = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, polling).await.expect("it never got there");
}

/// An HTTP server.
#[derive(Clone)]
pub(super) struct HttpServer {
    pub(super) address: String,
    /// The first line, the headers and the body of every request.
    pub(super) calls: Arc<Mutex<Vec<(String, String, Value)>>>,
}

impl HttpServer {
    /// Starts a server that requires this header, if one is given.
    pub(super) async fn new(wanted: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = Self { address, calls: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(serving.clone(), stream, wanted));
            }
        });
        server
    }

    pub(super) fn config(&self, more: &Value) -> Mcp {
        let mut value = json!({ "type": "remote", "url": self.address, "timeout": 10_000 });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    pub(in crate::tests) fn servers(&self, more: &Value) -> Servers {
        servers(self.config(more), Settings { directory: Path::new("/").to_owned(), ..Settings::default() })
    }

    pub(super) fn methods(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter_map(|(_, _, body)| Some(body["method"].as_str()?.to_owned())).collect()
    }
}

async fn answer(server: HttpServer, stream: TcpStream, wanted: Option<&'static str>) {
    let mut stream = BufReader::new(stream);
    let (mut first, mut headers, mut length) = (String::new(), String::new(), 0);
    stream.read_line(&mut first).await.unwrap();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line.trim().is_empty() {
            break;
        }
        let line = line.to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        headers.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    server.calls.lock().unwrap().push((first.clone(), headers.clone(), body.clone()));
    let answer = if wanted.is_some_and(|wanted| !headers.contains(wanted)) {
        "401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_owned()
    } else if !first.starts_with("POST") {
        "405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n".to_owned()
    } else {
        respond(&body)
    };
    let answer = answer.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

/// Returns the response to a message.
fn respond(body: &Value) -> String {
    let result = match body["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "site", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "add", "inputSchema": { "type": "object" } }] }),
        "tools/call" => {
            let sum = body["params"]["arguments"]["a"].as_i64().unwrap() + 1;
            let result = json!({
                "content": [{ "type": "text", "text": sum.to_string() }], "structuredContent": { "sum": sum },
            });
            // This answer comes as an event stream.
            let message = json!({ "jsonrpc": "2.0", "id": body["id"], "result": result });
            return format!("200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {message}\n\n");
        }
        _ => return "202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
    };
    let message = json!({ "jsonrpc": "2.0", "id": body["id"], "result": result }).to_string();
    format!(
        "200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s-1\r\ncontent-length: {}\r\n\r\n{message}",
        message.len()
    )
}
