//! Programs that misbehave on demand.
//!
//! A [`Fake`] is a shell script with a few functions, so that a test describes a misbehaviour in a line or two. It runs as
//! `/bin/sh FILE`, which accepts the arguments that a driver adds. `say` writes a line, `hear WORDS` reads lines until one
//! contains the words (and exits when the input ends), `hang` never exits, and `linger` exits when its input ends.

use std::path::PathBuf;

use protocol::config::PermissionMode;
use tempfile::TempDir;

use super::lives;
use crate::roster::Program;

/// Shell functions that every fake program has.
const WORDS: &str = r#"
say() { printf '%s\n' "$1"; }
hear() { while read -r line; do case "$line" in *"$1"*) return 0 ;; esac; done; exit 0; }
hang() { while :; do sleep 600; done; }
linger() { cat >/dev/null; }
echo $$ >>"$PIDS"
"#;

/// A program that runs a script of a test.
#[derive(Debug)]
pub(crate) struct Fake {
    directory: TempDir,
}

impl Fake {
    pub(crate) fn new(script: &str) -> Self {
        let fake = Self { directory: TempDir::new().unwrap() };
        fake.becomes(script);
        fake
    }

    /// From its next start on it does something else.
    pub(crate) fn becomes(&self, script: &str) {
        std::fs::write(self.script(), format!("{WORDS}\n{script}\n")).unwrap();
    }

    fn script(&self) -> PathBuf {
        self.directory.path().join("agent.sh")
    }

    /// It as a configured program.
    pub(crate) fn configured(&self) -> Program {
        let file = |name: &str| self.directory.path().join(name).to_str().unwrap().to_owned();
        let variables = [("PIDS", "pids"), ("NOTES", "notes")];
        Program {
            command: vec!["/bin/sh".to_owned(), file("agent.sh")],
            environment: variables.map(|(name, value)| (name.to_owned(), file(value))).into(),
            hidden: Vec::new(),
            mode: PermissionMode::Ask,
            rules: Vec::new(),
            idle: crate::roster::IDLE,
        }
    }

    /// Every process that it noted in `$PIDS`.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.file("pids").lines().map(|id| id.trim().parse().unwrap()).collect()
    }

    /// Tells it something through `$NOTES`.
    pub(crate) fn note(&self, note: &str) {
        std::fs::write(self.directory.path().join("notes"), note).unwrap();
    }

    /// The lines that the program wrote to `$NOTES`.
    pub(crate) fn notes(&self) -> String {
        self.file("notes")
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// Fails if something of it is still there.
    pub(crate) fn assert_gone(&self) {
        let left: Vec<u32> = self.processes().into_iter().filter(|id| lives(&id.to_string())).collect();
        assert!(left.is_empty(), "these processes were left: {left:?}");
    }
}
