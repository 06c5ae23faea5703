//! Tools that plugins provide.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use engine::ports::{ToolCall, ToolCaller, ToolInfo, ToolOutput, ToolPermission, Tools};
use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use protocol::part::FilePart;
use protocol::{Extra, MessageId, SessionId};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::open::Running;
use super::wire::{self, Asked, Failure, Inbox, Incoming, Raw};
use super::{Host, Shared, providers};

/// Limit of progress messages and requests of a tool that are not processed yet.
const MAX_SAID: usize = 64;
/// Limit of logins that are read at the same time.
const MAX_READERS: usize = 16;

/// A call, as the process expects it.
#[derive(Serialize)]
struct ToolRequest<'a> {
    plugin: usize,
    id: &'a str,
    args: &'a Extra,
    context: Context<'a>,
}

#[derive(Serialize)]
struct Context<'a> {
    #[serde(rename = "sessionID")]
    session_id: &'a SessionId,
    #[serde(rename = "messageID")]
    message_id: &'a MessageId,
    agent: &'a str,
    #[serde(rename = "callID")]
    call_id: &'a str,
    directory: Cow<'a, str>,
    worktree: Cow<'a, str>,
}

/// A result, as the process returns it.
#[derive(Deserialize)]
struct Outcome {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    output: String,
    #[serde(default)]
    metadata: Extra,
    #[serde(default)]
    attachments: Vec<Attachment>,
}

#[derive(Deserialize)]
struct Attachment {
    mime: String,
    url: String,
    #[serde(default)]
    filename: Option<String>,
}

impl From<Outcome> for ToolOutput {
    fn from(Outcome { title, output, metadata, attachments }: Outcome) -> Self {
        let file = |Attachment { mime, url, filename }: Attachment| FilePart {
            mime,
            filename,
            url,
            source: None,
            extra: Extra::new(),
        };
        Self { title, text: output, metadata, attachments: attachments.into_iter().map(file).collect() }
    }
}

/// Running calls by the model's ids.
pub(super) type Calls = Mutex<HashMap<String, mpsc::Sender<ToolMessage>>>;

/// A message of a tool during its call.
#[derive(Debug)]
pub(super) enum ToolMessage {
    Progress { title: Option<String>, metadata: Extra },
    Ask { asked: Asked, needed: ToolPermission },
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
    needed: ToolPermission,
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(default)]
    plugin: Option<usize>,
    #[serde(rename = "where")]
    place: String,
    message: String,
}

/// A line that a plugin wrote to its console.
#[derive(Deserialize)]
struct Line {
    level: String,
    message: String,
}

impl Tools for Host {
    /// Of two tools with one name, lists the later plugin's. Lists none while the process is down.
    fn list(&self) -> Vec<ToolInfo> {
        let Some(running) = self.0.shared.running() else { return Vec::new() };
        let by_name: BTreeMap<_, _> = running.tools().map(|(_, about)| (&about.id, about)).collect();
        by_name.into_values().cloned().collect()
    }

    fn call<'a>(
        &'a self,
        call: ToolCall,
        caller: &'a dyn ToolCaller,
    ) -> BoxFuture<'a, Result<ToolOutput, String>> {
        async move { self.call_tool(&call, caller).await.map(ToolOutput::from) }.boxed()
    }
}

impl Host {
    async fn call_tool(&self, call: &ToolCall, caller: &dyn ToolCaller) -> Result<Outcome, String> {
        let settings = &self.0.shared.settings;
        let gone = || "the plugin host is not running; it may be back in a moment".to_owned();
        let running = self.0.shared.running().ok_or_else(gone)?;
        let owner = running.tools().filter(|(_, about)| about.id == call.id).last();
        let plugin =
            owner.map(|(plugin, _)| plugin).ok_or_else(|| format!("there is no tool {}", call.id))?;
        let (said, saying) = mpsc::channel(MAX_SAID);
        let _going = RunningCall::new(&running.calls, &call.call, said);
        let context = Context {
            session_id: &call.session,
            message_id: &call.message,
            agent: &call.agent,
            call_id: &call.call,
            directory: settings.directory.to_string_lossy(),
            worktree: settings.worktree.to_string_lossy(),
        };
        let made = ToolRequest { plugin, id: &call.id, args: &call.args, context };
        let limit = settings.limits.tool;
        let answer = timeout(limit, attended(&running, &made, saying, caller)).await;
        let answer = answer.map_err(|_| format!("it takes longer than {} s", limit.as_secs()))?;
        let answer = answer.map_err(|failure| match failure {
            Failure::Gone => "the plugin host exited during the call".to_owned(),
            failure => failure.to_string(),
        })?;
        serde_json::from_str(answer.get()).map_err(|error| format!("its result has the wrong shape: {error}"))
    }
}

/// Waits for the result, and handles the tool's progress and requests in the meantime.
async fn attended(
    running: &Running,
    made: &ToolRequest<'_>,
    mut saying: mpsc::Receiver<ToolMessage>,
    caller: &dyn ToolCaller,
) -> Result<Raw, Failure> {
    let answer = running.wire.call("tool", made);
    tokio::pin!(answer);
    loop {
        tokio::select! {
            biased;
            Some(said) = saying.recv() => match said {
                ToolMessage::Progress { title, metadata } => caller.progress(title, metadata).await,
                ToolMessage::Ask { asked, needed } => {
                    wire::answer(asked, caller.permission(needed).await.map(|()| true.into()));
                }
            },
            answer = &mut answer => return answer,
        }
    }
}

/// A running call.
struct RunningCall<'a> {
    calls: &'a Calls,
    id: &'a str,
}

impl<'a> RunningCall<'a> {
    fn new(calls: &'a Calls, id: &'a str, said: mpsc::Sender<ToolMessage>) -> Self {
        calls.lock().insert(id.to_owned(), said);
        Self { calls, id }
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.calls.lock().remove(self.id);
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
                        tokio::spawn(providers::tell_login(Arc::clone(&shared), asked, reader));
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
                tracing::warn!(%error, "the plugin host wrote a line that is not a message");
            }
        }
    }
}

/// Passes a tool's request for permission on to its call.
fn ask(asked: Asked, calls: &Calls) {
    match serde_json::from_str(asked.params.get()) {
        Ok(Asking { call, needed }) => {
            if let Some((ToolMessage::Ask { asked, .. }, why)) =
                hand(calls, &call, ToolMessage::Ask { asked, needed })
            {
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
            hand(calls, &call, ToolMessage::Progress { title, metadata })
                .map_or(Ok(()), |(_, why)| Err(why.to_owned()))
        }
        "report" => {
            let Complaint { plugin, place, message } = serde_json::from_str(params.get()).map_err(misfit)?;
            shared.report(plugin, &format!("failed in {place}"), &message);
            Ok(())
        }
        "log" => {
            let Line { level, message } = serde_json::from_str(params.get()).map_err(misfit)?;
            let directory = shared.settings.directory.display();
            tracing::debug!(%directory, level, message, "a plugin wrote to its console");
            Ok(())
        }
        method => Err(format!("there is no method {method}")),
    }
}

/// Queues a message of a tool for its call. Returns a message that cannot be queued, with the reason.
fn hand(calls: &Calls, call: &str, said: ToolMessage) -> Option<(ToolMessage, &'static str)> {
    match calls.lock().get(call) {
        Some(call) => {
            let unsent = call.try_send(said).err()?.into_inner();
            Some((unsent, "the tool sends more messages than can be handled"))
        }
        None => Some((said, "the call has ended")),
    }
}
