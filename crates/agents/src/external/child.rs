//! One program that is talked to in lines of JSON; see [`super`].

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use workspace::process::{self, Companion, DRAIN, Exit, Pipes, Spec};

use super::lines::Lines;

/// Most that is read at once: what a pipe holds.
const CHUNK: usize = 64 * 1024;

/// Lines that may wait to be written.
const MAX_WAITING: usize = 64;

/// Characters of the program's own words that a message about it quotes.
const QUOTED: usize = 2_000;

/// Characters of a line that nobody understands that are kept of it.
const NOISE: usize = 400;

/// What to start.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The directory it works in.
    pub directory: PathBuf,
    /// Variables added to its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables it does not inherit.
    pub hidden: Vec<OsString>,
    /// How much of it is put up with.
    pub bounds: Bounds,
}

impl Launch {
    /// A program with arguments.
    pub fn new<A: Into<OsString>>(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = A>,
        directory: impl Into<PathBuf>,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            directory: directory.into(),
            environment: Vec::new(),
            hidden: Vec::new(),
            bounds: Bounds::default(),
        }
    }

    fn spec(&self) -> Spec {
        let mut spec = Spec::new(self.program.clone(), self.directory.clone(), Duration::MAX)
            .args(self.args.clone())
            .hide(self.hidden.clone());
        spec.environment.clone_from(&self.environment);
        spec.bounds = process::Bounds { head: 0, tail: self.bounds.errors };
        spec
    }
}

/// How much of a program is put up with.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of one line; a longer one ends the program.
    pub line: usize,
    /// Bytes of its standard error that are kept, from the end.
    pub errors: usize,
    /// How long it may take to read one line that it is told.
    pub write: Duration,
    /// How long it may live on after it has closed its output or its input.
    pub linger: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            line: 16 * 1024 * 1024,
            errors: 8 * 1024,
            write: Duration::from_secs(30),
            linger: Duration::from_secs(2),
        }
    }
}

/// A line that a program wrote.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// One that says something.
    Json(Value),
    /// One that does not: a stray message, or garbage.
    Noise {
        /// Its beginning, with a mark in the place of what is no text.
        text: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Why there is nothing more to hear from a program, for people. It quotes the program's last words.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// It could not be started.
    #[error("{0}; is it installed and on the PATH?")]
    Start(#[source] process::Error),
    /// It could not be watched.
    #[error("{0}")]
    Watch(#[source] process::Error),
    /// It is gone.
    #[error("`{program}` {}{}{words}", Ended(*exit), Partial(partial))]
    Exited {
        /// The program.
        program: String,
        /// How.
        exit: Exit,
        /// The beginning of a line that it did not finish.
        partial: Option<String>,
        /// Its last words.
        words: Words,
    },
    /// It can say nothing more, although it lives.
    #[error("`{program}` closed its output and went on running, so it was ended{words}")]
    Mute {
        /// The program.
        program: String,
        /// Its last words.
        words: Words,
    },
    /// It does not listen.
    #[error("`{program}` {how}, so it was ended{words}")]
    Deaf {
        /// The program.
        program: String,
        /// What it did with its input.
        how: String,
        /// Its last words.
        words: Words,
    },
    /// It does not stop talking.
    #[error("`{program}` wrote a line of more than {limit} bytes, so it was ended{words}")]
    TooLong {
        /// The program.
        program: String,
        /// The bound.
        limit: usize,
        /// Its last words.
        words: Words,
    },
}

/// The end of what a program wrote to its standard error; may be nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words(pub String);

impl fmt::Display for Words {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.trim() {
            "" => Ok(()),
            words => write!(out, "; it said: {words}"),
        }
    }
}

struct Ended(Exit);

impl fmt::Display for Ended {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Exit::Code(code) => write!(out, "exited with code {code}"),
            Exit::Signal(signal) => write!(out, "was ended by signal {signal}"),
            Exit::DeadlinePassed | Exit::Cancelled => out.write_str("was ended"),
        }
    }
}

struct Partial<'a>(&'a Option<String>);

impl fmt::Display for Partial<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(text) => write!(out, " in the middle of a line ({text})"),
            None => Ok(()),
        }
    }
}

/// What was last seen of a program.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// It lives.
    Alive,
    /// It has closed its output.
    Closed { until: Instant },
    /// It has exited; there may still be lines in the pipe.
    Draining { exit: Exit, until: Instant },
    /// It has exited, and everything was read.
    Gone { exit: Exit },
}

/// A running program.
#[derive(Debug)]
pub struct Child {
    program: String,
    bounds: Bounds,
    companion: Companion,
    output: ChildStdout,
    buffer: Vec<u8>,
    lines: Lines,
    phase: Phase,
    input: Input,
    /// Why nothing more can be said to it.
    deaf: oneshot::Receiver<String>,
    /// That, and until when it may still explain itself.
    unheard: Option<(String, Instant)>,
}

impl Child {
    /// Starts a program in a process group of its own.
    pub fn start(launch: &Launch) -> Result<Self, Failure> {
        let (companion, pipes) = process::start(&launch.spec()).map_err(Failure::Start)?;
        let Pipes { input, output } = pipes;
        let (input, deaf) = Input::over(input, launch.bounds.write);
        Ok(Self {
            program: launch.program.to_string_lossy().into_owned(),
            bounds: launch.bounds,
            companion,
            output,
            buffer: vec![0; CHUNK],
            lines: Lines::new(launch.bounds.line),
            phase: Phase::Alive,
            input,
            deaf,
            unheard: None,
        })
    }

    /// The process, until it has ended.
    pub fn id(&self) -> Option<u32> {
        self.companion.id()
    }

    /// A way to talk to it from elsewhere.
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// Tells it something: one line. That it cannot be told is something to hear from [`Child::next`].
    pub async fn say(&self, line: &Value) {
        self.input.say(line).await;
    }

    /// The next line, or why there is none. Whatever was heard when this is dropped is heard next time.
    pub async fn next(&mut self) -> Result<Heard, Failure> {
        loop {
            match self.lines.next() {
                Ok(Some(line)) => return Ok(understand(&line)),
                Ok(None) => {}
                Err(_) => return Err(self.too_long()),
            }
            match self.phase {
                Phase::Alive => self.listen().await?,
                Phase::Closed { until } => self.outlive(until).await?,
                Phase::Draining { exit, until } => self.drain(exit, until).await,
                Phase::Gone { exit } => return Err(self.gone(exit).await),
            }
        }
    }

    /// Waits for anything to happen.
    async fn listen(&mut self) -> Result<(), Failure> {
        let until = self.unheard.as_ref().map(|(_, until)| *until);
        tokio::select! {
            biased;
            read = self.output.read(&mut self.buffer) => match read {
                Ok(count @ 1..) => self.lines.push(self.buffer.get(..count).unwrap_or_default()),
                _ => self.phase = Phase::Closed { until: Instant::now() + self.bounds.linger },
            },
            exit = self.companion.exited() => {
                let exit = exit.map_err(Failure::Watch)?;
                self.phase = Phase::Draining { exit, until: Instant::now() + DRAIN };
            },
            Ok(how) = &mut self.deaf, if self.unheard.is_none() => {
                self.unheard = Some((how, Instant::now() + self.bounds.linger));
            },
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                let how = self.unheard.take().map(|(how, _)| how).unwrap_or_default();
                return Err(Failure::Deaf { program: self.program.clone(), how, words: self.words() });
            },
        }
        Ok(())
    }

    /// Its output is closed, which is what a program does that exits.
    async fn outlive(&mut self, until: Instant) -> Result<(), Failure> {
        match timeout_at(until, self.companion.exited()).await {
            Ok(exit) => self.phase = Phase::Gone { exit: exit.map_err(Failure::Watch)? },
            Err(_) => return Err(Failure::Mute { program: self.program.clone(), words: self.words() }),
        }
        Ok(())
    }

    /// Reads what it wrote before it exited. Something it has started may hold the pipe open, and is not waited for.
    async fn drain(&mut self, exit: Exit, until: Instant) {
        match timeout_at(until, self.output.read(&mut self.buffer)).await {
            Ok(Ok(count @ 1..)) if Instant::now() < until => {
                self.lines.push(self.buffer.get(..count).unwrap_or_default());
            }
            _ => self.phase = Phase::Gone { exit },
        }
    }

    async fn gone(&mut self, exit: Exit) -> Failure {
        // For its last words.
        let _ = self.companion.wait().await;
        let rest = String::from_utf8_lossy(self.lines.rest());
        let partial = (!rest.trim().is_empty()).then(|| beginning(rest.trim(), NOISE));
        Failure::Exited { program: self.program.clone(), exit, partial, words: self.words() }
    }

    fn too_long(&self) -> Failure {
        Failure::TooLong { program: self.program.clone(), limit: self.bounds.line, words: self.words() }
    }

    /// The end of what it wrote to its standard error.
    pub fn words(&self) -> Words {
        let text = self.companion.errors().text();
        let from = text.char_indices().rev().nth(QUOTED - 1).map_or(0, |(at, _)| at);
        Words(text.get(from..).unwrap_or_default().trim().to_owned())
    }

    /// Ends it and everything it has started: asks, then makes it.
    pub async fn stop(self) {
        self.input.close();
        self.companion.stop().await;
    }
}

fn understand(line: &[u8]) -> Heard {
    let why = match std::str::from_utf8(line) {
        Ok(text) => match serde_json::from_str(text) {
            Ok(value) => return Heard::Json(value),
            Err(error) => format!("it is not JSON: {error}"),
        },
        Err(error) => format!("it is not UTF-8: {error}"),
    };
    Heard::Noise { text: beginning(&String::from_utf8_lossy(line), NOISE), why }
}

fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// What a program reads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Input {
    lines: mpsc::Sender<Vec<u8>>,
    closed: CancellationToken,
    patience: Duration,
}

impl Input {
    fn over(pipe: ChildStdin, patience: Duration) -> (Self, oneshot::Receiver<String>) {
        let (lines, waiting) = mpsc::channel(MAX_WAITING);
        let (report, deaf) = oneshot::channel();
        let closed = CancellationToken::new();
        let writing = write(pipe, waiting, patience);
        let ended = closed.clone();
        tokio::spawn(async move {
            if let Some(Err(how)) = ended.run_until_cancelled(writing).await {
                // Whoever started it may have stopped listening.
                let _ = report.send(how);
            }
        });
        (Self { lines, closed, patience }, deaf)
    }

    /// Writes a line after those that wait already. One that cannot be written is dropped, and [`Child::next`] tells.
    pub async fn say(&self, line: &Value) {
        let mut line = line.to_string().into_bytes();
        line.push(b'\n');
        // If there is no room for this long, the writer has given up as well.
        let _ = timeout(self.patience, self.lines.send(line)).await;
    }

    /// Closes it, as a sign that nothing more will be said.
    pub fn close(&self) {
        self.closed.cancel();
    }
}

async fn write(
    mut pipe: ChildStdin,
    mut lines: mpsc::Receiver<Vec<u8>>,
    patience: Duration,
) -> Result<(), String> {
    while let Some(line) = lines.recv().await {
        let written = async {
            pipe.write_all(&line).await?;
            pipe.flush().await
        };
        match timeout(patience, written).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(format!("closed its input ({error})")),
            Err(_) => return Err(format!("did not read what it was told for {patience:?}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
