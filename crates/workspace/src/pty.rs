//! A program on a terminal of its own.
//!
//! A [`Terminal`] runs until its program ends, is stopped or dropped; then everything the program has started ends with
//! it. What it writes is read all the time, whether somebody looks or not, and the last of it is kept. Whoever looks has
//! a [`Screen`] and a place in the text: there is no queue between the program and a viewer that could fill up.

mod scrollback;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

/// How long a program may leave typed text unread before the rest of it is thrown away.
pub const UNREAD: Duration = Duration::from_secs(5);

/// What programs are told about the terminal they run on.
const KIND: &str = "xterm-256color";

/// Most that is read at once.
const CHUNK: usize = 16 * 1024;

/// Rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

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
    /// Variables it does not inherit, such as keys it has no business with.
    pub hidden: Vec<OsString>,
}

/// A program on a terminal. Dropping it kills everything the program has started; [`Terminal::stop`] hangs up first.
#[derive(Debug)]
pub struct Terminal {
    id: u32,
    input: tokio::sync::Mutex<OwnedWritePty>,
    /// The same terminal once more: it can be resized while somebody waits to type.
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

    /// The process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What the program has written and will write.
    pub fn screen(&self) -> Screen {
        self.screen.clone()
    }

    /// Types something. A program that does not read for [`UNREAD`] does not get the rest of it.
    pub async fn write(&self, text: &[u8]) -> io::Result<()> {
        let mut input = self.input.lock().await;
        match timeout(UNREAD, input.write_all(text)).await {
            Ok(written) => written,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the program does not read what is typed")),
        }
    }

    /// Changes the size; the program is told.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        Ok(tcsetwinsize(&self.handle, winsize(size))?)
    }

    /// Hangs up, gives the program and everything it has started [`GRACE`] to end, and kills what is left. Returns when
    /// they are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.screen().ended().await;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The task owns the tree of processes, which dies with it.
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
    // It leads a session, and so a group, of its own.
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

/// Shows what a program has written, from any place on.
#[derive(Debug, Clone)]
pub struct Screen {
    text: Arc<Mutex<Scrollback>>,
    /// Changes whenever there is more text, too.
    exit: watch::Receiver<Option<Exit>>,
}

impl Screen {
    /// The place after everything that was written so far.
    pub fn end(&self) -> u64 {
        locked(&self.text).end()
    }

    /// How the program ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// What was written after a place, or a piece of it, and the place after that.
    pub fn read(&self, from: u64) -> (String, u64) {
        locked(&self.text).read(from)
    }

    /// The same, but waits for something to be written. Nothing when the program has ended and all of it was read.
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

    /// Waits until the program has ended. Nothing if its terminal was dropped first.
    pub async fn ended(&mut self) -> Option<Exit> {
        self.exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit)
    }
}

fn locked(text: &Mutex<Scrollback>) -> MutexGuard<'_, Scrollback> {
    // Text is never half-added.
    text.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program, as its own task sees it.
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
        // As a window that is closed: nothing goes on behind it.
        self.tree.kill();
        self.exit.send_replace(Some(exit));
    }

    fn take(&mut self, buffer: &[u8], read: io::Result<usize>) {
        match read.ok().and_then(|count| buffer.get(..count)).filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => {
                locked(&self.text).push(bytes);
                self.exit.send_modify(|_| {});
            }
            // Nobody has the terminal open any more.
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
            tracing::warn!(pid = self.child.id(), "a killed process does not go away");
        }
        Exit::Cancelled
    }
}

#[cfg(test)]
mod tests;
