//! The tools that a model may call.
//!
//! A tool is a name, a schema and a function from a [`Call`] to an [`Output`] or a [`ToolFailure`]. [`Toolset::run`]
//! handles everything that all tools share: events, limits, unknown names and broken arguments.

mod apply_patch;
mod bash;
mod built_in;
mod edit;
mod glob;
mod grep;
mod input;
mod invalid;
mod list;
pub(super) mod mcp;
mod nearby;
mod options;
mod paths;
mod plugin;
mod question;
mod read;
mod skill;
mod task;
mod todowrite;
mod toolset;
mod truncate;
mod webfetch;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::session::Turn;
use futures::future::BoxFuture;
use protocol::agent::Agent;
use protocol::part::FilePart;
use protocol::{AgentEvent, Extra};
use serde_json::Value;
use supervision::gate::Gate;
use supervision::permission::{Pattern, PermissionCheck, Permissions};
use supervision::snapshots::Changes;
use supervision::{SandboxOptions, ToolFailure, object, sandbox, sealed};
use workspace::files::Root;
use workspace::process::Support;
use workspace::search::SearchScope;

use super::background::Background;

use built_in::BuiltIn;
pub(super) use input::parse;
pub(super) use list::entries;
pub use options::{Skill, ToolOptions};
pub(super) use read::{embedded, numbered};
pub(super) use task::{describe_end, report};
pub(super) use toolset::{CallOutcome, ToolContext, Toolset};
pub use webfetch::read_address;

/// A tool that a model may call.
pub(super) trait Tool: Send + Sync {
    fn name(&self) -> &str;

    /// The permission whose denial makes the tool useless.
    fn permission(&self) -> &str {
        self.name()
    }

    /// The description for the model: when and how to use the tool.
    fn description(&self) -> String;

    /// The JSON Schema of the tool's input.
    fn schema(&self) -> Value;

    /// Returns false if the tool cannot do anything at present, so that it is not offered.
    fn is_available(&self) -> bool {
        true
    }

    /// Returns true if consecutive calls of the tool may run at the same time.
    fn is_concurrent(&self) -> bool {
        false
    }

    /// Validates the input. The error tells the model what is wrong with it.
    fn check(&self, input: &Extra) -> Result<(), String>;

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, ToolFailure>>;
}

/// The origin of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    Model,
    /// A command's template. It is not part of a message, so its progress cannot be displayed.
    Template,
    /// The user, who needs no permission.
    User,
}

/// One call of a tool.
pub(super) struct Call<'a> {
    pub(super) turn: &'a Turn,
    pub(super) root: &'a Root,
    pub(super) changes: &'a Changes,
    pub(super) permissions: &'a Permissions,
    pub(super) background: &'a Background,
    /// Environment variables that are hidden from commands.
    pub(super) hidden: &'a [String],
    pub(super) options: &'a ToolOptions,
    loaded: &'a nearby::Loaded,
    /// True if the model can start subagents.
    pub(super) may_delegate: bool,
    pub(super) caller: Caller,
    /// The model's id of the call.
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) input: &'a Extra,
}

impl Call<'_> {
    /// Returns the context for the permission checks of this call.
    pub(super) fn gate(&self) -> Gate<'_> {
        Gate {
            turn: self.turn,
            root: self.root,
            permissions: self.permissions,
            readable: self.options.readable().collect(),
            seals: self.options.kernel >= Support::Sealed,
            call: Some(self.id),
        }
    }

    /// Gets a permission for one subject, such as a pattern or a URL. A user who allows it always allows it for all
    /// subjects.
    pub(super) async fn require(
        &self,
        permission: &'static str,
        subject: impl Into<String>,
        metadata: Extra,
    ) -> Result<(), ToolFailure> {
        let check = PermissionCheck {
            permission: permission.into(),
            patterns: vec![Pattern::plain(subject)],
            always: vec!["*".to_owned()],
            metadata,
        };
        self.permissions.require(self.turn, check, Some(self.id)).await
    }

    /// A search below a directory that ends with the turn and skips closed directories.
    pub(super) fn scope(&self, directory: impl Into<PathBuf>) -> SearchScope {
        let mut scope = SearchScope::new(directory);
        scope.cancel = self.turn.cancellation().clone();
        scope.closed = self.root.closed().clone();
        scope
    }

    /// Prepares a write to these files: waits for the snapshot before it, and fails if the turn was aborted meanwhile.
    pub(super) async fn before_write(
        &self,
        files: impl IntoIterator<Item = &Path>,
    ) -> Result<(), ToolFailure> {
        self.changes.before_write(files).await;
        if self.turn.cancellation().is_cancelled() { Err(ToolFailure::Cancelled) } else { Ok(()) }
    }

    /// Emits the progress of the call.
    pub(super) async fn progress(&self, title: Option<String>, metadata: Extra) {
        if self.caller == Caller::Template {
            return;
        }
        let running = AgentEvent::ToolRunning {
            call: self.id.to_owned(),
            tool: self.name.to_owned(),
            input: self.input.clone(),
            title,
            metadata: Some(metadata),
        };
        self.turn.emit(running).await;
    }
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Output {
    /// Displayed to users.
    pub(super) title: String,
    /// Sent to the model.
    pub(super) text: String,
    /// Details for clients.
    pub(super) metadata: Extra,
    /// Pictures and documents, for clients and the model.
    pub(super) attachments: Vec<FilePart>,
}

impl Output {
    /// Creates an output without attachments.
    pub(super) fn new(title: impl Into<String>, text: impl Into<String>, metadata: Extra) -> Self {
        Self { title: title.into(), text: text.into(), metadata, attachments: Vec::new() }
    }
}

/// The built-in tools of the native loop.
fn all(agents: &[Agent], skills: Vec<Skill>, command: Duration) -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(apply_patch::ApplyPatch),
        Box::new(bash::Bash { timeout: command }),
        Box::new(edit::Edit),
        Box::new(glob::Glob),
        Box::new(grep::Grep),
        Box::new(invalid::Invalid),
        Box::new(list::List),
        Box::new(question::Question),
        Box::new(read::Read),
        Box::new(skill::Skill::new(skills)),
        Box::new(task::Task::new(agents)),
        Box::new(todowrite::TodoWrite),
        Box::new(webfetch::WebFetch),
        Box::new(write::Write),
    ]
}
