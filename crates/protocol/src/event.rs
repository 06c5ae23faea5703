//! Events: what the server tells its clients.
//!
//! An event is *durable* (stored, replayable, framed with an `id:`) or *live* (deltas and connection
//! chatter, which a snapshot makes up for). OpenCode stores fewer types; making status and requests
//! durable is what lets a client that was away learn exactly what it missed.

mod properties;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use self::properties::*;
use crate::{
    EventId, Extra, Rest, SessionId,
    project::Project,
    request::{PermissionRequest, QuestionRequest},
};

/// An event as `{id, type, properties}`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// Its type and properties.
    #[serde(flatten)]
    pub body: EventBody,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl Event {
    /// An event of this version.
    pub fn new(id: EventId, body: EventBody) -> Self {
        Self { id, body, extra: Rest::NONE }
    }
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($wire:literal, $properties:ty, $kind:ident);)*) => {
        /// Every event type this version knows.
        #[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
        #[serde(tag = "type", content = "properties")]
        pub enum EventBody {
            $($(#[$doc])* #[serde(rename = $wire)] $name($properties),)*
            /// A type this version does not know, or a known one in a shape it does not know.
            #[serde(untagged)]
            Other {
                /// The type.
                #[serde(rename = "type")]
                kind: String,
                /// Whatever came with it.
                #[serde(skip_serializing_if = "Value::is_null")]
                properties: Value,
            },
        }

        impl EventBody {
            /// The wire name of the type.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$name(_) => $wire,)*
                    Self::Other { kind, .. } => kind,
                }
            }

            /// Whether it is stored and replayed.
            pub fn is_durable(&self) -> bool {
                match self {
                    $(Self::$name(_) => events!(@durable $kind),)*
                    Self::Other { .. } => false,
                }
            }

            /// Wire names of all known types.
            pub const KINDS: &[&str] = &[$($wire),*];

            /// Reads properties by the type they came with. A stream must outlive one odd event, so
            /// what does not fit becomes [`EventBody::Other`] with nothing lost.
            fn from_wire(kind: String, properties: Value) -> Self {
                let known = match kind.as_str() {
                    $($wire => <$properties>::deserialize(&properties).map(Self::$name).ok(),)*
                    _ => None,
                };
                known.unwrap_or(Self::Other { kind, properties })
            }
        }
    };
    (@durable durable) => { true };
    (@durable live) => { false };
}

events! {
    /// A session came to be.
    SessionCreated("session.created", SessionInfo, durable);
    /// A session changed.
    SessionUpdated("session.updated", SessionInfo, durable);
    /// A session is gone; children first.
    SessionDeleted("session.deleted", SessionInfo, durable);
    /// Busy, retry or idle.
    SessionStatus("session.status", StatusChanged, durable);
    /// Right after every idle status; deprecated by OpenCode, still sent.
    SessionIdle("session.idle", SessionOnly, durable);
    /// Something went wrong.
    SessionError("session.error", SessionFailed, durable);
    /// A compaction finished.
    SessionCompacted("session.compacted", SessionOnly, durable);
    /// What a session changed in the tree.
    SessionDiff("session.diff", SessionDiffed, durable);
    /// A message was stored or changed.
    MessageUpdated("message.updated", MessageInfo, durable);
    /// A message is gone.
    MessageRemoved("message.removed", MessageGone, durable);
    /// A part was stored or changed.
    PartUpdated("message.part.updated", PartInfo, durable);
    /// A piece of streamed text.
    PartDelta("message.part.delta", PartDelta, live);
    /// A part is gone.
    PartRemoved("message.part.removed", PartGone, durable);
    /// The todo list was replaced.
    TodoUpdated("todo.updated", TodosReplaced, durable);
    /// A slash command's turn ended.
    CommandExecuted("command.executed", CommandDone, durable);
    /// A prompt was accepted and waits for its turn (Baton's addition).
    PromptQueued("prompt.queued", PromptQueued, durable);
    /// A prompt is being worked on now (Baton's addition).
    PromptStarted("prompt.started", PromptStarted, durable);
    /// A prompt will not be worked on any more (Baton's addition).
    PromptEnded("prompt.ended", PromptEnded, durable);
    /// A turn goes on by itself (Baton's addition).
    ContinuationStarted("continuation.started", ContinuationStarted, durable);
    /// A turn is about to go on by itself, unless somebody stops it (Baton's addition).
    ContinuationCountdown("continuation.countdown", ContinuationCountdown, durable);
    /// Something is left to do and the turn does not go on (Baton's addition).
    ContinuationStopped("continuation.stopped", ContinuationStopped, durable);
    /// A permission waits for a person.
    PermissionAsked("permission.asked", PermissionRequest, durable);
    /// It waits no longer.
    PermissionReplied("permission.replied", PermissionAnswered, durable);
    /// A question waits for a person.
    QuestionAsked("question.asked", QuestionRequest, durable);
    /// It was answered.
    QuestionReplied("question.replied", QuestionAnswered, durable);
    /// It was dismissed.
    QuestionRejected("question.rejected", QuestionDismissed, durable);
    /// A tool changed a file.
    FileEdited("file.edited", FileChanged, durable);
    /// A file changed.
    FileWatcherUpdated("file.watcher.updated", FileWatched, live);
    /// Language servers changed.
    LspUpdated("lsp.updated", Extra, live);
    /// An MCP server has other tools now.
    McpToolsChanged("mcp.tools.changed", Extra, live);
    /// A login page could not be opened.
    McpBrowserOpenFailed("mcp.browser.open.failed", Extra, live);
    /// Another branch is checked out.
    VcsBranchUpdated("vcs.branch.updated", Extra, live);
    /// A terminal was opened.
    PtyCreated("pty.created", Extra, live);
    /// A terminal changed.
    PtyUpdated("pty.updated", Extra, live);
    /// A terminal's program ended.
    PtyExited("pty.exited", Extra, live);
    /// A terminal is gone.
    PtyDeleted("pty.deleted", Extra, live);
    /// Remote control of the terminal UI.
    TuiPromptAppend("tui.prompt.append", Extra, live);
    /// Remote control of the terminal UI.
    TuiCommandExecute("tui.command.execute", Extra, live);
    /// Remote control of the terminal UI.
    TuiToastShow("tui.toast.show", Extra, live);
    /// Remote control of the terminal UI.
    TuiSessionSelect("tui.session.select", Extra, live);
    /// A project changed.
    ProjectUpdated("project.updated", Project, live);
    /// A project has other directories now.
    ProjectDirectoriesUpdated("project.directories.updated", Extra, live);
    /// The program was updated.
    InstallationUpdated("installation.updated", Extra, live);
    /// The program could be updated.
    InstallationUpdateAvailable("installation.update-available", Extra, live);
    /// A worktree can be used.
    WorktreeReady("worktree.ready", Extra, live);
    /// A worktree could not be made.
    WorktreeFailed("worktree.failed", Extra, live);
    /// A workspace can be used.
    WorkspaceReady("workspace.ready", Extra, live);
    /// A workspace could not be made.
    WorkspaceFailed("workspace.failed", Extra, live);
    /// A workspace changed.
    WorkspaceStatus("workspace.status", Extra, live);
    /// A directory's instance was closed.
    ServerInstanceDisposed("server.instance.disposed", Extra, live);
    /// All instances were closed.
    GlobalDisposed("global.disposed", Extra, live);
    /// The first frame of a stream.
    ServerConnected("server.connected", Extra, live);
    /// The connection is alive.
    ServerHeartbeat("server.heartbeat", Extra, live);
    /// The cursor a client came with is older than the log: fetch state anew (Baton's addition).
    ServerResync("server.resync", Resync, live);
    /// The model catalogue was refreshed.
    ModelsDevRefreshed("models-dev.refreshed", Extra, live);
    /// Integrations changed.
    IntegrationUpdated("integration.updated", Extra, live);
    /// An integration's connection changed.
    IntegrationConnectionUpdated("integration.connection.updated", Extra, live);
    /// The catalogue changed.
    CatalogUpdated("catalog.updated", Extra, live);
    /// References changed.
    ReferenceUpdated("reference.updated", Extra, live);
    /// A plugin was loaded.
    PluginAdded("plugin.added", Extra, live);
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            id: EventId,
            r#type: String,
            #[serde(default)]
            properties: Value,
            #[serde(flatten)]
            extra: Rest,
        }
        let Wire { id, r#type, properties, extra } = Wire::deserialize(deserializer)?;
        Ok(Self { id, body: EventBody::from_wire(r#type, properties), extra })
    }
}

impl<'de> Deserialize<'de> for EventBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            r#type: String,
            #[serde(default)]
            properties: Value,
        }
        let Wire { r#type, properties } = Wire::deserialize(deserializer)?;
        Ok(Self::from_wire(r#type, properties))
    }
}

impl EventBody {
    /// The session it is about, if it is about one.
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::SessionCreated(it) | Self::SessionUpdated(it) | Self::SessionDeleted(it) => {
                Some(&it.session_id)
            }
            Self::SessionStatus(it) => Some(&it.session_id),
            Self::SessionIdle(it) | Self::SessionCompacted(it) => Some(&it.session_id),
            Self::SessionError(it) => it.session_id.as_ref(),
            Self::SessionDiff(it) => Some(&it.session_id),
            Self::MessageUpdated(it) => Some(&it.session_id),
            Self::MessageRemoved(it) => Some(&it.session_id),
            Self::PartUpdated(it) => Some(&it.session_id),
            Self::PartDelta(it) => Some(&it.session_id),
            Self::PartRemoved(it) => Some(&it.session_id),
            Self::TodoUpdated(it) => Some(&it.session_id),
            Self::CommandExecuted(it) => Some(&it.session_id),
            Self::PromptQueued(it) => Some(&it.session_id),
            Self::PromptStarted(it) => Some(&it.session_id),
            Self::PromptEnded(it) => Some(&it.session_id),
            Self::ContinuationStarted(it) => Some(&it.session_id),
            Self::ContinuationCountdown(it) => Some(&it.session_id),
            Self::ContinuationStopped(it) => Some(&it.session_id),
            Self::PermissionAsked(it) => Some(&it.session_id),
            Self::PermissionReplied(it) => Some(&it.session_id),
            Self::QuestionAsked(it) => Some(&it.session_id),
            Self::QuestionReplied(it) => Some(&it.session_id),
            Self::QuestionRejected(it) => Some(&it.session_id),
            _ => None,
        }
    }
}
