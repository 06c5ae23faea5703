//! Permission checks for file access, shared by the tools of the native loop and the drivers of external agents.

mod command;

use std::path::{Path, PathBuf};

use engine::session::Turn;
use protocol::{Extra, Session};
use serde_json::json;
use workspace::files::{Closed, Root};

use super::permission::{Pattern, PermissionCheck, Permissions};
use super::protected;
use super::{ToolFailure, blocking, object};

/// Returns the root of a session's files: its directory in its worktree, without the closed paths.
pub fn root(session: &Session, closed: &Closed) -> Result<Root, String> {
    Root::within(Path::new(&session.directory), Path::new(session.worktree()))
        .and_then(|root| root.without(closed))
        .map_err(|error| format!("cannot use the session's directory: {error}"))
}

/// A file to change.
#[derive(Debug, Clone)]
pub struct Target {
    /// The path as the agent wrote it.
    pub written: String,
    /// The resolved path of the file.
    pub path: PathBuf,
}

/// The use of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    /// Anything else, such as changing a file or running a command in a directory.
    Write,
}

/// The context of a permission check: the turn, the project and the rules.
#[derive(Debug)]
pub struct Gate<'a> {
    pub turn: &'a Turn,
    pub root: &'a Root,
    pub permissions: &'a Permissions,
    /// Directories outside of the project that may be read without asking.
    pub readable: Vec<PathBuf>,
    /// True if Baton runs permitted commands itself and can use a sealed sandbox.
    pub seals: bool,
    /// The id of the tool call that waits for the permission.
    pub call: Option<&'a str>,
}

impl Gate<'_> {
    /// Resolves a path. A path outside of the project needs a permission, unless it is only read and lies in a
    /// readable directory.
    pub async fn locate(&self, path: &str, access: Access) -> Result<PathBuf, ToolFailure> {
        let (root, text) = (self.root.clone(), path.to_owned());
        let place = blocking(move || root.locate(&text)).await??;
        let is_readable = || self.readable.iter().any(|directory| place.path.starts_with(directory));
        if !(place.inside || access == Access::Read && is_readable()) {
            let parent = if place.path.is_dir() {
                place.path.as_path()
            } else {
                place.path.parent().unwrap_or(&place.path)
            };
            self.permissions
                .require(self.turn, external_directory_check(&[parent.to_owned()]), self.call)
                .await?;
        }
        Ok(place.path)
    }

    /// Gets a permission to access files.
    pub async fn permit(
        &self,
        permission: &'static str,
        paths: &[PathBuf],
        metadata: Extra,
    ) -> Result<(), ToolFailure> {
        let relative = |path: &PathBuf| Pattern::plain(self.root.relative(Path::new(path)));
        let check = PermissionCheck {
            permission: permission.into(),
            patterns: paths.iter().map(relative).collect(),
            always: vec!["*".to_owned()],
            metadata,
        };
        self.permissions.require(self.turn, check, self.call).await
    }

    /// Gets a permission to change files.
    pub async fn permit_edit(&self, targets: Vec<Target>, metadata: Extra) -> Result<(), ToolFailure> {
        let root = self.root.clone();
        let check = blocking(move || edit_check(&root, &targets, metadata)).await?;
        self.permissions.require(self.turn, check, self.call).await
    }
}

/// Builds the permission request for changing files. For a protected file, `always` allows only that file again.
/// Reads the file system, so it may block for a moment.
pub(crate) fn edit_check(root: &Root, targets: &[Target], mut metadata: Extra) -> PermissionCheck {
    let pattern = |target: &Target| {
        Pattern::file(root.relative(&target.path), protected::guard(root, &target.written, &target.path))
    };
    let patterns: Vec<Pattern> = targets.iter().map(pattern).collect();
    let always = if patterns.iter().any(|pattern| pattern.guard.is_some()) {
        metadata.insert("protected".to_owned(), true.into());
        // As a pattern, a name with a wildcard would also allow other files.
        let texts = patterns.iter().map(|pattern| pattern.text.clone());
        texts.filter(|text| !protected::has_wildcard(text)).collect()
    } else {
        vec!["*".to_owned()]
    };
    PermissionCheck { permission: "edit".into(), patterns, always, metadata }
}

/// Builds the permission request for directories outside of the project.
pub fn external_directory_check(directories: &[PathBuf]) -> PermissionCheck {
    let patterns: Vec<String> =
        directories.iter().map(|path| path.join("*").to_string_lossy().into_owned()).collect();
    let names: Vec<String> = directories.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    PermissionCheck {
        permission: "external_directory".into(),
        patterns: patterns.iter().cloned().map(Pattern::plain).collect(),
        always: patterns,
        metadata: object(json!({ "filepath": names.join(", "), "parentDir": names.join(", ") })),
    }
}
