//! The spelling check, by `typos`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    command::{present, program, run},
    repo::Repo,
};

/// Pinned, so that a new dictionary does not fail an old commit.
const VERSION: &str = "1.51.1";

/// Checks the spelling of sources and documents. Returns false if `typos` is neither installed nor can be installed.
pub(crate) fn check(repo: &Repo) -> Result<bool> {
    let Some(typos) = find(repo) else { return Ok(false) };
    run(&mut program(&typos.to_string_lossy(), repo.root()))?;
    Ok(true)
}

/// Finds `typos` on the PATH or in the target directory, or installs it there from the Python package index: a wheel
/// holds the finished binary, so this takes seconds.
fn find(repo: &Repo) -> Option<PathBuf> {
    let tools = repo.target().join("tools");
    let installed = tools.join("bin/typos");
    let works = |path: &Path| present(program(&path.to_string_lossy(), repo.root()).arg("--version"));
    if let Some(found) = [Path::new("typos"), &installed].into_iter().find(|path| works(path)) {
        return Some(found.to_owned());
    }
    let mut install = program("python3", repo.root());
    install
        .args(["-m", "pip", "install", "--quiet", "--target"])
        .arg(&tools)
        .arg(format!("typos=={VERSION}"));
    (present(&mut install) && works(&installed)).then_some(installed)
}
