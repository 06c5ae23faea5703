//! A connection over a pair of byte streams, such as the pipes of a process.

use std::io;

use futures::stream::{self, Stream};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tracing::warn;

use crate::{Inbox, Line, Malformed, Message, Options, Payload, Peer};

/// Encoded messages that may wait for the pipe; the peer has a queue of its own.
const WAITING: usize = 16;

/// Starts a connection that writes to `input` and reads from `output`. A line of more than `max_line` bytes ends it.
pub fn start<P: Payload>(
    options: Options,
    input: impl AsyncWrite + Send + Unpin + 'static,
    output: impl AsyncRead + Send + Unpin + 'static,
    max_line: usize,
) -> (Peer<P>, Inbox<P>) {
    let (transport, lines) = mpsc::channel(WAITING);
    let arriving = Box::pin(messages(BufReader::new(output), max_line));
    let (peer, mut inbox) = Peer::start(options, arriving, transport);
    inbox.attach(tokio::spawn(write(input, lines)));
    (peer, inbox)
}

async fn write<P: Payload>(mut input: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Line<P>>) {
    while let Some(line) = lines.recv().await {
        let Ok(mut line) = serde_json::to_vec(&line) else { continue };
        line.push(b'\n');
        if input.write_all(&line).await.is_err() {
            return;
        }
    }
}

fn messages<P: Payload>(
    output: impl AsyncBufRead + Send + Unpin,
    max_line: usize,
) -> impl Stream<Item = Result<Message<P>, Malformed>> + Send {
    stream::unfold(output, move |mut output| async move {
        match line(&mut output, max_line).await {
            Ok(line) => line.map(|line| (Message::parse(&line), output)),
            Err(error) => {
                warn!(%error, "cannot read from the remote side any further");
                None
            }
        }
    })
}

/// Reads the next line without its ending; none at the end of the stream.
async fn line(output: &mut (impl AsyncBufRead + Unpin), max_line: usize) -> io::Result<Option<Vec<u8>>> {
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
        if line.len() > max_line {
            return Err(io::Error::other(format!("a line is longer than {max_line} bytes")));
        }
    }
}
