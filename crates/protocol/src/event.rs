//! Events that the server publishes to clients.
//!
//! An event is *durable* (stored, replayable, framed with an `id:`) or *live* (deltas and connection events, which
//! a client recovers by reading the current state). OpenCode stores fewer types; durable status and request events
//! let a client that reconnects learn exactly what it missed.

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
    pub id: EventId,
    /// Type and properties.
    #[serde(flatten)]
    pub body: EventBody,
    #[serde(flatten)]
    pub extra: Rest,
}

impl Event {
    /// Creates an event without unknown fields.
    pub fn new(id: EventId, body: EventBody) -> Self {
        Self { id, body, extra: Rest::NONE }
    }
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($wire:literal, $properties:ty, $kind:ident);)*) => {
        /// The event types that this version knows.
        #[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
        #[serde(tag = "type", content = "properties")]
        pub enum EventBody {
            $($(#[$doc])* #[serde(rename = $wire)] $name($properties),)*
            /// A type that this version does not know, or a known type in an unknown shape.
            #[serde(untagged)]
            Other {
                #[serde(rename = "type")]
                kind: String,
                #[serde(skip_serializing_if = "Value::is_null")]
                properties: Value,
            },
        }

        impl EventBody {
            /// Returns the type's name on the wire.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$name(_) => $wire,)*
                    Self::Other { kind, .. } => kind,
                }
            }

            /// Returns true if the event is stored and replayed.
            pub fn is_durable(&self) -> bool {
                match self {
                    $(Self::$name(_) => events!(@durable $kind),)*
                    Self::Other { .. } => false,
                }
            }

            /// Wire names of all known types.
            pub const KINDS: &[&str] = &[$($wire),*];

            /// Parses properties by event type. One malformed event must not end a stream, so properties that do
            /// not fit become [`EventBody::Other`], unchanged.
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
    /// A session was created.
    SessionCreated("session.created", SessionInfo, durable);
    /// A session changed.
    SessionUpdated("session.updated", SessionInfo, durable);
    /// A session was deleted. Events of its children come first.
    SessionDeleted("session.deleted", SessionInfo, durable);
    /// The status of a session changed to busy, retry or idle.
    SessionStatus("session.status", StatusChanged, durable);
    /// A session became idle. Follows every idle status; deprecated by OpenCode, still sent.
    SessionIdle("session.idle", SessionOnly, durable);
    /// A session reported an error.
    SessionError("session.error", SessionFailed, durable);
    /// A compaction finished.
    SessionCompacted("session.compacted", SessionOnly, durable);
    /// A client marked a session as seen or unread (Baton's addition).
    SessionSeen("session.seen", SessionMarked, durable);
    /// The files that a session has changed.
    SessionDiff("session.diff", SessionDiffed, durable);
    /// A message was stored or changed.
    MessageUpdated("message.updated", MessageInfo, durable);
    /// A message was removed.
    MessageRemoved("message.removed", MessageGone, durable);
    /// A part was stored or changed.
    PartUpdated("message.part.updated", PartInfo, durable);
    /// A piece of streamed text.
    PartDelta("message.part.delta", PartDelta, live);
    /// A part was removed.
    PartRemoved("message.part.removed", PartGone, durable);
    /// The todo list was replaced.
    TodoUpdated("todo.updated", TodosReplaced, durable);
    /// The turn of a slash command ended.
    CommandExecuted("command.executed", CommandDone, durable);
    /// A prompt was accepted and waits for its turn (Baton's addition).
    PromptQueued("prompt.queued", PromptQueued, durable);
    /// A turn took up a prompt (Baton's addition).
    PromptStarted("prompt.started", PromptStarted, durable);
    /// A prompt has ended: it was answered, aborted or withdrawn (Baton's addition).
    PromptEnded("prompt.ended", PromptEnded, durable);
    /// A client changed the order or the delivery of waiting prompts (Baton's addition).
    QueueUpdated("session.queue.updated", QueueChanged, durable);
    /// A turn continues automatically (Baton's addition).
    ContinuationStarted("continuation.started", ContinuationStarted, durable);
    /// A turn continues automatically after a countdown, unless a client stops it (Baton's addition).
    ContinuationCountdown("continuation.countdown", ContinuationCountdown, durable);
    /// A turn does not continue although todos are open (Baton's addition).
    ContinuationStopped("continuation.stopped", ContinuationStopped, durable);
    /// A permission waits for the user.
    PermissionAsked("permission.asked", PermissionRequest, durable);
    /// A permission was answered or withdrawn.
    PermissionReplied("permission.replied", PermissionAnswered, durable);
    /// A question waits for the user.
    QuestionAsked("question.asked", QuestionRequest, durable);
    /// A question was answered.
    QuestionReplied("question.replied", QuestionAnswered, durable);
    /// A question was dismissed or withdrawn.
    QuestionRejected("question.rejected", QuestionDismissed, durable);
    /// A tool changed a file.
    FileEdited("file.edited", FileChanged, durable);
    /// A file changed on disk.
    FileWatcherUpdated("file.watcher.updated", FileWatched, live);
    /// The state of a language server changed.
    LspUpdated("lsp.updated", Extra, live);
    /// The tools of an MCP server changed.
    McpToolsChanged("mcp.tools.changed", Extra, live);
    /// The browser could not open the login page of an MCP server.
    McpBrowserOpenFailed("mcp.browser.open.failed", Extra, live);
    /// The checked-out branch changed.
    VcsBranchUpdated("vcs.branch.updated", Extra, live);
    /// A terminal was opened.
    PtyCreated("pty.created", Extra, live);
    /// A terminal changed.
    PtyUpdated("pty.updated", Extra, live);
    /// A terminal's program ended.
    PtyExited("pty.exited", Extra, live);
    /// A terminal was removed.
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
    /// The directories of a project changed.
    ProjectDirectoriesUpdated("project.directories.updated", Extra, live);
    /// OpenCode was updated.
    InstallationUpdated("installation.updated", Extra, live);
    /// A new version of OpenCode is available.
    InstallationUpdateAvailable("installation.update-available", Extra, live);
    /// A worktree is ready.
    WorktreeReady("worktree.ready", Extra, live);
    /// A worktree could not be created.
    WorktreeFailed("worktree.failed", Extra, live);
    /// A workspace is ready.
    WorkspaceReady("workspace.ready", Extra, live);
    /// A workspace could not be created.
    WorkspaceFailed("workspace.failed", Extra, live);
    /// The status of a workspace changed.
    WorkspaceStatus("workspace.status", Extra, live);
    /// The instance of a directory was disposed.
    ServerInstanceDisposed("server.instance.disposed", Extra, live);
    /// All instances were disposed.
    GlobalDisposed("global.disposed", Extra, live);
    /// The first event of every stream.
    ServerConnected("server.connected", Connected, live);
    /// A stream has sent everything that the client missed and the current state; live events follow (Baton's
    /// addition).
    ServerReady("server.ready", Ready, live);
    /// A periodic sign that the connection is alive.
    ServerHeartbeat("server.heartbeat", Extra, live);
    /// The client's cursor is older than the log. The client must read the current state again (Baton's addition).
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
    /// Returns the session that the event concerns, if any.
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::SessionCreated(it) | Self::SessionUpdated(it) | Self::SessionDeleted(it) => {
                Some(&it.session_id)
            }
            Self::SessionStatus(it) => Some(&it.session_id),
            Self::SessionIdle(it) | Self::SessionCompacted(it) => Some(&it.session_id),
            Self::SessionError(it) => it.session_id.as_ref(),
            Self::SessionDiff(it) => Some(&it.session_id),
            Self::SessionSeen(it) => Some(&it.session_id),
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
            Self::QueueUpdated(it) => Some(&it.session_id),
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
