//! Whether a command line may be run.

use std::path::{Path, PathBuf};

use serde_json::json;
use workspace::files::Root;

use super::{Gate, away};
use crate::native::permission::{Command, Grant, Pattern, Place, Verdict, Wish, commands};
use crate::native::tools::{Failure, blocking, object};

/// Files outside of the project that nobody needs to be asked about.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/stderr", "/dev/stdin", "/dev/stdout", "/dev/tty", "/dev/urandom", "/dev/zero"];

/// The most directories into which a line is followed. A line that goes to more of them asks about the others.
const MOST_DIRECTORIES: usize = 8;

impl Gate<'_> {
    /// Gets permission for every command of a line and every place outside of the project that it names; answers how
    /// it may run.
    pub(crate) async fn command(&self, line: &str, directory: &Path) -> Result<Grant, Failure> {
        let commands = commands(line);
        let wish = wish(line, &commands);
        let permissions = self.permissions.clone();
        let permissions = if self.seals { permissions } else { permissions.unconfined() };
        let denied = matches!(permissions.judge(&wish), Verdict::Denied(_));
        let away = if denied { None } else { self.places(commands, directory).await? };
        let only_moves = wish.patterns.is_empty();
        let grant = match away {
            // A person who is asked about the line sees where it leads.
            Some(away) => permissions.obtain_both(self.turn, wish, away, self.call).await?,
            None => permissions.obtain(self.turn, wish, self.call).await?,
        };
        Ok(if only_moves && self.seals { Grant::Sealed } else { grant })
    }

    /// What a line needs, all of which has to be allowed. Nobody is asked.
    pub(crate) async fn needs(&self, line: &str, directory: &Path) -> Result<Vec<Wish>, Failure> {
        let commands = commands(line);
        let wish = wish(line, &commands);
        let away = self.places(commands, directory).await?;
        Ok([wish].into_iter().chain(away).collect())
    }

    /// The places outside of the project, if there are any.
    async fn places(&self, commands: Vec<Command>, directory: &Path) -> Result<Option<Wish>, Failure> {
        let (root, directory) = (self.root.clone(), directory.to_owned());
        let readable = self.readable.clone();
        let found = blocking(move || {
            let mut found = all_outside(&root, &directory, &commands);
            found.retain(|path| !readable.iter().any(|known| path.starts_with(known)));
            found
        });
        let found = found.await?;
        Ok((!found.is_empty()).then(|| away(&found)))
    }
}

fn wish(line: &str, commands: &[Command]) -> Wish {
    let asked = || commands.iter().filter(|command| command.opaque || !command.moves());
    let mut always: Vec<String> = Vec::new();
    for pattern in asked().map(Command::always) {
        if !always.contains(&pattern) {
            always.push(pattern);
        }
    }
    Wish {
        permission: "bash".into(),
        patterns: asked().map(Pattern::command).collect(),
        always,
        metadata: object(json!({ "command": line })),
    }
}

/// The directories outside of the project that commands name, from every directory that a `cd` before them may have
/// reached: a link out of the project can be anywhere in it.
fn all_outside(root: &Root, directory: &Path, commands: &[Command]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut reached = vec![directory.to_owned()];
    for command in commands {
        for place in command.places() {
            let outside = reached.iter().filter_map(|directory| outside(root, directory, place));
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
                MOST_DIRECTORIES.. => found.push(path),
                _ => reached.push(path),
            }
        }
    }
    found
}

/// The directory of the project that a `cd` leads to, if there is one.
fn inside(root: &Root, directory: &Path, target: &str) -> Option<PathBuf> {
    let found = root.locate(&directory.join(target).to_string_lossy()).ok()?;
    (found.inside && found.path.is_dir()).then_some(found.path)
}

/// The directory outside of the project that a place is in.
fn outside(root: &Root, directory: &Path, place: Place<'_>) -> Option<PathBuf> {
    let written = Path::new(place.path);
    if DEVICES.contains(&place.path) || place.path.starts_with("/dev/fd/") {
        return None;
    }
    // The shell, not this program, knows where a home is; wherever that is, it is not the project.
    if place.is_home() {
        return Some(above(written));
    }
    let Ok(found) = root.locate(&directory.join(written).to_string_lossy()) else {
        return Some(above(written));
    };
    // What looks like a path is one if there is something, or could be.
    let exists = found.path.exists()
        || found.path.parent().is_some_and(|parent| parent != Path::new("/") && parent.exists());
    if found.inside || !(place.creates || exists) {
        return None;
    }
    Some(if found.path.is_dir() { found.path } else { above(&found.path) })
}

fn above(path: &Path) -> PathBuf {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests;
