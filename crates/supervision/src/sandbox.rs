//! The user's sandbox settings, applied to tools.
//!
//! The kernel restricts commands. Tools that run inside the server are not restricted by it, so they check the
//! settings themselves.

use std::path::{Path, PathBuf};

use engine::session::Turn;
use protocol::config::SandboxMode;
use workspace::files::Root;
use workspace::git;
use workspace::process::{RestoreOutcome, Restored, Sandbox, SavedPath, Support};

use crate::{ToolFailure, blocking, protected};

/// The sandbox of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxOptions {
    /// The paths that may be written.
    pub mode: SandboxMode,
    /// True if commands may use the network.
    pub network: bool,
    /// Directories for temporary files, as real paths. Commands may write to them if they may write to the project.
    pub temporary: Vec<PathBuf>,
    /// The kernel's support for restricting commands.
    pub support: Support,
}

impl SandboxOptions {
    /// Fails if the sandbox forbids a tool that runs inside the server. The tool needs this permission.
    pub fn permits(&self, tool: &str, permission: &str) -> Result<(), ToolFailure> {
        let refused = |why: &str| {
            Err(ToolFailure::Error(format!("The sandbox does not allow {tool}: {why}. Do without it.")))
        };
        match permission {
            "edit" if self.mode == SandboxMode::ReadOnly => refused("nothing may be written"),
            "webfetch" if self.mode != SandboxMode::Off && !self.network => {
                refused("the network may not be used")
            }
            _ => Ok(()),
        }
    }

    /// Returns the sandbox of a command, or `None` if it has all rights of the user.
    pub async fn for_command(&self, turn: &Turn, root: &Root) -> Result<Option<Sandbox>, ToolFailure> {
        let writable = match self.mode {
            SandboxMode::Off => return Ok(None),
            SandboxMode::ReadOnly => Vec::new(),
            SandboxMode::WorkspaceWrite => self.writable(turn, root).await?,
        };
        Ok(Some(Sandbox { writable, network: self.network, sealed: false, support: self.support }))
    }

    async fn writable(&self, turn: &Turn, root: &Root) -> Result<Vec<PathBuf>, ToolFailure> {
        // Sessions are created with real paths. If the directory's path is not real any more, a command may have
        // replaced the directory by a link to a place that it wants to write to.
        if root.directory() != Path::new(&turn.session.directory) {
            return Err(ToolFailure::Error(format!(
                "The session's directory {} now leads to {}. The sandbox does not allow a directory that was \
                 replaced by a link.",
                turn.session.directory,
                root.directory().display()
            )));
        }
        let top = root.top().to_owned();
        let history = blocking(move || git::repository_of(&top)).await?;
        let project = [root.top().to_owned()].into_iter().chain(history);
        Ok(project.chain(self.temporary.iter().cloned()).collect())
    }

    /// Returns the files that a command must not change although it may write to the project.
    pub async fn kept(&self, root: &Root) -> Result<Vec<SavedPath>, ToolFailure> {
        if self.mode != SandboxMode::WorkspaceWrite {
            return Ok(Vec::new());
        }
        let root = root.clone();
        blocking(move || protected::kept(&root)).await
    }

    /// Returns a hint for a model whose command failed.
    pub fn remark(&self) -> Option<String> {
        let written = match self.mode {
            SandboxMode::Off => return None,
            SandboxMode::ReadOnly => "it could not write any file",
            SandboxMode::WorkspaceWrite => "it could write only in the project and to temporary files",
        };
        let network = if self.network { "" } else { ", and had no network" };
        Some(format!("The command ran in a sandbox: {written}{network}."))
    }
}

/// The most files that a remark names; the others are counted.
const MAX_NAMED: usize = 5;

/// Tells the model and the user about protected files that a command has changed.
pub fn restored(root: &Root, restored: &[Restored]) -> Option<String> {
    let said: Vec<String> = [
        remark(root, restored, "changed by the command and", "been put back", |it| {
            *it == RestoreOutcome::PutBack
        }),
        remark(root, restored, "made by the command and", "been removed", |it| {
            *it == RestoreOutcome::Removed
        }),
        remark(root, restored, "changed by the command and", "not been put back", |it| {
            matches!(it, RestoreOutcome::Failed(_))
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!said.is_empty()).then(|| said.join("\n"))
}

/// Returns a sentence about the files with one outcome.
fn remark(
    root: &Root,
    restored: &[Restored],
    done: &str,
    outcome: &str,
    wanted: impl Fn(&RestoreOutcome) -> bool,
) -> Option<String> {
    let names: Vec<String> =
        restored.iter().filter(|it| wanted(&it.outcome)).map(|it| root.relative(&it.path)).collect();
    let (was, has) = if names.len() == 1 { ("was", "has") } else { ("were", "have") };
    let more = match names.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = names.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let sentence =
        format!("{shown}{more} {was} {done} {has} {outcome}: configuration is read-only in the sandbox.");
    (!names.is_empty()).then_some(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_are_named_and_many_are_counted() {
        let directory = tempfile::TempDir::new().unwrap();
        let root = Root::new(directory.path()).unwrap();
        let one = |name: &str, outcome| Restored { path: root.top().join(name), outcome };
        assert_eq!(restored(&root, &[]), None);
        let failed = one("b", RestoreOutcome::Failed("why".to_owned()));
        assert_eq!(
            restored(&root, &[one("a", RestoreOutcome::Removed), failed]).unwrap(),
            "a was made by the command and has been removed: configuration is read-only in the sandbox.\n\
             b was changed by the command and has not been put back: configuration is read-only in the sandbox."
        );
        let many: Vec<Restored> =
            (0..7).map(|number| one(&number.to_string(), RestoreOutcome::PutBack)).collect();
        let told = restored(&root, &many).unwrap();
        assert!(
            told.starts_with("0, 1, 2, 3, 4 and 2 more were changed by the command and have been put back")
        );
    }
}
