//! The npm packages of the peers, at the versions that `e2e/peers/package.json` pins.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{self, program};
use crate::peers::sealed::Sealed;

/// A package with a separate program for each platform.
#[derive(Debug)]
pub(crate) struct Package {
    name: &'static str,
    /// The npm scope of the platform packages.
    scope: &'static str,
    /// Possible paths of the program in a platform package.
    programs: &'static [&'static str],
}

pub(crate) const OPENCODE: Package = Package { name: "opencode-ai", scope: "", programs: &["bin/opencode"] };

pub(crate) const CLAUDE: Package =
    Package { name: "@anthropic-ai/claude-code", scope: "@anthropic-ai", programs: &["claude"] };

pub(crate) const CODEX: Package = Package {
    name: "@openai/codex",
    scope: "@openai",
    programs: &["vendor/x86_64-unknown-linux-musl/bin/codex", "vendor/aarch64-unknown-linux-musl/bin/codex"],
};

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) program: PathBuf,
    /// The pinned version, which the program also reports.
    pub(crate) version: String,
}

/// Installs the packages unless they are installed, and finds the program of one that runs on this machine.
pub(crate) fn find(package: &Package, tests: &Path, dir: &Path, sealed: &Sealed) -> Result<Peer> {
    let manifest = tests.join("package.json");
    let wanted =
        fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let version = pinned(&wanted, package.name)?;
    // The copy is written after a successful installation, so it describes what is installed.
    let copy = dir.join("installed.json");
    if fs::read_to_string(&copy).ok().as_deref() != Some(&wanted) {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        fs::write(dir.join("package.json"), &wanted)?;
        // Package scripts do not run, because they would run outside the namespace, and no lock file names a
        // registry.
        let mut npm = program("npm", dir);
        npm.args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]);
        command::run(&mut npm)?;
        fs::write(&copy, &wanted)?;
    }
    let candidates = binaries(&dir.join("node_modules").join(package.scope), package.programs)?;
    let runs = |path: &PathBuf| {
        says(path, sealed, dir).is_some_and(|answer| answer.split_whitespace().any(|word| word == version))
    };
    let found = candidates.into_iter().find(runs);
    let name = package.name;
    let program = found.with_context(|| format!("no program of {name} {version} runs on this machine"))?;
    Ok(Peer { program, version })
}

/// The exact version in a package.json: a range would test something else tomorrow.
fn pinned(manifest: &str, package: &str) -> Result<String> {
    let manifest: Value = serde_json::from_str(manifest).context("cannot read e2e/peers/package.json")?;
    let version = manifest
        .get("dependencies")
        .and_then(|dependencies| dependencies.get(package)?.as_str())
        .with_context(|| format!("e2e/peers/package.json does not depend on {package}"))?;
    let exact = version.split('.').count() == 3 && version.chars().all(|c| c.is_ascii_digit() || c == '.');
    ensure!(exact, "{package} is pinned to {version:?}; write one exact version");
    Ok(version.to_owned())
}

/// The programs of the platform packages; those for older processors come last.
fn binaries(modules: &Path, programs: &[&str]) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(modules).with_context(|| format!("cannot list {}", modules.display()))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .flat_map(|entry| programs.iter().map(move |program| entry.path().join(program)))
        .filter(|path| path.is_file())
        .collect();
    found.sort_by_key(|path| (path.to_string_lossy().contains("baseline"), path.clone()));
    Ok(found)
}

fn says(program: &Path, sealed: &Sealed, dir: &Path) -> Option<String> {
    let mut command = sealed.program(&program.to_string_lossy(), dir);
    let home = dir.join("home");
    for name in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
        command.env(name, &home);
    }
    let answer = command::capture(command.arg("--version").env("OPENCODE_DISABLE_AUTOUPDATE", "true"));
    answer.ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_exact_version_is_a_pin() {
        let manifest = |version: &str| format!(r#"{{"dependencies":{{"opencode-ai":"{version}"}}}}"#);
        let pinned = |manifest: &str| pinned(manifest, "opencode-ai");
        assert_eq!(pinned(&manifest("1.18.33")).unwrap(), "1.18.33");
        for range in ["^1.18.33", "1.18", "latest", ""] {
            assert!(pinned(&manifest(range)).is_err(), "{range}");
        }
        assert!(pinned("{}").is_err());
    }
}
