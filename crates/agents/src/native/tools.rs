//! What a model may call.
//!
//! A tool is a name, a schema and a function from a [`Call`] to an [`Output`] or a [`Failure`]. Everything that
//! is the same for all of them (reporting, bounds, unknown names, broken arguments) is done in [`Bench::run`].

mod apply_patch;
mod bash;
mod bench;
mod brought;
mod edit;
mod glob;
mod grep;
mod input;
mod invalid;
mod list;
mod nearby;
mod options;
mod paths;
mod question;
mod read;
mod sandbox;
pub(super) mod sealed;
mod skill;
mod task;
mod todowrite;
mod truncate;
mod webfetch;
mod write;

use std::time::Duration;

use engine::session::Turn;
use futures::future::BoxFuture;
use protocol::agent::Agent;
use protocol::part::FilePart;
use protocol::{AgentEvent, Extra};
use serde_json::Value;
use workspace::files::Root;
use workspace::process::Support;

use crate::snapshots::Changes;

use super::background::Background;
use super::gate::Gate;
use super::permission::Permissions;

pub(super) use bench::{Bench, Fate, Setting};
pub use brought::{BroughtCall, BroughtOutput, BroughtTool, Counter, Toolbox};
pub(super) use input::parse;
pub(super) use list::entries;
pub use options::{Skill, ToolOptions};
pub(crate) use paths::blocking;
pub(super) use read::{embedded, numbered};
pub use sandbox::SandboxOptions;
pub(crate) use sandbox::restored;
pub(super) use task::{report, told};
pub use webfetch::read_address;

/// Something a model may call.
pub(super) trait Tool: Send + Sync {
    /// The name the model calls it by.
    fn name(&self) -> &str;

    /// The permission whose denial makes the tool useless.
    fn permission(&self) -> &str {
        self.name()
    }

    /// When and how to use it.
    fn description(&self) -> String;

    /// JSON Schema of its input.
    fn schema(&self) -> Value;

    /// Whether there is anything it could do.
    fn is_of_use(&self) -> bool {
        true
    }

    /// Whether calls of it that follow one another may run at the same time.
    fn is_concurrent(&self) -> bool {
        false
    }

    /// Whether the input can be understood; what is wrong with it otherwise.
    fn check(&self, input: &Extra) -> Result<(), String>;

    /// Does it.
    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, Failure>>;
}

/// Who wants a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The model.
    Model,
    /// A command's template. It is no part of any message, so there is nothing to show its progress in.
    Template,
    /// A person, who needs nobody's permission.
    Person,
}

/// One call of a tool.
pub(super) struct Call<'a> {
    pub(super) turn: &'a Turn,
    pub(super) root: &'a Root,
    pub(super) changes: &'a Changes<'a>,
    pub(super) permissions: &'a Permissions,
    pub(super) background: &'a Background,
    /// Environment variables commands must not see.
    pub(super) hidden: &'a [String],
    pub(super) options: &'a ToolOptions,
    loaded: &'a nearby::Loaded,
    /// Whether there are subagents to hand something to.
    pub(super) may_delegate: bool,
    /// Who wants it.
    pub(super) by: By,
    /// The model's id of the call.
    pub(super) id: &'a str,
    /// The tool's name.
    pub(super) name: &'a str,
    pub(super) input: &'a Extra,
}

impl Call<'_> {
    /// Whom to ask whether it may be done.
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

    /// Shows how far it got.
    pub(super) async fn progress(&self, title: Option<String>, metadata: Extra) {
        if self.by == By::Template {
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

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Output {
    /// For people.
    pub(super) title: String,
    /// For the model.
    pub(super) text: String,
    /// Facts for clients.
    pub(super) metadata: Extra,
    /// Pictures and documents, for both.
    pub(super) attachments: Vec<FilePart>,
}

impl Output {
    /// An output that is all text.
    pub(super) fn new(title: impl Into<String>, text: impl Into<String>, metadata: Extra) -> Self {
        Self { title: title.into(), text: text.into(), metadata, attachments: Vec::new() }
    }
}

/// Why a call did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The model can do something about it.
    Error(String),
    /// A person refused; the turn ends after this step.
    Refused(String),
    /// The turn was stopped.
    Cancelled,
}

impl From<workspace::files::Error> for Failure {
    fn from(error: workspace::files::Error) -> Self {
        Self::Error(error.to_string())
    }
}

impl From<workspace::patch::Error> for Failure {
    fn from(error: workspace::patch::Error) -> Self {
        Self::Error(error.to_string())
    }
}

impl From<workspace::search::Error> for Failure {
    fn from(error: workspace::search::Error) -> Self {
        Self::Error(error.to_string())
    }
}

/// An object out of a [`serde_json::json!`] literal.
pub(crate) fn object(value: Value) -> Extra {
    match value {
        Value::Object(object) => object,
        _ => Extra::new(),
    }
}

/// The tools of the native loop.
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
