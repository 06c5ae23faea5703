//! Runs git without running programs of the repository.
//!
//! A repository can make git run programs: hooks, a file system monitor, filters, external diffs, text
//! conversions and signature verifiers. The configuration that names them is in the repository and may come
//! from another user, and many calls happen only because a client looks at a directory. So every call gets
//! [`SETTINGS`], which nothing in a repository overrides, and calls that compare files also get
//! [`without_filters`].

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::DEADLINE;
use crate::process::{self, Bounds, Exit, Spec};

/// Variables that would point git at another repository.
pub(super) const REDIRECTIONS: [&str; 4] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"];

/// Key and value of a git setting.
pub(super) type Setting = (String, String);

/// Settings of every call except commits: no program of the repository runs, and a directory that looks like a
/// bare repository is not one.
const SETTINGS: [(&str, &str); 5] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("gc.auto", "0"),
    ("log.showSignature", "false"),
    ("safe.bareRepository", "explicit"),
];

/// Settings of a commit, which runs the repository's hooks.
const COMMIT: [(&str, &str); 3] =
    [("core.fsmonitor", "false"), ("log.showSignature", "false"), ("safe.bareRepository", "explicit")];

/// Scopes of settings that the repository controls.
const REPOSITORY_SCOPES: [&str; 2] = ["local", "worktree"];

/// Most bytes of git's output that are kept.
const MAX_ANSWER: usize = 64 * 1024;

/// Longest error message of git that is passed on, in characters.
const MAX_COMPLAINT: usize = 1_000;

/// An error of git.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("git {command}: {complaint}")]
    Refused {
        command: String,
        /// Git's error message.
        complaint: String,
    },
    #[error("git {command} took longer than {} seconds and was ended", .deadline.as_secs())]
    TooSlow { command: String, deadline: Duration },
    /// The output exceeds its bound.
    #[error("git {command} answered with more than {most} bytes")]
    TooMuch {
        command: String,
        /// The bound in bytes.
        most: usize,
    },
    /// Git could not be run.
    #[error(transparent)]
    Process(#[from] process::Error),
}

/// Git's output; `None` on any failure.
pub(super) async fn ask(directory: &Path, args: &[&str]) -> Option<String> {
    let done = call(directory, args, &[], DEADLINE, MAX_ANSWER, true).await.ok()?;
    (done.exit == Exit::Code(0)).then(|| done.output.text())
}

/// Git's output within the given bound, or an error. `accepted` are exit codes besides 0 that are no failure.
pub(super) async fn answer(
    directory: &Path,
    args: &[&str],
    most: usize,
    accepted: &[i32],
) -> Result<String, Error> {
    compare(directory, args, &[], most, accepted).await
}

/// Like [`answer`] with additional settings: those of [`without_filters`], for calls that read files.
pub(super) async fn compare(
    directory: &Path,
    args: &[&str],
    more: &[Setting],
    most: usize,
    accepted: &[i32],
) -> Result<String, Error> {
    let done = call(directory, args, more, DEADLINE, most, true).await?;
    let command = || args.first().copied().unwrap_or_default().to_owned();
    match done.exit {
        Exit::Code(code) if code == 0 || accepted.contains(&code) => {
            if done.output.omitted() > 0 {
                return Err(Error::TooMuch { command: command(), most });
            }
            Ok(done.output.text())
        }
        Exit::DeadlinePassed => Err(Error::TooSlow { command: command(), deadline: DEADLINE }),
        exit => Err(Error::Refused { command: command(), complaint: format!("{exit:?}") }),
    }
}

/// Runs a git command and returns its output.
pub(super) async fn run(directory: &Path, args: &[&str], deadline: Duration) -> Result<String, Error> {
    outcome(&call(directory, args, &[], deadline, MAX_ANSWER, false).await?, args, deadline)
}

/// Settings that disable filters defined by the repository. Those of the user, usually Git LFS, stay enabled.
pub(super) async fn without_filters(directory: &Path) -> Result<Vec<Setting>, Error> {
    let args = ["config", "--show-scope", "--name-only", "-z", "--get-regexp", r"^filter\."];
    // Exit code 1 means that there is none.
    let answer = answer(directory, &args, MAX_ANSWER, &[1]).await?;
    let mut words = answer.split('\0');
    let mut settings = Vec::new();
    while let (Some(scope), Some(key)) = (words.next(), words.next()) {
        if REPOSITORY_SCOPES.contains(&scope) {
            let off = if key.ends_with(".required") { "false" } else { "" };
            settings.push((key.to_owned(), off.to_owned()));
        }
    }
    Ok(settings)
}

/// Environment with the settings of a commit.
pub(super) fn for_commit() -> Vec<(OsString, OsString)> {
    given(COMMIT.into_iter())
}

/// Environment that passes settings to git. Unlike `-c`, it allows any key.
fn given<'s>(settings: impl ExactSizeIterator<Item = (&'s str, &'s str)>) -> Vec<(OsString, OsString)> {
    let mut environment = vec![("GIT_CONFIG_COUNT".into(), settings.len().to_string().into())];
    for (index, (key, value)) in settings.enumerate() {
        environment.push((format!("GIT_CONFIG_KEY_{index}").into(), key.into()));
        environment.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
    }
    environment
}

/// Git's output, or its error.
pub(super) fn outcome(done: &process::Done, args: &[&str], deadline: Duration) -> Result<String, Error> {
    let command = args.first().copied().unwrap_or_default().to_owned();
    match done.exit {
        Exit::Code(0) => Ok(done.output.text()),
        Exit::DeadlinePassed => Err(Error::TooSlow { command, deadline }),
        _ => {
            let complaint = done.output.text().trim().chars().take(MAX_COMPLAINT).collect();
            Err(Error::Refused { command, complaint })
        }
    }
}

async fn call(
    directory: &Path,
    args: &[&str],
    more: &[Setting],
    deadline: Duration,
    most: usize,
    mute: bool,
) -> Result<process::Done, process::Error> {
    let mut spec = Spec::new("git", directory, deadline).args(args).hide(REDIRECTIONS);
    spec.bounds = Bounds { head: most, tail: 0 };
    spec.mute_errors = mute;
    spec.environment = vec![
        ("GIT_OPTIONAL_LOCKS".into(), "0".into()),
        // There is no terminal to type a password.
        ("GIT_TERMINAL_PROMPT".into(), "0".into()),
        ("LC_ALL".into(), "C".into()),
    ];
    let more = more.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let settings: Vec<(&str, &str)> = SETTINGS.into_iter().chain(more).collect();
    spec.environment.extend(given(settings.into_iter()));
    process::run(spec, &CancellationToken::new(), |_| {}).await
}
