//! Runs a program on a pseudo-terminal.
//!
//! A [`Terminal`] runs until its program ends, is stopped or dropped; then all descendants of the program end
//! with it. Its output is read continuously, even without viewers, and the last part is kept. A viewer has a
//! [`Screen`] and a position in the text, so no queue between program and viewer can fill up.

mod scrollback;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pty_process::{OwnedReadPty, OwnedWritePty};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

pub use scrollback::SCROLLBACK;

use crate::process::tree::{self, Tree};
use crate::process::{DRAIN, Error, Exit, GRACE, Inherited, QUIET, REAP, exit, inherited};
use scrollback::Scrollback;

/// Time that a program may leave typed text unread before the rest is dropped.
pub const UNREAD: Duration = Duration::from_secs(5);

/// Value of `TERM`.
const KIND: &str = "xterm-256color";

/// Size of one read, in bytes.
const CHUNK: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub rows: u16,
    pub columns: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// A program to run.
#[derive(Debug, Clone)]
pub struct Spec {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Working directory.
    pub directory: PathBuf,
    pub environment: Vec<(OsString, OsString)>,
    /// Variables it does not inherit, such as keys it does not need.
    pub hidden: Vec<OsString>,
}

/// A program on a terminal. Dropping it kills all its processes; [`Terminal::stop`] sends `SIGHUP` first.
#[derive(Debug)]
pub struct Terminal {
    id: u32,
    input: tokio::sync::Mutex<OwnedWritePty>,
    /// A second descriptor of the terminal, so that it can be resized while a write waits.
    handle: OwnedFd,
    screen: Screen,
    stop: CancellationToken,
    watching: JoinHandle<()>,
}

impl Terminal {
    /// Starts a program on a new terminal.
    pub fn start(spec: &Spec) -> Result<Self, Error> {
        let program = spec.program.to_string_lossy().into_owned();
        open(spec).map_err(|source| Error::Start { program, source })
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    /// Past and future output of the program.
    pub fn screen(&self) -> Screen {
        self.screen.clone()
    }

    /// Types text. If the program does not read for [`UNREAD`], the rest is dropped.
    pub async fn write(&self, text: &[u8]) -> io::Result<()> {
        let mut input = self.input.lock().await;
        match timeout(UNREAD, input.write_all(text)).await {
            Ok(written) => written,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the program does not read its input")),
        }
    }

    /// Changes the size and notifies the program.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        Ok(tcsetwinsize(&self.handle, winsize(size))?)
    }

    /// Sends `SIGHUP`, gives the program and its descendants [`GRACE`] to end, and kills the rest. Returns when
    /// all are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.screen().ended().await;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The task owns the process tree, which it kills when it is dropped.
        self.watching.abort();
    }
}

fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn open(spec: &Spec) -> io::Result<Terminal> {
    let (pty, child_side) = pty_process::open().map_err(io::Error::other)?;
    let handle = pty.as_fd().try_clone_to_owned()?;
    tcsetwinsize(&handle, winsize(Size::default()))?;
    let mark = tree::mark();
    let Inherited { added, removed } = inherited();
    let added = added.iter().map(|(name, value)| (name, value));
    let mut command = pty_process::Command::new(&spec.program).envs(added);
    for name in spec.hidden.iter().chain(removed) {
        command = command.env_remove(name);
    }
    let child = command
        .args(&spec.args)
        .current_dir(&spec.directory)
        .env("TERM", KIND)
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .env(tree::VARIABLE, &mark)
        .spawn(child_side)
        .map_err(unwrapped)?;
    // It leads its own session and thus its own group.
    let tree = Tree::new(child.id(), mark);
    let (output, input) = pty.into_split();
    let (progress, changes) = watch::channel(None);
    let text = Arc::default();
    let screen = Screen { text: Arc::clone(&text), exit: changes };
    let (id, stop) = (child.id().unwrap_or_default(), CancellationToken::new());
    let watched = Watched { child, tree, output, open: true, text, exit: progress };
    let watching = tokio::spawn(watched.run(stop.clone()));
    Ok(Terminal { id, input: input.into(), handle, screen, stop, watching })
}

fn unwrapped(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// Read access to a program's output from any position.
#[derive(Debug, Clone)]
pub struct Screen {
    text: Arc<Mutex<Scrollback>>,
    /// Also notifies of new text.
    exit: watch::Receiver<Option<Exit>>,
}

impl Screen {
    /// Position after all output so far.
    pub fn end(&self) -> u64 {
        self.text.lock().end()
    }

    /// The program's exit, if it has ended.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// A piece of the output after a position, and the position after that piece.
    pub fn read(&self, from: u64) -> (String, u64) {
        self.text.lock().read(from)
    }

    /// Like [`Screen::read`], but waits for output. `None` when the program has ended and all output was read.
    pub async fn next(&mut self, from: u64) -> Option<(String, u64)> {
        loop {
            let over = self.exit.borrow_and_update().is_some();
            let piece = self.read(from);
            if !piece.0.is_empty() {
                return Some(piece);
            }
            if over || self.exit.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Waits for the program to end. `None` if its terminal was dropped first.
    pub async fn ended(&mut self) -> Option<Exit> {
        self.exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit)
    }
}

/// State of the task that runs the program.
struct Watched {
    child: Child,
    tree: Tree,
    output: OwnedReadPty,
    open: bool,
    text: Arc<Mutex<Scrollback>>,
    exit: watch::Sender<Option<Exit>>,
}

impl Watched {
    async fn run(mut self, stop: CancellationToken) {
        let mut buffer = vec![0; CHUNK];
        let exit = loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break self.hang_up().await,
                status = self.child.wait() => break status.map_or(Exit::Cancelled, exit),
                read = self.output.read(&mut buffer), if self.open => self.take(&buffer, read),
            }
        };
        self.drain().await;
        // As when a window is closed, no process of the program survives.
        self.tree.kill();
        self.exit.send_replace(Some(exit));
    }

    fn take(&mut self, buffer: &[u8], read: io::Result<usize>) {
        match read.ok().and_then(|count| buffer.get(..count)).filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => {
                self.text.lock().push(bytes);
                self.exit.send_modify(|_| {});
            }
            // No process has the terminal open any more.
            None => self.open = false,
        }
    }

    async fn drain(&mut self) {
        let mut buffer = vec![0; CHUNK];
        let end = Instant::now() + DRAIN;
        while self.open && Instant::now() < end {
            match timeout(QUIET, self.output.read(&mut buffer)).await {
                Ok(read) => self.take(&buffer, read),
                Err(_) => return,
            }
        }
    }

    async fn hang_up(&mut self) -> Exit {
        self.tree.hang_up();
        let end = Instant::now() + GRACE;
        let mut ended = None;
        while Instant::now() < end && !(ended.is_some() && self.tree.is_gone()) {
            tokio::select! {
                biased;
                status = self.child.wait(), if ended.is_none() => ended = Some(status),
                () = sleep_until((Instant::now() + QUIET).min(end)) => {}
            }
        }
        self.tree.kill();
        if ended.is_none() && timeout(REAP, self.child.wait()).await.is_err() {
            tracing::warn!(pid = self.child.id(), "a process did not end after SIGKILL");
        }
        Exit::Cancelled
    }
}

#[cfg(test)]
mod tests;
