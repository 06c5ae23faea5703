//! Runs git for a shadow.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::index::Index;
use crate::process::{self, Bounds, Exit, Output, Spec};

/// Most output that is read from git, in bytes: enough for the names of some hundred thousand files.
const MAX_OUTPUT: usize = 16 * 1024 * 1024;

/// Last resort; callers have shorter deadlines.
const DEADLINE: Duration = Duration::from_mins(2);

/// Variables that would point git at other data or change its behaviour.
const HIDDEN: [&str; 25] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_SYSTEM",
    "GIT_DEFAULT_HASH",
    "GIT_DIFF_OPTS",
    "GIT_EXTERNAL_DIFF",
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_INDEX_VERSION",
    "GIT_LITERAL_PATHSPECS",
    "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_TEMPLATE_DIR",
    "GIT_TRACE",
    "GIT_TRACE2",
    "GIT_TRACE_SETUP",
];

/// Settings of every call: no conversion, file system monitor or advice.
const SETTINGS: [&str; 8] = [
    "core.autocrlf=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "core.untrackedCache=true",
    "advice.addEmbeddedRepo=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Errors of snapshots.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Git is missing or cannot be run.
    #[error(transparent)]
    Start(#[from] process::Error),
    #[error("`git {command}` failed: {message}")]
    Failed {
        command: String,
        /// Git's error message.
        message: String,
    },
    /// The operation missed its deadline.
    #[error("the operation took longer than {} seconds", after.as_secs())]
    Late {
        /// The deadline that passed.
        after: Duration,
    },
    /// The shadow's files cannot be read or written.
    #[error("cannot store snapshots of this worktree: {0}")]
    Files(#[from] std::io::Error),
    /// The caller cancelled the operation.
    #[error("the operation was cancelled")]
    Stopped,
}

impl Error {
    pub(super) fn odd(command: &str) -> Self {
        Self::Failed { command: command.to_owned(), message: "unexpected output".to_owned() }
    }
}

/// A shadow and its worktree.
#[derive(Debug, Clone)]
pub(super) struct Git {
    pub(super) directory: PathBuf,
    pub(super) worktree: PathBuf,
}

/// Git with a particular index.
#[derive(Debug)]
pub(super) struct Onto<'a> {
    pub(super) git: &'a Git,
    index: PathBuf,
    cancel: &'a CancellationToken,
}

impl Git {
    /// For commands that use no index or only read the kept one.
    pub(super) fn plain<'a>(&'a self, cancel: &'a CancellationToken) -> Onto<'a> {
        Onto { git: self, index: self.directory.join("index"), cancel }
    }

    /// For commands that read and write an index.
    pub(super) fn on<'a>(&'a self, index: &Index, cancel: &'a CancellationToken) -> Onto<'a> {
        Onto { git: self, index: index.path().to_owned(), cancel }
    }
}

impl Onto<'_> {
    /// Git's standard output.
    pub(super) async fn read(&self, args: &[&str]) -> Result<String, Error> {
        self.read_any(args, &[0]).await
    }

    /// Git's standard output. The exit codes `fine` are no failure.
    pub(super) async fn read_any(&self, args: &[&str], fine: &[i32]) -> Result<String, Error> {
        let output = self.output(args, fine, MAX_OUTPUT).await?;
        if output.omitted() > 0 {
            let message = format!("its output exceeds {MAX_OUTPUT} bytes");
            return Err(Error::Failed { command: subcommand(args), message });
        }
        Ok(output.text())
    }

    /// Git's standard output, up to a limit.
    pub(super) async fn read_some(&self, args: &[&str], most: usize) -> Result<Output, Error> {
        self.output(args, &[0], most).await
    }

    async fn output(&self, args: &[&str], fine: &[i32], most: usize) -> Result<Output, Error> {
        let mut spec = self.spec(args);
        spec.bounds = Bounds { head: most, tail: 0 };
        spec.mute_errors = true;
        Ok(self.finish(spec, args, fine).await?.1)
    }

    /// Runs a command and returns its exit code. The exit codes `fine` are no failure.
    pub(super) async fn run(&self, args: &[&str], fine: &[i32]) -> Result<i32, Error> {
        let mut spec = self.spec(args);
        spec.bounds = Bounds { head: 4 * 1024, tail: 4 * 1024 };
        Ok(self.finish(spec, args, fine).await?.0)
    }

    fn spec(&self, args: &[&str]) -> Spec {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
        let mut spec = Spec::new("git", &self.git.worktree, DEADLINE).args(settings).args(args).hide(HIDDEN);
        let set = |name: &str, value: OsString| (OsString::from(name), value);
        spec.environment = vec![
            set("GIT_DIR", self.git.directory.clone().into()),
            set("GIT_WORK_TREE", self.git.worktree.clone().into()),
            set("GIT_INDEX_FILE", self.index.clone().into()),
            set("GIT_CONFIG_NOSYSTEM", "1".into()),
            set("GIT_CONFIG_GLOBAL", "/dev/null".into()),
            set("GIT_ATTR_NOSYSTEM", "1".into()),
            set("GIT_TERMINAL_PROMPT", "0".into()),
            set("LC_ALL", "C".into()),
        ];
        spec
    }

    async fn finish(&self, spec: Spec, args: &[&str], fine: &[i32]) -> Result<(i32, Output), Error> {
        let done = process::run(spec, self.cancel, |_| {}).await?;
        let message = match done.exit {
            Exit::Code(code) if fine.contains(&code) => return Ok((code, done.output)),
            Exit::Cancelled => return Err(Error::Stopped),
            Exit::DeadlinePassed => return Err(Error::Late { after: DEADLINE }),
            Exit::Signal(signal) => format!("killed by signal {signal}"),
            Exit::Code(code) => match done.output.text().trim() {
                "" => format!("exit code {code}"),
                said => said.to_owned(),
            },
        };
        Err(Error::Failed { command: subcommand(args), message })
    }
}

fn subcommand(args: &[&str]) -> String {
    args.first().copied().unwrap_or_default().to_owned()
}
