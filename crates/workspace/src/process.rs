//! Runs child processes and ends them reliably.
//!
//! All child processes start here: [`run`] for programs that end, [`start`] for programs that stay and exchange
//! messages. Three rules hold for [`run`]:
//!
//! - It ends. A deadline and a cancellation token end the whole process tree: first with `SIGTERM`, after
//!   [`GRACE`] with `SIGKILL`. Dropping the future kills at once.
//! - It finishes when the direct child exits, plus a short drain of the pipe. A grandchild that holds the pipe
//!   open (`server &`) does not block the caller. It may keep running, as in a terminal.
//! - Its output is bounded: the beginning and the end are kept, the middle is counted. The whole output can go
//!   to a file, which is bounded, too.
//!
//! Optionally it runs in a [`Sandbox`], or not at all, restores the files that [`Spec::kept`] names, and ends when the
//! server is killed ([`Spec::guarded`]).

mod capture;
mod companion;
mod guard;
mod inherited;
mod keep;
mod sandbox;
mod spool;
pub(crate) mod tree;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

pub use capture::{Bounds, Output};
pub use companion::{Companion, Pipes, start};
pub use inherited::{Inherited, inherit};
pub use keep::{MAX_KEPT_BYTES, MAX_KEPT_FILES, RestoreOutcome, Restored, SaveError, SavedPath};
pub use sandbox::{Refusal, Sandbox, Support};
pub use spool::{MAX_SPOOL, Spool};

pub(crate) use inherited::inherited;

use guard::Watched;
use keep::SavedPaths;
use spool::Spooling;
use tree::Tree;

/// Time that processes have to end after `SIGTERM`. Short, because a user waits for it.
pub const GRACE: Duration = Duration::from_millis(300);

/// Longest time that output is read after the direct child has exited.
pub const DRAIN: Duration = Duration::from_millis(250);

/// Silence in the output after which the drain ends early.
pub(crate) const QUIET: Duration = Duration::from_millis(50);

/// Time before the first progress report of a program. The output of most commands is complete earlier, and comes with
/// their result.
const FIRST_PROGRESS: Duration = Duration::from_millis(25);

/// Shortest interval between progress reports of a running program; it doubles with each report up to
/// [`SLOWEST_PROGRESS`], so that a long command does not flood the client.
const FASTEST_PROGRESS: Duration = Duration::from_millis(100);

/// Longest interval between progress reports.
const SLOWEST_PROGRESS: Duration = Duration::from_secs(5);

/// Size of one read: the capacity of a pipe.
const CHUNK: usize = 64 * 1024;

/// Time for the kernel to remove a killed process.
pub(crate) const REAP: Duration = Duration::from_secs(2);

/// A program to run.
#[derive(Debug, Clone)]
pub struct Spec {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Working directory.
    pub directory: PathBuf,
    /// Variables added to the environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables it does not inherit, such as keys it does not need. `environment` can still add one
    /// explicitly.
    pub hidden: Vec<OsString>,
    /// The only variables it inherits; `None` means all but the hidden ones.
    pub inherited: Option<&'static [&'static str]>,
    /// Time from its start after which it is ended.
    pub deadline: Duration,
    /// Limits of the kept output.
    pub bounds: Bounds,
    /// File for the whole output, used once it exceeds the limits.
    pub spool: Option<Spool>,
    /// True to discard its standard error.
    pub mute_errors: bool,
    /// Restrictions on what it may change; `None` means none.
    pub sandbox: Option<Sandbox>,
    /// True if it must not outlive the server while [`run`] waits for it, even if the server is killed. Programs such as
    /// git finish instead, so that their files stay whole.
    pub guarded: bool,
    /// Paths that [`run`] restores after the end. If there are any, processes left running are ended, too,
    /// because they could change the paths later.
    pub kept: Vec<SavedPath>,
}

impl Spec {
    /// A program without arguments.
    pub fn new(program: impl Into<OsString>, directory: impl Into<PathBuf>, deadline: Duration) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            directory: directory.into(),
            environment: Vec::new(),
            hidden: Vec::new(),
            inherited: None,
            deadline,
            bounds: Bounds::default(),
            spool: None,
            mute_errors: false,
            sandbox: None,
            guarded: false,
            kept: Vec::new(),
        }
    }

    /// A command line for the shell: bash if installed, since models write bash. Shell options are not
    /// inherited, because options such as history expansion would change the meaning of a line after it was
    /// judged. The command is guarded.
    pub fn shell(command: &str, directory: impl Into<PathBuf>, deadline: Duration) -> Self {
        let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
        let spec = Self::new(shell, directory, deadline).args(["-c", command]);
        Self { guarded: true, ..spec }.hide(["SHELLOPTS", "BASHOPTS"])
    }

    /// Name in messages.
    fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn hide<A: Into<OsString>>(mut self, names: impl IntoIterator<Item = A>) -> Self {
        self.hidden.extend(names.into_iter().map(Into::into));
        self
    }
}

/// The end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Exited with this code.
    Code(i32),
    /// Killed by this signal from another process.
    Signal(i32),
    /// Ended at its deadline.
    DeadlinePassed,
    /// Ended because the caller's token was cancelled.
    Cancelled,
}

/// Result of a finished program.
#[derive(Debug, Clone)]
pub struct Done {
    pub exit: Exit,
    /// Standard output and error, in the order written.
    pub output: Output,
    /// File with the whole output, if it exceeded the limits.
    pub spooled: Option<PathBuf>,
    /// Paths of [`Spec::kept`] that it changed.
    pub restored: Vec<Restored>,
}

/// The reason why a program could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sandbox is not available.
    #[error("refused to start `{program}` outside of its sandbox: {source}")]
    Sandbox { program: String, source: Refusal },
    /// The contents of the files to protect could not be saved.
    #[error("refused to start `{program}` in its sandbox: {source}")]
    Keep { program: String, source: SaveError },
    #[error("cannot start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    /// The program started, but could not be watched.
    #[error("cannot watch `{program}`: {source}")]
    Watch { program: String, source: io::Error },
}

/// Runs a program to its end. `progress` is called with new output at growing intervals.
pub async fn run(
    spec: Spec,
    cancel: &CancellationToken,
    progress: impl FnMut(&Output) + Send,
) -> Result<Done, Error> {
    let program = spec.name();
    let deadline = Instant::now() + spec.deadline;
    // Dropped after the program, so that an interrupted run ends the program before it restores files.
    let keeper = keep(&spec).await?;
    let mut running = Running::start(&spec)?;
    let ended = running.watch(deadline, cancel, progress).await;
    let exit = match ended {
        Ok(Ended::Itself(status)) => {
            running.drain().await;
            if keeper.is_some() && !running.tree.is_gone() {
                running.stop().await;
            }
            exit(status)
        }
        Ok(Ended::Deadline) => {
            running.stop().await;
            Exit::DeadlinePassed
        }
        Ok(Ended::Cancelled) => {
            running.stop().await;
            Exit::Cancelled
        }
        Err(source) => return Err(Error::Watch { program, source }),
    };
    running.tree.disarm();
    let spooled = running.spooling.finish().await;
    let restored = match keeper {
        Some(mut keeper) => unblocked(move || keeper.restore()).await.unwrap_or_default(),
        None => Vec::new(),
    };
    Ok(Done { exit, output: std::mem::take(&mut running.output), spooled, restored })
}

/// Saves the files that a program must not change.
async fn keep(spec: &Spec) -> Result<Option<SavedPaths>, Error> {
    if spec.kept.is_empty() {
        return Ok(None);
    }
    let writable = spec.sandbox.as_ref().map(|sandbox| sandbox.writable.clone()).unwrap_or_default();
    let kept = spec.kept.clone();
    let keeper = unblocked(move || SavedPaths::new(kept, &writable)).await;
    let keeper = keeper.map_err(|source| Error::Start { program: spec.name(), source })?;
    keeper.map(Some).map_err(|source| Error::Keep { program: spec.name(), source })
}

/// Runs a blocking closure on a blocking thread.
async fn unblocked<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

enum Ended {
    Itself(ExitStatus),
    Deadline,
    Cancelled,
}

pub(crate) fn exit(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    status.code().map_or_else(|| Exit::Signal(status.signal().unwrap_or_default()), Exit::Code)
}

/// Builds the command in its own process group with its environment; the caller sets its streams.
fn command(spec: &Spec, mark: &str) -> Command {
    #[expect(clippy::disallowed_methods, reason = "all child processes start here")]
    let mut command = Command::new(&spec.program);
    let Inherited { added, removed } = inherited();
    match spec.inherited {
        Some(names) => {
            let is_inherited = |name: &OsString| names.iter().any(|inherited| name == inherited);
            command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_inherited(name)));
        }
        None => {
            command.envs(added.iter().map(|(name, value)| (name, value)));
        }
    }
    for name in spec.hidden.iter().chain(removed) {
        command.env_remove(name);
    }
    command
        .args(&spec.args)
        .current_dir(&spec.directory)
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .env(tree::VARIABLE, mark)
        .process_group(0);
    command
}

/// Starts the command, in its sandbox if it has one.
fn launch(spec: &Spec, command: &mut Command) -> Result<Child, Error> {
    let fence = spec.sandbox.as_ref().map(Sandbox::prepare).transpose();
    let fence = fence.map_err(|source| Error::Sandbox { program: spec.name(), source })?;
    let child = match fence {
        Some(fence) => fence.spawn(command),
        None => command.spawn(),
    };
    child.map_err(|source| Error::Start { program: spec.name(), source })
}

/// A started program. Dropping it kills the process tree, see [`Tree`].
struct Running {
    child: Child,
    tree: Tree,
    pipe: pipe::Receiver,
    open: bool,
    output: Output,
    spooling: Spooling,
    /// Dropped after the tree, which a living server ends itself.
    _watched: Option<Watched>,
}

impl Running {
    fn start(spec: &Spec) -> Result<Self, Error> {
        let failed = |source| Error::Start { program: spec.name(), source };
        // One pipe for both streams preserves the order of lines.
        let (reader, writer) = io::pipe().map_err(failed)?;
        let mark = tree::mark();
        let mut command = command(spec, &mark);
        command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(failed)?);
        if spec.mute_errors {
            command.stderr(Stdio::null());
        } else {
            command.stderr(writer);
        }
        let child = launch(spec, &mut command)?;
        // The command holds the write ends; after this drop the pipe ends when the last process closes it.
        drop(command);
        let watched = spec.guarded.then(|| guard::watch(child.id(), &mark)).flatten();
        let tree = Tree::new(child.id(), mark);
        let pipe = pipe::Receiver::from_owned_fd(reader.into()).map_err(failed)?;
        let spooling = Spooling::new(spec.spool.clone());
        let output = Output::new(spec.bounds);
        Ok(Self { child, tree, pipe, open: true, output, spooling, _watched: watched })
    }

    /// Watches until the child exits or must be stopped.
    async fn watch(
        &mut self,
        deadline: Instant,
        cancel: &CancellationToken,
        mut progress: impl FnMut(&Output) + Send,
    ) -> io::Result<Ended> {
        let mut buffer = vec![0; CHUNK];
        let mut pause = FASTEST_PROGRESS;
        let mut next = Instant::now() + FIRST_PROGRESS;
        let mut shown = 0;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(Ended::Cancelled),
                () = sleep_until(deadline) => return Ok(Ended::Deadline),
                status = self.child.wait() => return status.map(Ended::Itself),
                () = sleep_until(next), if self.output.total() > shown => {
                    progress(&self.output);
                    shown = self.output.total();
                    next = Instant::now() + pause;
                    pause = (pause * 2).min(SLOWEST_PROGRESS);
                }
                read = self.pipe.read(&mut buffer), if self.open => self.take(&buffer, read).await,
            }
        }
    }

    async fn take(&mut self, buffer: &[u8], read: io::Result<usize>) {
        match read.ok().and_then(|count| buffer.get(..count)).filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => {
                self.spooling.add(&self.output, bytes).await;
                self.output.push(bytes);
            }
            // The end of the pipe does not mean the end of the child: it may close its output and keep working.
            None => self.open = false,
        }
    }

    /// Reads output that was written before the child exited.
    async fn drain(&mut self) {
        let mut buffer = vec![0; CHUNK];
        let end = Instant::now() + DRAIN;
        while self.open && Instant::now() < end {
            match timeout(QUIET, self.pipe.read(&mut buffer)).await {
                Ok(read) => self.take(&buffer, read).await,
                Err(_) => return,
            }
        }
    }

    /// Ends the whole process tree: `SIGTERM`, then `SIGKILL` after [`GRACE`].
    async fn stop(&mut self) {
        self.tree.ask();
        let end = Instant::now() + GRACE;
        let mut buffer = vec![0; CHUNK];
        let mut exited = false;
        while Instant::now() < end && !(exited && self.tree.is_gone()) {
            let step = (Instant::now() + QUIET).min(end);
            tokio::select! {
                biased;
                _ = self.child.wait(), if !exited => exited = true,
                read = self.pipe.read(&mut buffer), if self.open => self.take(&buffer, read).await,
                () = sleep_until(step) => {}
            }
        }
        self.tree.kill();
        if timeout(REAP, self.child.wait()).await.is_err() {
            tracing::warn!(pid = self.child.id(), "a process did not end after SIGKILL");
        }
        self.drain().await;
    }
}

#[cfg(test)]
pub(crate) mod tests;
