//! The committed `OpenAPI` document: written from the server's route table, and checked for drift.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::command::{capture, cargo};
use crate::repo::Repo;
use crate::share;

pub(crate) const DOCUMENT: &str = "docs/openapi.json";

/// Writes the document, or with `check` compares it with the route table.
pub(crate) fn run(repo: &Repo, check: bool) -> Result<()> {
    let path: PathBuf = repo.root().join(DOCUMENT);
    let mut generated = capture(cargo(repo.root()).args(["run", "--quiet", "-p", "cli", "--", "openapi"]))?;
    if !generated.ends_with('\n') {
        generated.push('\n');
    }
    if !check {
        std::fs::write(&path, generated).with_context(|| format!("cannot write {DOCUMENT}"))?;
        println!("wrote {DOCUMENT}");
        return share::write(repo);
    }
    let committed = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {DOCUMENT}; `cargo xtask openapi` writes it"))?;
    match first_difference(&committed, &generated) {
        None => share::check(repo),
        Some(line) => {
            bail!("{DOCUMENT}:{line} differs from the code; run `cargo xtask openapi` and commit the result")
        }
    }
}

/// The first line, counted from one, where two texts differ.
fn first_difference(left: &str, right: &str) -> Option<usize> {
    if left == right {
        return None;
    }
    let same = left.lines().zip(right.lines()).take_while(|(left, right)| left == right).count();
    Some(same + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_documents_do_not_differ() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    }

    #[test]
    fn the_first_differing_line_is_named_even_at_the_end() {
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
        assert_eq!(first_difference("", "a\n"), Some(1));
    }
}
