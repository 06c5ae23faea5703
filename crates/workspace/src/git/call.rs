//! Calling git.

use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::DEADLINE;
use crate::process::{self, Bounds, Exit, Spec};

/// Variables that would make git talk about another repository than the one that was asked about.
pub(super) const REDIRECTIONS: [&str; 4] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"];

/// Most of an answer that is kept.
const MAX_ANSWER: usize = 64 * 1024;

/// Most of a complaint that is passed on, in characters.
const MAX_COMPLAINT: usize = 1_000;

/// Something that git would not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It said why.
    #[error("git {command}: {complaint}")]
    Refused {
        /// What it was asked to do.
        command: String,
        /// What it said.
        complaint: String,
    },
    /// It took too long.
    #[error("git {command} took longer than {} seconds and was ended", .deadline.as_secs())]
    TooSlow {
        /// What it was asked to do.
        command: String,
        /// How long it had.
        deadline: Duration,
    },
    /// It answered with more than is kept.
    #[error("git {command} answered with more than {most} bytes")]
    TooMuch {
        /// What it was asked to do.
        command: String,
        /// How much is kept.
        most: usize,
    },
    /// It could not be run.
    #[error(transparent)]
    Process(#[from] process::Error),
}

/// What git answers, if it does.
pub(super) async fn ask(directory: &Path, args: &[&str]) -> Option<String> {
    let done = call(directory, args, DEADLINE, MAX_ANSWER, true).await.ok()?;
    (done.exit == Exit::Code(0)).then(|| done.output.text())
}

/// What git answers within bounds of its own, or why it does not. `accepted` are codes besides 0 that are no failure.
pub(super) async fn answer(
    directory: &Path,
    args: &[&str],
    most: usize,
    accepted: &[i32],
) -> Result<String, Error> {
    let done = call(directory, args, DEADLINE, most, true).await?;
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

/// Has git do something; answers with what it said about it.
pub(super) async fn run(directory: &Path, args: &[&str], deadline: Duration) -> Result<String, Error> {
    outcome(&call(directory, args, deadline, MAX_ANSWER, false).await?, args, deadline)
}

/// What git said, or why it failed.
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
    deadline: Duration,
    most: usize,
    mute: bool,
) -> Result<process::Done, process::Error> {
    let mut spec = Spec::new("git", directory, deadline).args(args).hide(REDIRECTIONS);
    spec.bounds = Bounds { head: most, tail: 0 };
    spec.mute_errors = mute;
    spec.environment = vec![
        ("GIT_OPTIONAL_LOCKS".into(), "0".into()),
        // Nobody is there to type a password.
        ("GIT_TERMINAL_PROMPT".into(), "0".into()),
        ("LC_ALL".into(), "C".into()),
    ];
    process::run(spec, &CancellationToken::new(), |_| {}).await
}
