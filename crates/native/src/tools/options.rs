//! The settings of the tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Tools;
use workspace::files::Closed;
use workspace::output::{Limits, OutputDirectory};
use workspace::process::Support;

use super::SandboxOptions;
use crate::limits;

/// The settings of the tools.
#[derive(Debug, Clone)]
pub struct ToolOptions {
    /// Limits of an output that a model sees.
    pub output: Limits,
    /// Stores the whole of longer outputs, which models may read there. If absent, they are not stored.
    pub output_directory: Option<OutputDirectory>,
    /// Skills that the `skill` tool can load. Models may read the files beside a skill.
    pub skills: Vec<Skill>,
    /// Paths that no tool reads or changes, regardless of the rules.
    pub closed: Closed,
    /// True if `webfetch` may connect to this machine and to private networks.
    pub private_addresses: bool,
    /// Timeout of a command for which the model sets none; the default is [`COMMAND`](limits::COMMAND).
    pub command: Duration,
    /// The sandbox of commands. If absent, commands have all rights of the user.
    pub sandbox: Option<SandboxOptions>,
    /// The kernel's support for restricting commands. If it cannot seal them, the built-in rules alone let no
    /// command run without a question.
    pub kernel: Support,
    /// The tools of plugins, which take the place of built-in tools with the same name.
    pub plugins: Option<Arc<dyn Tools>>,
}

/// Instructions for a kind of work, which the model loads when needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// The kind of work, for the model to choose by.
    pub description: String,
    /// The path of its `SKILL.md`.
    pub path: PathBuf,
}

impl Default for ToolOptions {
    fn default() -> Self {
        Self {
            output: Limits::default(),
            output_directory: None,
            skills: Vec::new(),
            closed: Closed::default(),
            private_addresses: false,
            command: limits::COMMAND,
            sandbox: None,
            kernel: Support::probe(),
            plugins: None,
        }
    }
}

impl ToolOptions {
    /// Returns the directories outside of the project that may be read without asking.
    pub(crate) fn readable(&self) -> impl Iterator<Item = PathBuf> {
        let output_directory = self.output_directory.iter().map(OutputDirectory::directory);
        let skills = self.skills.iter().filter_map(|skill| skill.path.parent());
        output_directory.chain(skills).filter_map(|directory| directory.canonicalize().ok())
    }
}
