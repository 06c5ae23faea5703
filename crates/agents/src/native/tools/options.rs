//! What tools need to know and cannot find out by themselves.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use workspace::files::Closed;
use workspace::output::{Limits, Shelf};
use workspace::process::Support;

use super::{SandboxOptions, Toolbox};
use crate::native::limits;

/// How tools behave beyond what their input says.
#[derive(Debug, Clone)]
pub struct ToolOptions {
    /// How much of an output a model gets to see.
    pub output: Limits,
    /// Where outputs that are longer are kept whole; nowhere if absent. Models may read what is there.
    pub shelf: Option<Shelf>,
    /// What `skill` can load. Models may read the files beside a skill.
    pub skills: Vec<Skill>,
    /// What no tool reads or changes, whatever the rules say.
    pub closed: Closed,
    /// Whether `webfetch` may reach addresses of this machine and of private networks.
    pub private_addresses: bool,
    /// Timeout of a command for which the model sets none; the default is [`COMMAND`](limits::COMMAND).
    pub command: Duration,
    /// What commands may touch; whatever the user may if absent.
    pub sandbox: Option<SandboxOptions>,
    /// How far the kernel can restrict commands. Where it cannot seal them, no command runs without a question only
    /// because the built-in rules allow it.
    pub kernel: Support,
    /// Who else brings tools along, and takes the place of ours with them.
    pub toolbox: Option<Arc<dyn Toolbox>>,
}

/// Instructions for a kind of work, to be read when there is such work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its `SKILL.md`.
    pub path: PathBuf,
}

impl Default for ToolOptions {
    fn default() -> Self {
        Self {
            output: Limits::default(),
            shelf: None,
            skills: Vec::new(),
            closed: Closed::default(),
            private_addresses: false,
            command: limits::COMMAND,
            sandbox: None,
            kernel: Support::probe(),
            toolbox: None,
        }
    }
}

impl ToolOptions {
    /// Directories outside of the project that may be read without asking.
    pub(in crate::native) fn readable(&self) -> impl Iterator<Item = PathBuf> {
        let shelf = self.shelf.iter().map(Shelf::directory);
        let skills = self.skills.iter().filter_map(|skill| skill.path.parent());
        shelf.chain(skills).filter_map(|directory| directory.canonicalize().ok())
    }
}
