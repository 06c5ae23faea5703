//! Rules that no compiler checks: the arrows between rooms, one meaning per type name, the purity of the lifecycle,
//! and the state of the text.
//!
//! A boundary that nothing enforces erodes. So this chore checks every rule of ARCHITECTURE.md that the manifests
//! or the sources show. Rules are pure functions over the data of [`Repo`], and each has a test that plants the
//! mistake.

mod arrows;
mod names;
mod purity;
mod text;
mod unused;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use crate::repo::Repo;

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: Option<usize>,
    message: String,
}

impl Finding {
    fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }

    /// `index` counts from zero, as `enumerate` does; the finding counts from one, as editors do.
    fn at(path: &str, index: usize, message: impl Into<String>) -> Self {
        Self { line: Some(index + 1), ..Self::in_file(path, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// Runs every rule and prints every finding, so that one run shows everything to fix.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    let files = repo.text_files()?;
    let mut findings = arrows::check(repo.metadata())?;
    findings.extend(names::check(&files));
    findings.extend(purity::check(&files));
    findings.extend(text::check(&files, repo.root()));
    findings.extend(unused::check(repo.metadata(), &files)?);
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("{} files, nothing to report", files.len());
            Ok(())
        }
        count => bail!("{count} finding{}", if count == 1 { "" } else { "s" }),
    }
}

/// The identifiers and words of a line, so that `Instant` is not found in `Instantly` nor `await` in `awaits`.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_read_like_compiler_messages() {
        assert_eq!(Finding::at("a.rs", 0, "wrong").to_string(), "a.rs:1: wrong");
        assert_eq!(Finding::in_file("a.rs", "wrong").to_string(), "a.rs: wrong");
    }

    #[test]
    fn words_split_at_everything_that_is_not_part_of_an_identifier() {
        assert_eq!(words("x.await?").collect::<Vec<_>>(), ["x", "await", ""]);
        assert!(words("nothing awaits_here").all(|word| word != "await"));
    }
}
