//! Permission checks for command lines.

use std::path::{Path, PathBuf};

use serde_json::json;
use workspace::files::Root;

use super::{Gate, external_directory_check};
use crate::permission::{Command, Confinement, PathArgument, Pattern, PermissionCheck, Verdict, commands};
use crate::{ToolFailure, blocking, object};

/// Devices outside of the project that need no permission.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/stderr", "/dev/stdin", "/dev/stdout", "/dev/tty", "/dev/urandom", "/dev/zero"];

/// The most directories into which a line is followed. Further directories need a permission.
const MAX_DIRECTORIES: usize = 8;

impl Gate<'_> {
    /// Gets permission for every command of a line and every path outside of the project that it names. Returns how
    /// the line may run.
    pub async fn command(&self, line: &str, directory: &Path) -> Result<Confinement, ToolFailure> {
        let commands = commands(line);
        let check = command_check(line, &commands);
        let permissions = self.permissions.clone();
        let permissions = if self.seals { permissions } else { permissions.unconfined() };
        let denied = matches!(permissions.judge(&check), Verdict::Denied(_));
        let outside = if denied { None } else { self.outside_check(commands, directory).await? };
        let only_changes_directory = check.patterns.is_empty();
        let confinement = match outside {
            // The line itself shows these paths, so one request covers both.
            Some(outside) => permissions.require_both(self.turn, check, outside, self.call).await?,
            None => permissions.require_command(self.turn, check, self.call).await?,
        };
        Ok(if only_changes_directory && self.seals { Confinement::Sealed } else { confinement })
    }

    /// Returns the permissions that a line needs, without asking for them.
    pub async fn needs(&self, line: &str, directory: &Path) -> Result<Vec<PermissionCheck>, ToolFailure> {
        let commands = commands(line);
        let check = command_check(line, &commands);
        let outside = self.outside_check(commands, directory).await?;
        Ok([check].into_iter().chain(outside).collect())
    }

    /// Returns the permission for the paths outside of the project, if the commands name any.
    async fn outside_check(
        &self,
        commands: Vec<Command>,
        directory: &Path,
    ) -> Result<Option<PermissionCheck>, ToolFailure> {
        let (root, directory) = (self.root.clone(), directory.to_owned());
        let readable = self.readable.clone();
        let found = blocking(move || {
            let mut found = all_outside(&root, &directory, &commands);
            found.retain(|path| !readable.iter().any(|known| path.starts_with(known)));
            found
        });
        let found = found.await?;
        Ok((!found.is_empty()).then(|| external_directory_check(&found)))
    }
}

fn command_check(line: &str, commands: &[Command]) -> PermissionCheck {
    let judged = || commands.iter().filter(|command| command.opaque || !command.changes_directory());
    let mut always: Vec<String> = Vec::new();
    for pattern in judged().map(Command::always) {
        if !always.contains(&pattern) {
            always.push(pattern);
        }
    }
    PermissionCheck {
        permission: "bash".into(),
        patterns: judged().map(Pattern::command).collect(),
        always,
        metadata: object(json!({ "command": line })),
    }
}

/// Returns the directories outside of the project that commands name, from every directory that a `cd` before them
/// may have reached: any directory may contain a link out of the project.
fn all_outside(root: &Root, directory: &Path, commands: &[Command]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut reached = vec![directory.to_owned()];
    for command in commands {
        for argument in command.path_arguments() {
            let outside = reached.iter().filter_map(|directory| outside(root, directory, argument));
            for path in outside {
                if !found.contains(&path) {
                    found.push(path);
                }
            }
        }
        let Some(target) = command.destination() else { continue };
        for path in reached.iter().filter_map(|directory| inside(root, directory, target)).collect::<Vec<_>>()
        {
            match reached.len() {
                _ if reached.contains(&path) => {}
                MAX_DIRECTORIES.. => found.push(path),
                _ => reached.push(path),
            }
        }
    }
    found
}

/// Returns the directory of the project that a `cd` leads to, if it is inside.
fn inside(root: &Root, directory: &Path, target: &str) -> Option<PathBuf> {
    let found = root.locate(&directory.join(target).to_string_lossy()).ok()?;
    (found.inside && found.path.is_dir()).then_some(found.path)
}

/// Returns the directory outside of the project that a path is in.
fn outside(root: &Root, directory: &Path, argument: PathArgument<'_>) -> Option<PathBuf> {
    let written = Path::new(argument.path);
    if DEVICES.contains(&argument.path) || argument.path.starts_with("/dev/fd/") {
        return None;
    }
    // Only the shell knows the location of a home directory, but it is never the project.
    if argument.is_home() {
        return Some(parent_of(written));
    }
    let Ok(found) = root.locate(&directory.join(written).to_string_lossy()) else {
        return Some(parent_of(written));
    };
    // A word that looks like a path counts as one if it or its directory exists.
    let exists = found.path.exists()
        || found.path.parent().is_some_and(|parent| parent != Path::new("/") && parent.exists());
    if found.inside || !(argument.creates || exists) {
        return None;
    }
    Some(if found.path.is_dir() { found.path } else { parent_of(&found.path) })
}

fn parent_of(path: &Path) -> PathBuf {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests;
