//! Tools that plugins provide.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use protocol::{Extra, MessageId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::open::Running;
use super::wire::{Failure, Incoming, Wire};
use super::{Host, Shared, lock, providers};

/// Limit of progress messages and requests of a tool that are not processed yet.
const MAX_SAID: usize = 64;
/// Limit of logins that are read at the same time.
const MAX_READERS: usize = 16;

/// The description of a tool for the model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct About {
    /// The tool's name.
    pub id: String,
    /// Tells the model when and how to use the tool.
    pub description: String,
    /// JSON Schema of its input.
    pub parameters: Value,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolCall {
    /// The tool's name.
    pub id: String,
    pub args: Extra,
    pub context: Context,
}

/// The context that a tool receives with a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Context {
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The message with the call.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The agent that makes the call.
    pub agent: String,
    /// The model's id of the call.
    #[serde(rename = "callID")]
    pub call_id: String,
    /// The session's directory.
    pub directory: String,
    /// The root of its repository.
    pub worktree: String,
}

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Outcome {
    /// Shown to users.
    #[serde(default)]
    pub title: Option<String>,
    /// Shown to the model.
    #[serde(default)]
    pub output: String,
    /// Data for clients.
    #[serde(default)]
    pub metadata: Extra,
    /// Images and documents, for both.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
}

/// An image or a document.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Attachment {
    pub mime: String,
    /// Its address, or its content as a `data:` URL.
    pub url: String,
    #[serde(default)]
    pub filename: Option<String>,
}

/// A permission that a tool asks for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Wish {
    pub permission: String,
    /// The targets, such as paths or commands.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// Patterns that a reply of `always` allows from then on.
    #[serde(default)]
    pub always: Vec<String>,
    /// Details for clients that show the request.
    #[serde(default)]
    pub metadata: Extra,
}

/// The surroundings of a tool call, through which the tool reports progress and asks for permissions.
pub trait Desk: Send + Sync {
    /// Shows the tool's progress.
    fn progress(&self, title: Option<String>, metadata: Extra) -> BoxFuture<'_, ()>;

    /// Asks for a permission. Returns the reason if it is refused.
    fn ask(&self, wish: Wish) -> BoxFuture<'_, Result<(), String>>;
}

/// Running calls by the model's ids.
pub(super) type Calls = Mutex<HashMap<String, mpsc::Sender<Said>>>;

/// A message of a tool during its call.
#[derive(Debug)]
pub(super) enum Said {
    Progress { title: Option<String>, metadata: Extra },
    Ask { id: u64, wish: Wish },
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
    /// The currently loaded tools. If two have the same name, the later plugin's is used.
    pub fn tools(&self) -> Vec<About> {
        let Some(running) = self.0.shared.running() else { return Vec::new() };
        let by_name: BTreeMap<_, _> = running.tools().map(|(_, about)| (&about.id, about)).collect();
        by_name.into_values().cloned().collect()
    }

    /// Calls a tool. Dropping the future aborts the call.
    pub async fn call(&self, call: ToolCall, desk: &dyn Desk) -> Result<Outcome, String> {
        let gone = || "the plugin host is not running; it may be back in a moment".to_owned();
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
            Failure::Gone => "the plugin host exited during the call".to_owned(),
            failure => failure.to_string(),
        })?;
        serde_json::from_str(&answer).map_err(|error| format!("its result has the wrong shape: {error}"))
    }
}

/// Waits for the result, and handles the tool's progress and requests in the meantime.
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
                Said::Ask { id, wish } => running.wire.reply(id, desk.ask(wish).await.map(|()| true.into())).await?,
            },
            answer = &mut answer => return answer.map(|answer| answer.get().to_owned()),
        }
    }
}

/// A running call.
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

/// Handles messages of the process. Never waits for another task, because it also reads the answers.
pub(super) async fn listen(
    mut incoming: mpsc::Receiver<Incoming>,
    wire: Arc<Wire>,
    calls: Arc<Calls>,
    shared: Arc<Shared>,
) {
    let readers = Arc::new(Semaphore::new(MAX_READERS));
    while let Some(message) = incoming.recv().await {
        let asked = message.id;
        if let ("auth.get", Some(id)) = (message.method.as_str(), asked)
            && let Ok(reader) = Arc::clone(&readers).try_acquire_owned()
        {
            tokio::spawn(providers::tell_login(Arc::clone(&wire), Arc::clone(&shared), id, message, reader));
            continue;
        }
        if let Err(why) = take(&message, &calls, &shared)
            && let Some(id) = asked
        {
            let wire = Arc::clone(&wire);
            tokio::spawn(async move { wire.reply(id, Err(why)).await });
        }
    }
}

fn take(message: &Incoming, calls: &Calls, shared: &Shared) -> Result<(), String> {
    let misfit = |error: serde_json::Error| error.to_string();
    let params = message.params.get();
    match (message.method.as_str(), message.id) {
        ("tool.metadata", _) => {
            let Progress { call, title, metadata } = serde_json::from_str(params).map_err(misfit)?;
            hand(calls, &call, Said::Progress { title, metadata })
        }
        ("tool.ask", Some(id)) => {
            let Asking { call, wish } = serde_json::from_str(params).map_err(misfit)?;
            hand(calls, &call, Said::Ask { id, wish })
        }
        ("auth.get", _) => Err("too many logins are being read".to_owned()),
        ("report", _) => {
            let Complaint { plugin, place, message } = serde_json::from_str(params).map_err(misfit)?;
            shared.report(plugin, &format!("failed in {place}"), &message);
            Ok(())
        }
        (method, _) => Err(format!("there is no method {method}")),
    }
}

fn hand(calls: &Calls, call: &str, said: Said) -> Result<(), String> {
    match lock(calls).get(call) {
        Some(call) if call.try_send(said).is_ok() => Ok(()),
        Some(_) => Err("the tool sends messages faster than they can be processed".to_owned()),
        None => Err("the call is over".to_owned()),
    }
}
