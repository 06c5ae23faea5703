//! What tools may touch when people have asked for a sandbox.
//!
//! Commands are held by the kernel. Tools that work inside the server are not, so they refuse by themselves.

use std::path::{Path, PathBuf};

use engine::session::Turn;
use protocol::config::SandboxMode;
use workspace::files::Root;
use workspace::git;
use workspace::process::{Sandbox, Support};

use super::{Failure, Tool, paths};

/// A sandbox for commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxOptions {
    /// What may be written.
    pub mode: SandboxMode,
    /// Whether the network may be used.
    pub network: bool,
    /// Directories for temporary files, as real paths. They may be written to if the project may.
    pub temporary: Vec<PathBuf>,
    /// What the kernel can do about it.
    pub support: Support,
}

impl SandboxOptions {
    /// Whether a tool that works inside the server may be used.
    pub(super) fn permits(&self, tool: &dyn Tool) -> Result<(), Failure> {
        let refused = |why: &str| {
            Err(Failure::Error(format!("The sandbox does not allow {}: {why}. Do without it.", tool.name())))
        };
        match tool.permission() {
            "edit" if self.mode == SandboxMode::ReadOnly => refused("nothing may be written"),
            "webfetch" if self.mode != SandboxMode::Off && !self.network => {
                refused("the network may not be used")
            }
            _ => Ok(()),
        }
    }

    /// The sandbox for a command; nothing if it may do whatever the user may.
    pub(crate) async fn around(&self, turn: &Turn, root: &Root) -> Result<Option<Sandbox>, Failure> {
        let writable = match self.mode {
            SandboxMode::Off => return Ok(None),
            SandboxMode::ReadOnly => Vec::new(),
            SandboxMode::WorkspaceWrite => self.writable(turn, root).await?,
        };
        Ok(Some(Sandbox { writable, network: self.network, sealed: false, support: self.support }))
    }

    async fn writable(&self, turn: &Turn, root: &Root) -> Result<Vec<PathBuf>, Failure> {
        // Sessions are made with real paths. If this one is none any more, a command may have replaced the directory
        // by a link to what it wants to write to.
        if root.directory() != Path::new(&turn.session.directory) {
            return Err(Failure::Error(format!(
                "The session's directory {} leads to {} now. A sandbox needs a directory that stays where it is.",
                turn.session.directory,
                root.directory().display()
            )));
        }
        let top = root.top().to_owned();
        let history = paths::blocking(move || git::repository_of(&top)).await?;
        let project = [root.top().to_owned()].into_iter().chain(history);
        Ok(project.chain(self.temporary.iter().cloned()).collect())
    }

    /// What a model should know whose command failed.
    pub(super) fn remark(&self) -> Option<String> {
        let written = match self.mode {
            SandboxMode::Off => return None,
            SandboxMode::ReadOnly => "it could not write any file",
            SandboxMode::WorkspaceWrite => "it could write only in the project and to temporary files",
        };
        let network = if self.network { "" } else { ", and had no network" };
        Some(format!("The command ran in a sandbox: {written}{network}."))
    }
}
