//! Running a program that must not outlive its welcome.
//!
//! This is the only door to child processes: [`run`] for programs that end, [`start`] for those that stay and are
//! talked to. Three things hold for everything that is run:
//!
//! - It ends. A deadline and a cancellation token end the whole tree of processes: first asked (`SIGTERM`), after
//!   [`GRACE`] made to (`SIGKILL`). Dropping the future does the latter at once.
//! - It finishes when the direct child exits, plus a short drain of what is still in the pipe. A grandchild that
//!   holds the pipe open (`server &`) does not hold the caller. It may go on running, as in a terminal.
//! - Its output is bounded: the beginning and the end are kept, the middle is counted. All of it can be had in a
//!   file, which is bounded, too.
//!
//! On demand it runs in a [`Sandbox`], or not at all, and leaves the files unchanged that [`Spec::kept`] names.

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
pub use keep::{Kept, MAX_KEPT_BYTES, MAX_KEPT_FILES, Outcome, Restored, Unkept};
pub use sandbox::{Refusal, Sandbox, Support};
pub use spool::{MAX_SPOOL, Spool};

pub(crate) use inherited::inherited;

use keep::Keeper;
use spool::Spooling;
use tree::Tree;

/// How long processes may take to end after being asked. Short, because a person waits for it.
pub const GRACE: Duration = Duration::from_millis(300);

/// The longest that output is read after the direct child has exited.
pub const DRAIN: Duration = Duration::from_millis(250);

/// A pause in the output after which the drain ends early.
pub(crate) const QUIET: Duration = Duration::from_millis(50);

/// The shortest time between two looks at the output of a running program; it doubles with each look up to
/// [`SLOWEST_PROGRESS`], so that a short command is shown at once and a long one does not flood whoever looks.
const FASTEST_PROGRESS: Duration = Duration::from_millis(100);

/// The longest time that new output stays unseen.
const SLOWEST_PROGRESS: Duration = Duration::from_secs(5);

/// Most that is read at once: what a pipe holds.
const CHUNK: usize = 64 * 1024;

/// How long the kernel is given to remove a killed process.
pub(crate) const REAP: Duration = Duration::from_secs(2);

/// What to run.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The directory it starts in.
    pub directory: PathBuf,
    /// Variables added to the environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables it does not inherit, such as keys it has no business with. Adding one of them is a decision.
    pub hidden: Vec<OsString>,
    /// The only variables it inherits; all but the hidden ones if absent.
    pub inherited: Option<&'static [&'static str]>,
    /// When it is ended at the latest, counted from its start.
    pub deadline: Duration,
    /// How much output is kept.
    pub bounds: Bounds,
    /// Where all of its output goes as soon as it is more than is kept.
    pub spool: Option<Spool>,
    /// Whether what it writes to its standard error is thrown away.
    pub mute_errors: bool,
    /// What it may change; whatever the user may if absent.
    pub sandbox: Option<Sandbox>,
    /// Paths that [`run`] puts back after it has ended. If there are any, whatever it leaves running ends with it: a process
    /// that went on could change them later.
    pub kept: Vec<Kept>,
}

impl Spec {
    /// A program with arguments.
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
            kept: Vec::new(),
        }
    }

    /// A command line for the shell: bash where there is one, since models write bash. Its options are the usual ones:
    /// inherited ones, such as history expansion, would change what a line means that was judged before.
    pub fn shell(command: &str, directory: impl Into<PathBuf>, deadline: Duration) -> Self {
        let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
        Self::new(shell, directory, deadline).args(["-c", command]).hide(["SHELLOPTS", "BASHOPTS"])
    }

    /// What it is called in messages.
    fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Removes variables from the environment.
    #[must_use]
    pub fn hide<A: Into<OsString>>(mut self, names: impl IntoIterator<Item = A>) -> Self {
        self.hidden.extend(names.into_iter().map(Into::into));
        self
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal, which somebody else sent.
    Signal(i32),
    /// It was ended at its deadline.
    DeadlinePassed,
    /// It was ended because the caller's token was cancelled.
    Cancelled,
}

/// A program that has ended.
#[derive(Debug, Clone)]
pub struct Done {
    /// How.
    pub exit: Exit,
    /// What it wrote to its standard output and error, in the order it wrote it.
    pub output: Output,
    /// The file with all of it, if it was more than is kept.
    pub spooled: Option<PathBuf>,
    /// The paths of [`Spec::kept`] that it had changed.
    pub restored: Vec<Restored>,
}

/// A program that could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It was to run in a sandbox, and there is none.
    #[error("refused to start `{program}` outside of its sandbox: {source}")]
    Sandbox {
        /// The program.
        program: String,
        /// Why there is none.
        source: Refusal,
    },
    /// Files that it must not change could not be remembered.
    #[error("refused to start `{program}` in its sandbox: {source}")]
    Keep {
        /// The program.
        program: String,
        /// Why not.
        source: Unkept,
    },
    /// It could not be started.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It was started and could not be watched.
    #[error("lost sight of `{program}`: {source}")]
    Watch {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
}

/// Runs a program to its end. `progress` is shown the output now and then while there is more of it.
pub async fn run(
    spec: Spec,
    cancel: &CancellationToken,
    progress: impl FnMut(&Output) + Send,
) -> Result<Done, Error> {
    let program = spec.name();
    let deadline = Instant::now() + spec.deadline;
    // Dropped after the program, so that a run that is cut off ends the program first.
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

/// Remembers the files that a program must not change.
async fn keep(spec: &Spec) -> Result<Option<Keeper>, Error> {
    if spec.kept.is_empty() {
        return Ok(None);
    }
    let writable = spec.sandbox.as_ref().map(|sandbox| sandbox.writable.clone()).unwrap_or_default();
    let kept = spec.kept.clone();
    let keeper = unblocked(move || Keeper::new(kept, &writable)).await;
    let keeper = keeper.map_err(|source| Error::Start { program: spec.name(), source })?;
    keeper.map(Some).map_err(|source| Error::Keep { program: spec.name(), source })
}

/// Runs something that blocks, on a thread for that.
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

/// The program in a group of its own, with its environment; its streams are the caller's business.
fn command(spec: &Spec, mark: &str) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this is the one door to child processes")]
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

/// Starts it, in its sandbox if it is to have one.
fn launch(spec: &Spec, command: &mut Command) -> Result<Child, Error> {
    let fence = spec.sandbox.as_ref().map(Sandbox::prepare).transpose();
    let fence = fence.map_err(|source| Error::Sandbox { program: spec.name(), source })?;
    let child = match fence {
        Some(fence) => fence.spawn(command),
        None => command.spawn(),
    };
    child.map_err(|source| Error::Start { program: spec.name(), source })
}

/// A started program. Dropping it kills the tree, see [`Tree`].
struct Running {
    child: Child,
    tree: Tree,
    pipe: pipe::Receiver,
    open: bool,
    output: Output,
    spooling: Spooling,
}

impl Running {
    fn start(spec: &Spec) -> Result<Self, Error> {
        let failed = |source| Error::Start { program: spec.name(), source };
        // One pipe for both streams keeps the order in which lines were written.
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
        // The command holds the write ends; with it gone, the pipe ends when the last process closes it.
        drop(command);
        let tree = Tree::new(child.id(), mark);
        let pipe = pipe::Receiver::from_owned_fd(reader.into()).map_err(failed)?;
        let spooling = Spooling::new(spec.spool.clone());
        Ok(Self { child, tree, pipe, open: true, output: Output::new(spec.bounds), spooling })
    }

    /// Until the child exits or has to be stopped.
    async fn watch(
        &mut self,
        deadline: Instant,
        cancel: &CancellationToken,
        mut progress: impl FnMut(&Output) + Send,
    ) -> io::Result<Ended> {
        let mut buffer = vec![0; CHUNK];
        let mut pause = FASTEST_PROGRESS;
        let mut next = Instant::now();
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
            // The end of the pipe says nothing about the child: it may have closed its output and work on.
            None => self.open = false,
        }
    }

    /// Reads what was written before the child exited.
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

    /// Ends the whole tree: asks, waits for [`GRACE`], then kills.
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
            tracing::warn!(pid = self.child.id(), "a killed process does not go away");
        }
        self.drain().await;
    }
}

#[cfg(test)]
pub(crate) mod tests;
