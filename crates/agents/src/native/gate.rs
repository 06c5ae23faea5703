//! Whether somebody may do something in a project: a tool of the native loop, or somebody else's agent that has asked.

mod command;

use std::path::{Path, PathBuf};

use engine::session::Turn;
use protocol::{Extra, Session};
use serde_json::json;
use workspace::files::{Closed, Root};

use super::permission::{Pattern, Permissions, Wish};
use super::system;
use super::tools::{Failure, blocking, object};

/// Where a session's files are, without the closed places.
pub(crate) fn root(session: &Session, closed: &Closed) -> Result<Root, String> {
    Root::within(Path::new(&session.directory), Path::new(system::worktree(session)))
        .and_then(|root| root.without(closed))
        .map_err(|error| format!("the session's directory cannot be used: {error}"))
}

/// Whoever wants something, where, under which rules, and whom to ask.
pub(crate) struct Gate<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) root: &'a Root,
    pub(crate) permissions: &'a Permissions,
    /// Directories outside of the project that may be read without asking.
    pub(crate) readable: Vec<PathBuf>,
    /// The call that waits.
    pub(crate) call: Option<&'a str>,
}

impl Gate<'_> {
    /// Where a path leads; a person is asked if that is outside of the project, unless somebody only looks where that
    /// is known to be no secret.
    pub(crate) async fn locate(&self, path: &str, looks: bool) -> Result<PathBuf, Failure> {
        let (root, text) = (self.root.clone(), path.to_owned());
        let place = blocking(move || root.locate(&text)).await??;
        let known = || looks && self.readable.iter().any(|directory| place.path.starts_with(directory));
        if !place.inside && !known() {
            let parent = if place.path.is_dir() {
                place.path.as_path()
            } else {
                place.path.parent().unwrap_or(&place.path)
            };
            self.permissions.get(self.turn, away(&[parent.to_owned()]), self.call).await?;
        }
        Ok(place.path)
    }

    /// Asks to do something with files.
    pub(crate) async fn permit(
        &self,
        permission: &'static str,
        paths: &[PathBuf],
        metadata: Extra,
    ) -> Result<(), Failure> {
        let relative = |path: &PathBuf| Pattern::plain(self.root.relative(Path::new(path)));
        let wish = Wish {
            permission: permission.into(),
            patterns: paths.iter().map(relative).collect(),
            always: vec!["*".to_owned()],
            metadata,
        };
        self.permissions.get(self.turn, wish, self.call).await
    }
}

/// The wish to use directories outside of the project.
pub(crate) fn away(directories: &[PathBuf]) -> Wish {
    let patterns: Vec<String> =
        directories.iter().map(|path| path.join("*").to_string_lossy().into_owned()).collect();
    let names: Vec<String> = directories.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    Wish {
        permission: "external_directory".into(),
        patterns: patterns.iter().cloned().map(Pattern::plain).collect(),
        always: patterns,
        metadata: object(json!({ "filepath": names.join(", "), "parentDir": names.join(", ") })),
    }
}
