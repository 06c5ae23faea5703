//! Measures the latency that Baton adds between a provider's chunk and the frame that a client reads.
//!
//! A provider in this process writes the time into every chunk. The same chunks take two ways: through the server,
//! as deltas on its event stream, and through a relay that only copies bytes. Both are separate processes, so the
//! relay shows the cost of sockets and scheduling alone.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use memchr::memmem;
use serde_json::{Value, json};
use testkit::{calls::Calls, process::Home};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    fan_out::connect,
    relay::Relay,
    table::{Table, millis, percentile},
};

/// Number of chunks in a stream, and their interval: the pace of a fast model.
const CHUNKS: usize = 200;
const PACE: Duration = Duration::from_millis(25);
const WAIT: Duration = Duration::from_mins(2);

pub(crate) async fn measure(program: &Path, table: &mut Table) -> Result<()> {
    let clock = Instant::now();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let provider = listener.local_addr()?;
    let serving = tokio::spawn(serve(listener, clock));
    let home = Home::new(program)?;
    std::fs::write(home.project().join("opencode.json"), configuration(provider).to_string())?;
    let server = home.start().await?;
    let relay = Relay::start(provider).await?;
    for streams in [1, 200] {
        let mut plain = relayed(relay.address, streams, clock).await?;
        let mut served = served(&server.url, streams, clock).await?;
        let plain = [percentile(&mut plain, 0.5), percentile(&mut plain, 0.99)];
        let served = [percentile(&mut served, 0.5), percentile(&mut served, 0.99)];
        let times = |[low, high]: [Duration; 2]| format!("{} / {}", millis(low), millis(high));
        let ratio = |at: usize| match (served.get(at), plain.get(at)) {
            (Some(served), Some(plain)) => served.as_secs_f64() / plain.as_secs_f64(),
            _ => f64::NAN,
        };
        table.row(
            format!("provider's chunk to frame, {streams} streams"),
            format!("{}, {:.1} / {:.1} times a relay", times(served), ratio(0), ratio(1)),
            format!(
                "p50 / p99 of {CHUNKS} chunks per stream, one every {} ms; the relay alone {}",
                PACE.as_millis(),
                times(plain)
            ),
        );
    }
    server.terminate().await?;
    serving.abort();
    Ok(())
}

fn configuration(provider: SocketAddr) -> Value {
    json!({
        "provider": { "bench": {
            "npm": "@ai-sdk/openai-compatible",
            "options": { "baseURL": format!("http://{provider}/v1") },
            "models": { "clock": { "limit": { "context": 1_000_000, "output": 100_000 } } },
        } },
    })
}

/// A provider that answers every call with the time of each chunk.
async fn serve(listener: TcpListener, clock: Instant) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        // A caller that disconnects early reports its own error.
        tokio::spawn(answer(stream, clock));
    }
}

async fn answer(mut stream: TcpStream, clock: Instant) -> Result<()> {
    stream.set_nodelay(true)?;
    read_call(&mut stream).await?;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..CHUNKS {
        pace.tick().await;
        let chunk = chunk(&json!({ "content": format!("@{}@", clock.elapsed().as_nanos()) }), &Value::Null);
        stream.write_all(chunk.as_bytes()).await?;
    }
    let end = chunk(&json!({}), &"stop".into()) + "data: [DONE]\n\n";
    stream.write_all(end.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

fn chunk(delta: &Value, finish: &Value) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    format!("data: {}\n\n", json!({ "id": "1", "object": "chat.completion.chunk", "choices": [choice] }))
}

/// Reads a call to its end, so that the caller's write does not fail.
async fn read_call(stream: &mut TcpStream) -> Result<()> {
    let mut seen = Vec::new();
    loop {
        if stream.read_buf(&mut seen).await? == 0 {
            bail!("the call ended early");
        }
        let Some(head) = memmem::find(&seen, b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(seen.get(..head).unwrap_or_default()).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap_or("0");
        if seen.len() >= head + 4 + length.trim().parse::<usize>()? {
            return Ok(());
        }
    }
}

/// The ages of the same chunks through the relay.
async fn relayed(relay: SocketAddr, streams: usize, clock: Instant) -> Result<Vec<Duration>> {
    let mut readers = JoinSet::new();
    for _ in 0..streams {
        let mut stream = TcpStream::connect(relay).await?;
        let call = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
        stream.write_all(call.as_bytes()).await?;
        readers.spawn(read(stream, "\"content\":\"", CHUNKS, clock));
    }
    let mut all = Vec::new();
    while let Some(read) = timeout(WAIT, readers.join_next()).await? {
        all.extend(read??);
    }
    Ok(all)
}

/// The ages of the chunks for one client that follows all sessions.
async fn served(url: &str, streams: usize, clock: Instant) -> Result<Vec<Duration>> {
    let address = url.strip_prefix("http://").context("an http address")?;
    let events = connect(address).await?;
    let reader = tokio::spawn(read(events, "\"delta\":\"", CHUNKS * streams, clock));
    let calls = Calls::new(url);
    let prompt = json!({
        "model": { "providerID": "bench", "modelID": "clock" },
        "parts": [{ "type": "text", "text": "what time is it?" }],
    });
    for _ in 0..streams {
        // A session with a title, so that the model is not asked for one.
        let session = calls.post("/session", &json!({ "title": "bench" })).await?;
        let id = session.get("id").and_then(Value::as_str).context("a session without an id")?;
        calls.post(&format!("/session/{id}/prompt_async"), &prompt).await?;
    }
    timeout(WAIT, reader).await??
}

/// Reads until `count` times have arrived, each right after `mark`; returns the age of each.
async fn read(mut stream: TcpStream, mark: &str, count: usize, clock: Instant) -> Result<Vec<Duration>> {
    let mark = memmem::Finder::new(mark.as_bytes());
    let mut buffer = Vec::with_capacity(1 << 16);
    let mut ages = Vec::with_capacity(count);
    while ages.len() < count {
        if stream.read_buf(&mut buffer).await? == 0 {
            bail!("the stream ended after {} of {count} chunks", ages.len());
        }
        let now = clock.elapsed();
        let mut done = 0;
        for at in mark.find_iter(&buffer) {
            let times = buffer.get(at + mark.needle().len()..).unwrap_or_default();
            // An incomplete one is read when the rest has arrived.
            let Some(end) = memchr::memchr(b'"', times) else { break };
            let text = std::str::from_utf8(times.get(..end).unwrap_or_default())?;
            for time in text.split('@').filter(|time| !time.is_empty()) {
                ages.push(now.saturating_sub(Duration::from_nanos(time.parse()?)));
            }
            done = at + mark.needle().len() + end;
        }
        // The rest may contain the beginning of a mark, or a mark with an incomplete time.
        let kept = mark.find(buffer.get(done..).unwrap_or_default());
        let kept = kept.map_or(buffer.len().saturating_sub(mark.needle().len()).max(done), |at| done + at);
        buffer.drain(..kept);
    }
    Ok(ages)
}
