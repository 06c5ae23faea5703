//! The repository: its location, its cargo metadata and its files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;

/// An opened workspace.
#[derive(Debug)]
pub(crate) struct Repo {
    root: PathBuf,
    metadata: Value,
}

/// A text file of the repository, named relative to its root with forward slashes.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Repo {
    /// Asks cargo for the workspace at run time: a path baked in at compile time would be wrong in a second clone
    /// that shares the target directory.
    pub(crate) fn open() -> Result<Self> {
        let here = std::env::current_dir().context("cannot tell the current directory")?;
        let json =
            command::capture(command::cargo(&here).args(["metadata", "--format-version", "1", "--no-deps"]))?;
        let metadata: Value = serde_json::from_str(&json).context("cannot read `cargo metadata`")?;
        let root = metadata
            .get("workspace_root")
            .and_then(Value::as_str)
            .context("`cargo metadata` names no workspace root")?
            .into();
        Ok(Self { root, metadata })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's target directory, also used for other files that are not committed.
    pub(crate) fn target(&self) -> PathBuf {
        let named = self.metadata.get("target_directory").and_then(Value::as_str);
        named.map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    pub(crate) fn metadata(&self) -> &Value {
        &self.metadata
    }

    /// Builds the release binary and returns its path, whatever target directory is in use. `BATON_BIN` names one that
    /// exists already.
    pub(crate) fn build_release(&self) -> Result<PathBuf> {
        if let Some(built) = std::env::var_os("BATON_BIN") {
            return std::path::absolute(&built).context("BATON_BIN names no file");
        }
        let mut build = command::cargo(&self.root);
        build.args([
            "build",
            "-p",
            "cli",
            "--profile",
            "dist",
            "--message-format",
            "json-render-diagnostics",
        ]);
        let messages = command::capture(&mut build)?;
        executable(&messages, "baton").context("cargo built no `baton` executable")
    }

    /// Builds the program and one of testkit's test programs; returns the path of each.
    pub(crate) fn build_for_tests(&self, tester: &str) -> Result<(PathBuf, PathBuf)> {
        let mut build = command::cargo(&self.root);
        build.args(["build", "-p", "cli", "-p", "testkit", "--bin", "baton", "--bin", tester]);
        let messages = command::capture(build.args(["--message-format", "json-render-diagnostics"]))?;
        let found = |name| executable(&messages, name).with_context(|| format!("cargo built no `{name}`"));
        Ok((found("baton")?, found(tester)?))
    }

    /// Every text file that is tracked, or new and not ignored: a file that is about to be committed should fail
    /// here and not only after the commit.
    pub(crate) fn text_files(&self) -> Result<Vec<TextFile>> {
        let listing = command::capture(command::program("git", &self.root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        // A tracked file that was just deleted, and binary files, have no text to check.
        let files = paths.into_iter().filter_map(|path| {
            let text = std::fs::read_to_string(self.root.join(path)).ok()?;
            Some(TextFile { path: path.to_owned(), text })
        });
        Ok(files.collect())
    }
}

/// Finds the path of an executable in cargo's line-by-line JSON messages.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|message| {
        let target = message.get("target")?.get("name")?.as_str()?;
        let path = message.get("executable")?.as_str()?;
        (target == name).then(|| path.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_other_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"cli"},"executable":null}"#,
            "\n",
            "not json\n",
            r#"{"reason":"compiler-artifact","target":{"name":"baton"},"executable":"/target/debug/baton"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages, "baton"), Some("/target/debug/baton".into()));
        assert_eq!(executable(messages, "other"), None);
    }
}
