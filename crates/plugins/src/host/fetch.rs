//! Calls of providers that a plugin makes in its own way, because it changes them or knows where they go.
//!
//! The call goes to the process, which hands it to the plugin's function; its answer comes back piece by piece, each
//! when it is asked for, so that nobody gets more than is read. Dropping the call, or its answer, stops it.

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

/// How a plugin makes calls. Cheap to clone; when the last clone is gone, the plugin's function is.
#[derive(Clone)]
pub struct Fetch(Arc<Source>);

struct Source {
    host: Host,
    plugin: usize,
    /// The provider as the plugin was shown it, to be shown again when the process is another one.
    provider: Value,
    held: tokio::sync::Mutex<Held>,
}

/// The plugin's function, in one process.
pub(super) struct Held {
    running: Arc<Running>,
    number: u64,
}

/// The answer to a call.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// What is to be read.
    pub body: Body,
}

/// The body of an answer. Dropping it stops the call.
pub struct Body {
    running: Arc<Running>,
    answer: u64,
    is_over: bool,
}

/// Why a call was not made, or not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmade {
    /// There is no process, or it has died meanwhile.
    #[error("the plugin host is not there; it may be back in a moment")]
    Gone,
    /// Nobody could be reached, or the connection was lost.
    #[error("{0}")]
    Network(String),
    /// The plugin does not want to, or cannot.
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
enum Told {
    Answered { status: u16, headers: BTreeMap<String, String>, answer: u64 },
    Failed { failed: String, is_network: bool },
}

impl Fetch {
    pub(super) fn new(host: Host, plugin: usize, provider: Value, held: Held) -> Self {
        Self(Arc::new(Source { host, plugin, provider, held: tokio::sync::Mutex::new(held) }))
    }

    /// Makes a call, up to the headers of its answer. How long that may take is for the caller to say.
    pub async fn call(
        &self,
        url: &str,
        headers: &BTreeMap<String, String>,
        body: &str,
    ) -> Result<Answer, Unmade> {
        let (running, fetch) = self.0.current().await?;
        let told = running.wire.call("fetch", &Call { fetch, url, headers, body }).await?;
        let told = serde_json::from_str(told.get());
        match told.map_err(|error| Unmade::Refused(format!("its answer has the wrong shape: {error}")))? {
            Told::Answered { status, headers, answer } => {
                Ok(Answer { status, headers, body: Body { running, answer, is_over: false } })
            }
            Told::Failed { failed, is_network: true } => Err(Unmade::Network(failed)),
            Told::Failed { failed, .. } => Err(Unmade::Refused(failed)),
        }
    }
}

impl Source {
    /// The process there is now, and the function's number in it.
    async fn current(&self) -> Result<(Arc<Running>, u64), Unmade> {
        let running = self.host.0.shared.running().ok_or(Unmade::Gone)?;
        let mut held = self.held.lock().await;
        if held.running.life != running.life {
            *held = self.host.load_again(&running, self.plugin, &self.provider).await.ok_or_else(|| {
                Unmade::Refused("the plugin no longer says how its login is used".to_owned())
            })?;
        }
        Ok((running, held.number))
    }
}

impl Body {
    /// The next piece; nothing at the end.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, Unmade>> {
        if self.is_over {
            return None;
        }
        let piece = self.read().await.transpose();
        self.is_over = !matches!(piece, Some(Ok(_)));
        piece
    }

    async fn read(&self) -> Result<Option<Vec<u8>>, Unmade> {
        let piece = self.running.wire.call("read", &json!({ "answer": self.answer })).await?;
        let misfit = |why: String| Unmade::Refused(format!("a piece of its answer cannot be read: {why}"));
        let piece: Option<String> =
            serde_json::from_str(piece.get()).map_err(|error| misfit(error.to_string()))?;
        piece.map(|piece| STANDARD.decode(piece).map_err(|error| misfit(error.to_string()))).transpose()
    }
}

impl From<Failure> for Unmade {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Gone => Self::Gone,
            Failure::Thrown(why) => Self::Network(why),
            Failure::Misfit(why) => Self::Refused(why),
        }
    }
}

impl Held {
    pub(super) fn new(running: Arc<Running>, number: u64) -> Self {
        Self { running, number }
    }
}

impl Drop for Held {
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
