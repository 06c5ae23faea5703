//! Loads complete configurations from directories, files and an environment.

mod auth;
mod change;
mod entries;
mod errors;
mod instructions;
mod layers;
mod locate;
mod skills;
mod trust;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tempfile::TempDir;

use super::{Environment, Invalid, Loaded, Problem, Site, TrustPolicy, load, redacted};

/// A disk with a home (`me`), a repository (`project`) and a session's directory (`project/sub`).
struct Harness {
    root: TempDir,
    environment: Environment,
}

impl Harness {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["me", "project/sub", "etc"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        let mut environment = Environment::of([("HOME", root.path().join("me"))]);
        environment.managed = Some(root.path().join("etc"));
        Self { root, environment }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// Writes files; `§` in a text is replaced by the root.
    fn with(self, files: &[(&str, &str)]) -> Self {
        for (path, text) in files {
            let path = self.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace('§', &self.root.path().to_string_lossy())).unwrap();
        }
        self
    }

    fn set(mut self, variables: &[(&str, &str)]) -> Self {
        for (name, value) in variables {
            let value = value.replace('§', &self.root.path().to_string_lossy());
            self.environment.variables.insert((*name).to_owned(), value.into());
        }
        self
    }

    fn site(&self) -> Site {
        Site { directory: self.at("project/sub"), worktree: self.at("project") }
    }

    fn load(&self) -> Result<Loaded, Invalid> {
        load(&self.environment, &self.site(), &TrustPolicy::trusting())
    }

    /// The configuration of a directory that the user does not trust.
    fn load_untrusted(&self) -> Loaded {
        load(&self.environment, &self.site(), &TrustPolicy::strict()).unwrap()
    }

    /// The configuration that clients see.
    fn config(&self) -> Value {
        match self.load() {
            Ok(loaded) => redacted(&loaded.config),
            Err(invalid) => panic!("{}", self.plain(&invalid.to_string())),
        }
    }

    /// A text with the root replaced, so that it does not depend on its path.
    fn plain(&self, text: &str) -> String {
        text.replace(&*self.root.path().to_string_lossy(), "@")
    }

    fn told(&self, problems: &[Problem]) -> String {
        let told: Vec<String> = problems.iter().map(|problem| self.plain(&problem.to_string())).collect();
        told.join("\n")
    }

    fn relative(&self, paths: &[PathBuf]) -> Vec<String> {
        let below = |path: &PathBuf| {
            path.strip_prefix(self.root.path()).map(Path::to_path_buf).unwrap_or(path.clone())
        };
        paths.iter().map(|path| below(path).to_string_lossy().into_owned()).collect()
    }
}
