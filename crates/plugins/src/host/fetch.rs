//! Calls to providers through a plugin's own function, which may change or redirect them.
//!
//! The process passes a call to the plugin's function. The answer's body comes back in pieces, each on request, so
//! that no more is buffered than is read. Dropping the call or its answer aborts it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Host;
use super::open::Running;
use super::wire::Failure;

/// A plugin's function for calls. Cheap to clone; dropping the last clone releases the function in the process.
#[derive(Clone)]
pub struct Fetch(Arc<Source>);

struct Source {
    host: Host,
    plugin: usize,
    /// The provider as it was shown to the plugin, needed to load the function again in a new process.
    provider: Value,
    held: tokio::sync::Mutex<LoadedFetch>,
}

/// The plugin's function in one process.
pub(super) struct LoadedFetch {
    running: Arc<Running>,
    number: u64,
}

/// The answer to a call.
#[derive(Debug)]
pub struct FetchResponse {
    pub status: u16,
    /// Header names are lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Body,
}

/// The body of an answer. Dropping it aborts the call.
pub struct Body {
    running: Arc<Running>,
    answer: u64,
    is_over: bool,
}

/// A failed call to a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// There is no process, or it exited during the call.
    #[error("the plugin host is not running; it may be back in a moment")]
    Gone,
    /// The provider could not be reached, or the connection was lost.
    #[error("{0}")]
    Network(String),
    /// The plugin refused the call or failed.
    #[error("{0}")]
    Refused(String),
}

#[derive(Serialize)]
struct Call<'a> {
    fetch: u64,
    url: &'a str,
    headers: &'a BTreeMap<String, String>,
    body: &'a str,
}

#[derive(Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum FetchReply {
    Answered { status: u16, headers: BTreeMap<String, String>, answer: u64 },
    Failed { failed: String, is_network: bool },
}

impl Fetch {
    pub(super) fn new(host: Host, plugin: usize, provider: Value, held: LoadedFetch) -> Self {
        Self(Arc::new(Source { host, plugin, provider, held: tokio::sync::Mutex::new(held) }))
    }

    /// Makes a call and waits for the headers of its answer. The caller sets the timeout.
    pub async fn call(
        &self,
        url: &str,
        headers: &BTreeMap<String, String>,
        body: &str,
    ) -> Result<FetchResponse, FetchError> {
        let (running, fetch) = self.0.current().await?;
        let told = running.wire.call("fetch", &Call { fetch, url, headers, body }).await?;
        let told = serde_json::from_str(told.get());
        match told.map_err(|error| FetchError::Refused(format!("its answer has the wrong shape: {error}")))? {
            FetchReply::Answered { status, headers, answer } => {
                Ok(FetchResponse { status, headers, body: Body { running, answer, is_over: false } })
            }
            FetchReply::Failed { failed, is_network: true } => Err(FetchError::Network(failed)),
            FetchReply::Failed { failed, .. } => Err(FetchError::Refused(failed)),
        }
    }
}

impl Source {
    /// The running process, and the function's number in it.
    async fn current(&self) -> Result<(Arc<Running>, u64), FetchError> {
        let running = self.host.0.shared.running().ok_or(FetchError::Gone)?;
        let mut held = self.held.lock().await;
        if held.running.life != running.life {
            *held = self.host.load_again(&running, self.plugin, &self.provider).await.ok_or_else(|| {
                FetchError::Refused("the plugin no longer provides a function for calls".to_owned())
            })?;
        }
        Ok((running, held.number))
    }
}

impl Body {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, FetchError>> {
        if self.is_over {
            return None;
        }
        let piece = self.read().await.transpose();
        self.is_over = !matches!(piece, Some(Ok(_)));
        piece
    }

    async fn read(&self) -> Result<Option<Vec<u8>>, FetchError> {
        let piece = self.running.wire.call("read", &json!({ "answer": self.answer })).await?;
        let misfit =
            |why: String| FetchError::Refused(format!("a piece of its answer cannot be read: {why}"));
        let piece: Option<String> =
            serde_json::from_str(piece.get()).map_err(|error| misfit(error.to_string()))?;
        piece.map(|piece| STANDARD.decode(piece).map_err(|error| misfit(error.to_string()))).transpose()
    }
}

impl From<Failure> for FetchError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Gone => Self::Gone,
            Failure::Thrown(why) => Self::Network(why),
            Failure::Misfit(why) => Self::Refused(why),
        }
    }
}

impl LoadedFetch {
    pub(super) fn new(running: Arc<Running>, number: u64) -> Self {
        Self { running, number }
    }
}

impl Drop for LoadedFetch {
    fn drop(&mut self) {
        self.running.wire.tell("release", &json!({ "fetch": self.number }));
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if !self.is_over {
            self.running.wire.tell("close", &json!({ "answer": self.answer }));
        }
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Fetch").field("plugin", &self.0.plugin).finish_non_exhaustive()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Body").field("answer", &self.answer).finish_non_exhaustive()
    }
}
