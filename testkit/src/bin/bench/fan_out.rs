//! Measures deltas per second, end to end, to many subscribers.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use memchr::memmem;
use testkit::{calls::Calls, process::Home};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

use crate::table::{Table, rate};

/// Number of deltas that the demo scenario streams.
const DELTAS: usize = 2_000;
const RUNS: usize = 3;
const WAIT: Duration = Duration::from_mins(2);

pub(crate) async fn measure(program: &Path, table: &mut Table) -> Result<()> {
    for subscribers in [1, 10, 100, 1_000] {
        let home = Home::new(program)?;
        let server = home.start().await?;
        let mut best: Option<Duration> = None;
        for _ in 0..RUNS {
            let took = stream(&server.url, subscribers).await?;
            best = Some(best.map_or(took, |best| best.min(took)));
        }
        let took = best.context("nothing was measured")?;
        let figure = format!("{} each, {} delivered", rate(DELTAS, took), rate(DELTAS * subscribers, took));
        table.row(
            format!("{DELTAS} deltas to {subscribers} subscribers"),
            figure,
            format!("best of {RUNS}, prompt sent to last delta everywhere, none lost"),
        );
        server.terminate().await?;
    }
    Ok(())
}

async fn stream(url: &str, subscribers: usize) -> Result<Duration> {
    let calls = Calls::new(url);
    let session = calls.session().await?;
    let address = url.strip_prefix("http://").context("an http address")?;
    let mut watchers = JoinSet::new();
    for _ in 0..subscribers {
        let stream = connect(address).await?;
        watchers.spawn(count(stream));
    }
    let begun = Instant::now();
    calls.prompt(&session, "long_stream", None).await?;
    // Measured from the prompt on, because fast deltas arrive together and the time between them means nothing.
    let mut last = begun;
    while let Some(seen) = tokio::time::timeout(WAIT, watchers.join_next()).await? {
        last = last.max(seen??);
    }
    Ok(last - begun)
}

/// A plain socket, so that parsing on this side is not measured.
pub(crate) async fn connect(address: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let request =
        format!("GET /global/event HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut seen = Vec::new();
    while memmem::find(&seen, b"server.connected").is_none() {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).await?;
        if read == 0 {
            bail!("the stream ended: {}", String::from_utf8_lossy(&seen));
        }
        seen.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
    Ok(stream)
}

/// The time at which the last delta arrived.
async fn count(mut stream: TcpStream) -> Result<Instant> {
    let delta = memmem::Finder::new(b"\"message.part.delta\"");
    let idle = memmem::Finder::new(b"\"session.idle\"");
    let (mut buffer, mut last, mut deltas) = (Vec::with_capacity(1 << 16), None, 0);
    loop {
        if stream.read_buf(&mut buffer).await? == 0 {
            bail!("the stream ended after {deltas} deltas");
        }
        let found = delta.find_iter(&buffer).count();
        if found > 0 {
            last = Some(Instant::now());
            deltas += found;
        }
        if idle.find(&buffer).is_some() {
            if deltas != DELTAS {
                bail!("{deltas} of {DELTAS} deltas arrived");
            }
            return last.context("no delta");
        }
        // Keep the tail: a needle may be split between two reads.
        let keep = buffer.len().saturating_sub(18);
        buffer.drain(..keep);
    }
}
