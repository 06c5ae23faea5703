//! Whether somebody may do something in a project: a tool of the native loop, or somebody else's agent that has asked.

mod command;

use std::path::{Path, PathBuf};

use engine::session::Turn;
use protocol::{Extra, Session};
use serde_json::json;
use workspace::files::{Closed, Root};

use super::permission::{Pattern, Permissions, Wish};
use super::protected;
use super::system;
use super::tools::{Failure, blocking, object};

/// Where a session's files are, without the closed places.
pub(crate) fn root(session: &Session, closed: &Closed) -> Result<Root, String> {
    Root::within(Path::new(&session.directory), Path::new(system::worktree(session)))
        .and_then(|root| root.without(closed))
        .map_err(|error| format!("the session's directory cannot be used: {error}"))
}

/// A file that is to be changed.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The path that the agent wrote.
    pub(crate) written: String,
    /// The file that it leads to.
    pub(crate) path: PathBuf,
}

/// Whoever wants something, where, under which rules, and whom to ask.
pub(crate) struct Gate<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) root: &'a Root,
    pub(crate) permissions: &'a Permissions,
    /// Directories outside of the project that may be read without asking.
    pub(crate) readable: Vec<PathBuf>,
    /// Whether commands that are permitted are run by us, in a sealed sandbox if need be.
    pub(crate) seals: bool,
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

    /// Asks to change files.
    pub(crate) async fn permit_edit(&self, targets: Vec<Target>, metadata: Extra) -> Result<(), Failure> {
        let root = self.root.clone();
        let wish = blocking(move || edit(&root, &targets, metadata)).await?;
        self.permissions.get(self.turn, wish, self.call).await
    }
}

/// The wish to change files. For a protected file, `always` allows the same file again and nothing else. Looks at the
/// file system, so it may block for a moment.
pub(crate) fn edit(root: &Root, targets: &[Target], mut metadata: Extra) -> Wish {
    let pattern = |target: &Target| {
        Pattern::file(root.relative(&target.path), protected::guard(root, &target.written, &target.path))
    };
    let patterns: Vec<Pattern> = targets.iter().map(pattern).collect();
    let always = if patterns.iter().any(|pattern| pattern.guard.is_some()) {
        metadata.insert("protected".to_owned(), true.into());
        // As a pattern, a name with a wildcard in it would allow other files, too.
        let texts = patterns.iter().map(|pattern| pattern.text.clone());
        texts.filter(|text| !protected::has_wildcard(text)).collect()
    } else {
        vec!["*".to_owned()]
    };
    Wish { permission: "edit".into(), patterns, always, metadata }
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
