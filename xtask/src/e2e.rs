//! The end-to-end tests: real clients, written in JavaScript, against a freshly built binary.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use crate::command::{self, program};
use crate::repo::Repo;

/// Installs the tests' dependencies, builds the server and runs `node --test`.
pub(crate) fn run(repo: &Repo, args: &[String]) -> Result<()> {
    let dir = repo.root().join("e2e");
    ensure!(dir.join("package.json").is_file(), "there is no e2e/package.json");
    install(&dir)?;
    let (baton, platforms) = repo.build_for_tests("platforms")?;
    // Test files wait far more than they work, so more of them run concurrently than there are cores.
    let mut node = program("node", &dir);
    node.args(["--test", "--test-concurrency=4"]).args(chosen(&dir, args)?);
    command::run(node.env("BATON_BIN", baton).env("PLATFORMS_BIN", platforms))
}

/// The arguments for `node --test`, and all test files of the directory unless the arguments name some. Without
/// files, node would also search subdirectories, whose tests need another environment.
pub(crate) fn chosen(dir: &Path, args: &[String]) -> Result<Vec<OsString>> {
    let mut words: Vec<OsString> = args.iter().map(OsString::from).collect();
    if args.iter().any(|arg| Path::new(arg).extension().is_some_and(|it| it == "mjs")) {
        return Ok(words);
    }
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let is_test = |name: &OsString| name.to_string_lossy().ends_with(".test.mjs");
    let mut files: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).filter(is_test).collect();
    files.sort();
    words.append(&mut files);
    Ok(words)
}

/// Installs the tests' dependencies.
pub(crate) fn install(dir: &Path) -> Result<()> {
    let lock = dir.join("package-lock.json");
    if !lock.is_file() {
        return command::run(program("npm", dir).args(["install", "--no-audit", "--no-fund"]));
    }
    // npm writes this file last, so its date is the date of the installation.
    let installed = dir.join("node_modules/.package-lock.json");
    if is_current(modified(&lock), modified(&installed)) {
        return Ok(());
    }
    // Not `npm ci`: it refuses a lock file without the packages of other platforms, which not every registry has.
    let install = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"];
    command::run(program("npm", dir).args(install))
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

/// Installing takes long, so it runs only when the lock file is newer than its result.
fn is_current(lock: Option<SystemTime>, installed: Option<SystemTime>) -> bool {
    matches!((lock, installed), (Some(lock), Some(installed)) if installed >= lock)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_files_are_chosen_unless_some_are_named() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.test.mjs", "a.test.mjs", "support.mjs", "package.json"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(chosen(dir.path(), &[]).unwrap(), ["a.test.mjs", "b.test.mjs"]);
        assert_eq!(chosen(dir.path(), &["a.test.mjs".to_owned()]).unwrap(), ["a.test.mjs"]);
        let filter = "--test-only".to_owned();
        assert_eq!(chosen(dir.path(), &[filter]).unwrap(), ["--test-only", "a.test.mjs", "b.test.mjs"]);
    }

    #[test]
    fn an_installation_is_current_until_the_lock_file_changes() {
        let earlier = SystemTime::UNIX_EPOCH;
        let later = earlier + Duration::from_secs(1);
        assert!(is_current(Some(earlier), Some(later)));
        assert!(is_current(Some(earlier), Some(earlier)));
        assert!(!is_current(Some(later), Some(earlier)));
        assert!(!is_current(Some(later), None));
    }
}
