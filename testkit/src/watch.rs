//! Readers of a server's event stream.

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use net::sse::{Decoder, Frame};
use protocol::Event;

/// A frame of a stream with its cursor.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The `id:` of a durable frame; `None` for a live one.
    pub cursor: Option<u64>,
    pub event: Event,
}

/// Reads `/global/event` or `/event` frame by frame.
pub struct Watch {
    body: futures::stream::BoxStream<'static, reqwest::Result<Vec<u8>>>,
    decoder: Decoder,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Watch")
    }
}

impl Watch {
    /// Connects, after the cursor if there is one.
    pub async fn connect(url: &str, path: &str, after: Option<u64>) -> Result<Self> {
        let mut request = crate::calls::http().get(format!("{url}{path}"));
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after.to_string());
        }
        let answer = request.send().await?;
        if !answer.status().is_success() {
            bail!("{path} answered {}", answer.status());
        }
        let body = answer.bytes_stream().map(|chunk| chunk.map(|bytes| bytes.to_vec())).boxed();
        Ok(Self { body, decoder: Decoder::default() })
    }

    /// The next frame; `None` when the stream has ended, cleanly or not.
    pub async fn next(&mut self) -> Result<Option<Seen>> {
        loop {
            if let Some(frame) = self.decoder.frame() {
                return parse(&frame).map(Some);
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.decoder.push(&bytes).context("the stream is not SSE")?,
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }
}

fn parse(frame: &Frame) -> Result<Seen> {
    let value: serde_json::Value = serde_json::from_str(&frame.data)?;
    let event = value.get("payload").cloned().unwrap_or(value);
    let cursor = frame.id.as_deref().map(str::parse).transpose()?;
    Ok(Seen { cursor, event: serde_json::from_value(event)? })
}
