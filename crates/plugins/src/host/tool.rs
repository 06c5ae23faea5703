//! The tools that plugins bring along.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use protocol::{Extra, MessageId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::open::Running;
use super::wire::{self, Asked, Failure, Inbox, Incoming, Raw};
use super::{Host, Shared, lock, providers};

/// Things a tool may say before anybody has looked at the first.
const MAX_SAID: usize = 64;
/// Logins that are read at the same time.
const MAX_READERS: usize = 16;

/// What a model is told about a tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct About {
    /// What it is called by.
    pub id: String,
    /// When and how to use it.
    pub description: String,
    /// JSON Schema of its input.
    pub parameters: Value,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolCall {
    /// The tool.
    pub id: String,
    /// What it is called with.
    pub args: Extra,
    /// Where it is called.
    pub context: Context,
}

/// What a tool is told about where it is called.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Context {
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The message with the call.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The agent that calls.
    pub agent: String,
    /// The model's id of the call.
    #[serde(rename = "callID")]
    pub call_id: String,
    /// The session's directory.
    pub directory: String,
    /// The root of its repository.
    pub worktree: String,
}

/// What came of a call.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Outcome {
    /// For people.
    #[serde(default)]
    pub title: Option<String>,
    /// For the model.
    #[serde(default)]
    pub output: String,
    /// Facts for clients.
    #[serde(default)]
    pub metadata: Extra,
    /// Pictures and documents, for both.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
}

/// A picture or a document.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Attachment {
    /// What it is.
    pub mime: String,
    /// Where it is, or itself.
    pub url: String,
    /// What it is called.
    #[serde(default)]
    pub filename: Option<String>,
}

/// What a tool asks a person for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Wish {
    /// Which permission it needs.
    pub permission: String,
    /// What it needs it for.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// What a reply of `always` allows from then on.
    #[serde(default)]
    pub always: Vec<String>,
    /// For showing it well.
    #[serde(default)]
    pub metadata: Extra,
}

/// Where a tool's call was made, and what it may want there before it is done.
pub trait Desk: Send + Sync {
    /// Shows how far it got.
    fn progress(&self, title: Option<String>, metadata: Extra) -> BoxFuture<'_, ()>;

    /// Gets a permission, or the reason why not.
    fn ask(&self, wish: Wish) -> BoxFuture<'_, Result<(), String>>;
}

/// The calls that are being made, by the model's ids of them.
pub(super) type Calls = Mutex<HashMap<String, mpsc::Sender<Said>>>;

/// Something a tool says before it is done.
#[derive(Debug)]
pub(super) enum Said {
    Progress { title: Option<String>, metadata: Extra },
    Ask { asked: Asked, wish: Wish },
}

#[derive(Deserialize)]
struct Progress {
    call: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    metadata: Extra,
}

#[derive(Deserialize)]
struct Asking {
    call: String,
    #[serde(flatten)]
    wish: Wish,
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(default)]
    plugin: Option<usize>,
    #[serde(rename = "where")]
    place: String,
    message: String,
}

#[derive(Serialize)]
struct Made<'a> {
    plugin: usize,
    #[serde(flatten)]
    call: &'a ToolCall,
}

impl Host {
    /// The tools there are at this moment. Of two with one name, the later plugin's counts.
    pub fn tools(&self) -> Vec<About> {
        let Some(running) = self.0.shared.running() else { return Vec::new() };
        let by_name: BTreeMap<_, _> = running.tools().map(|(_, about)| (&about.id, about)).collect();
        by_name.into_values().cloned().collect()
    }

    /// Calls a tool. Dropping the future tells the tool to stop.
    pub async fn call(&self, call: ToolCall, desk: &dyn Desk) -> Result<Outcome, String> {
        let gone = || "the plugin host is not there; it may be back in a moment".to_owned();
        let running = self.0.shared.running().ok_or_else(gone)?;
        let owner = running.tools().filter(|(_, about)| about.id == call.id).last();
        let plugin =
            owner.map(|(plugin, _)| plugin).ok_or_else(|| format!("there is no tool {}", call.id))?;
        let (said, saying) = mpsc::channel(MAX_SAID);
        let _going = Going::new(&running.calls, &call.context.call_id, said);
        let limit = self.0.shared.settings.limits.tool;
        let made = Made { plugin, call: &call };
        let answer = timeout(limit, attended(&running, &made, saying, desk)).await;
        let answer = answer.map_err(|_| format!("it takes longer than {} s", limit.as_secs()))?;
        let answer = answer.map_err(|failure| match failure {
            Failure::Gone => "the plugin host has died meanwhile".to_owned(),
            failure => failure.to_string(),
        })?;
        serde_json::from_str(&answer).map_err(|error| format!("its result has the wrong shape: {error}"))
    }
}

/// Waits for the result, and meanwhile gives the tool what it asks for.
async fn attended(
    running: &Running,
    made: &Made<'_>,
    mut saying: mpsc::Receiver<Said>,
    desk: &dyn Desk,
) -> Result<String, Failure> {
    let answer = running.wire.call("tool", made);
    tokio::pin!(answer);
    loop {
        tokio::select! {
            biased;
            Some(said) = saying.recv() => match said {
                Said::Progress { title, metadata } => desk.progress(title, metadata).await,
                Said::Ask { asked, wish } => wire::answer(asked, desk.ask(wish).await.map(|()| true.into())),
            },
            answer = &mut answer => return answer.map(|answer| answer.get().to_owned()),
        }
    }
}

/// A call that is being made.
struct Going<'a> {
    calls: &'a Calls,
    id: &'a str,
}

impl<'a> Going<'a> {
    fn new(calls: &'a Calls, id: &'a str, said: mpsc::Sender<Said>) -> Self {
        lock(calls).insert(id.to_owned(), said);
        Self { calls, id }
    }
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        lock(self.calls).remove(self.id);
    }
}

/// Takes the requests and notifications of the process. Never waits for a request to be served: the same task reads the
/// responses.
pub(super) async fn listen(mut inbox: Inbox, calls: Arc<Calls>, shared: Arc<Shared>) {
    let readers = Arc::new(Semaphore::new(MAX_READERS));
    while let Some(message) = inbox.next().await {
        match message {
            Incoming::Asked(asked) if asked.method == "auth.get" => {
                match Arc::clone(&readers).try_acquire_owned() {
                    Ok(reader) => {
                        drop(tokio::spawn(providers::tell_login(Arc::clone(&shared), asked, reader)))
                    }
                    Err(_) => wire::answer(asked, Err("too many logins are being read".to_owned())),
                }
            }
            Incoming::Asked(asked) => ask(asked, &calls),
            Incoming::Told { method, params } => {
                if let Err(error) = take(&method, &params, &calls, &shared) {
                    tracing::debug!(method, error, "ignored a notification of the plugin host");
                }
            }
            Incoming::Malformed(error) => {
                tracing::warn!(%error, "the plugin host wrote a line that is no message");
            }
        }
    }
}

/// Passes a tool's request for permission on to its call.
fn ask(asked: Asked, calls: &Calls) {
    match serde_json::from_str(asked.params.get()) {
        Ok(Asking { call, wish }) => {
            if let Some((Said::Ask { asked, .. }, why)) = hand(calls, &call, Said::Ask { asked, wish }) {
                wire::answer(asked, Err(why.to_owned()));
            }
        }
        Err(error) => wire::answer(asked, Err(error.to_string())),
    }
}

fn take(method: &str, params: &Raw, calls: &Calls, shared: &Shared) -> Result<(), String> {
    let misfit = |error: serde_json::Error| error.to_string();
    match method {
        "tool.metadata" => {
            let Progress { call, title, metadata } = serde_json::from_str(params.get()).map_err(misfit)?;
            hand(calls, &call, Said::Progress { title, metadata })
                .map_or(Ok(()), |(_, why)| Err(why.to_owned()))
        }
        "report" => {
            let Complaint { plugin, place, message } = serde_json::from_str(params.get()).map_err(misfit)?;
            shared.report(plugin, &format!("failed in {place}"), &message);
            Ok(())
        }
        method => Err(format!("there is no method {method}")),
    }
}

/// Queues a message of a tool for its call. Returns a message that cannot be queued, with the reason.
fn hand(calls: &Calls, call: &str, said: Said) -> Option<(Said, &'static str)> {
    match lock(calls).get(call) {
        Some(call) => {
            let unsent = call.try_send(said).err()?.into_inner();
            Some((unsent, "the tool sends more messages than can be handled"))
        }
        None => Some((said, "the call is over")),
    }
}
