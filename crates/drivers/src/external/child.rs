//! One program that exchanges lines of JSON with Baton; see [`super`].

use std::collections::VecDeque;
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

/// Most bytes to read at once: the capacity of a pipe.
const CHUNK: usize = 64 * 1024;

/// Most lines that wait to be written.
const MAX_WAITING: usize = 64;

/// Most characters of the program's error output that an error message quotes.
const QUOTED: usize = 2_000;

/// Most characters that are kept of an invalid line.
const NOISE: usize = 400;

/// A program to start.
#[derive(Debug, Clone)]
pub struct Launch {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// Variables added to its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables that it does not inherit.
    pub hidden: Vec<OsString>,
    pub bounds: Bounds,
}

impl Launch {
    /// A program with the default limits and an unchanged environment.
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

/// Resource limits of a program.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Largest line, in bytes. A program that writes a longer one is ended.
    pub line: usize,
    /// Most bytes of its standard error that are kept, from the end.
    pub errors: usize,
    /// Timeout for the program to read one line of its input.
    pub write: Duration,
    /// Time for the program to exit after it has closed its output or its input.
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
pub enum OutputLine {
    Json(Value),
    /// A line that is not JSON or not UTF-8.
    Noise {
        /// The beginning of the line, with replacement characters for invalid bytes.
        text: String,
        why: String,
    },
}

/// The reason why a program writes no more lines. The message is for the user and quotes the program's error output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramFailure {
    /// The program could not be started.
    #[error("{0}; is it installed and on the PATH?")]
    Start(#[source] process::Error),
    /// Waiting for the program failed.
    #[error("{0}")]
    Watch(#[source] process::Error),
    /// The program has exited.
    #[error("`{program}` {}{}{words}", Ended(*exit), Partial(partial))]
    Exited {
        program: String,
        exit: Exit,
        /// The beginning of an incomplete last line.
        partial: Option<String>,
        words: Words,
    },
    /// The program has closed its output and still runs.
    #[error("`{program}` closed its output and went on running, so it was ended{words}")]
    Mute { program: String, words: Words },
    /// The program does not read its input.
    #[error("`{program}` {how}, so it was ended{words}")]
    Deaf {
        program: String,
        /// A verb phrase such as `closed its input`.
        how: String,
        words: Words,
    },
    /// The program has written a line beyond the limit.
    #[error("`{program}` wrote a line of more than {limit} bytes, so it was ended{words}")]
    TooLong {
        program: String,
        /// The limit in bytes.
        limit: usize,
        words: Words,
    },
}

/// The end of a program's error output; may be empty.
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

/// The observed state of a program.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Alive,
    /// The program has closed its output.
    Closed {
        until: Instant,
    },
    /// The program has exited; the pipe may still contain lines.
    Draining {
        exit: Exit,
        until: Instant,
    },
    /// The program has exited, and its output is read completely.
    Gone {
        exit: Exit,
    },
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
    /// Resolves with the reason when writing to the program has failed.
    deaf: oneshot::Receiver<String>,
    /// The same reason, with the deadline for the program to exit by itself.
    unheard: Option<(String, Instant)>,
}

impl Child {
    /// Starts a program in its own process group.
    pub fn start(launch: &Launch) -> Result<Self, ProgramFailure> {
        let (companion, pipes) = process::start(&launch.spec()).map_err(ProgramFailure::Start)?;
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

    /// The process id, until the process has ended.
    pub fn id(&self) -> Option<u32> {
        self.companion.id()
    }

    /// The writing half, which can be cloned.
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// Writes one line. [`Child::next`] reports a failure to write.
    pub async fn say(&self, line: &Value) {
        self.input.say(line).await;
    }

    /// Writes the queued lines, and returns the next line that arrives. A line leaves the queue once it is accepted, so
    /// nothing is lost if the future is dropped.
    pub async fn exchange(&mut self, queue: &mut VecDeque<Value>) -> Result<OutputLine, ProgramFailure> {
        let input = self.input.clone();
        let writing = async {
            while let Some(line) = queue.front() {
                input.say(line).await;
                queue.pop_front();
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            never = writing => never,
            heard = self.next() => heard,
        }
    }

    /// Returns the next line, or the reason why there is none. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<OutputLine, ProgramFailure> {
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

    /// Waits for output, for the exit of the program, or for a failure to write.
    async fn listen(&mut self) -> Result<(), ProgramFailure> {
        let until = self.unheard.as_ref().map(|(_, until)| *until);
        tokio::select! {
            biased;
            read = self.output.read(&mut self.buffer) => match read {
                Ok(count @ 1..) => self.lines.push(self.buffer.get(..count).unwrap_or_default()),
                _ => self.phase = Phase::Closed { until: Instant::now() + self.bounds.linger },
            },
            exit = self.companion.exited() => {
                let exit = exit.map_err(ProgramFailure::Watch)?;
                self.phase = Phase::Draining { exit, until: Instant::now() + DRAIN };
            },
            Ok(how) = &mut self.deaf, if self.unheard.is_none() => {
                self.unheard = Some((how, Instant::now() + self.bounds.linger));
            },
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                let how = self.unheard.take().map(|(how, _)| how).unwrap_or_default();
                return Err(ProgramFailure::Deaf { program: self.program.clone(), how, words: self.words() });
            },
        }
        Ok(())
    }

    /// Waits for the exit of a program that has closed its output.
    async fn outlive(&mut self, until: Instant) -> Result<(), ProgramFailure> {
        match timeout_at(until, self.companion.exited()).await {
            Ok(exit) => self.phase = Phase::Gone { exit: exit.map_err(ProgramFailure::Watch)? },
            Err(_) => {
                return Err(ProgramFailure::Mute { program: self.program.clone(), words: self.words() });
            }
        }
        Ok(())
    }

    /// Reads the rest of the output after the exit, until the deadline, because a child process may hold the pipe open.
    async fn drain(&mut self, exit: Exit, until: Instant) {
        match timeout_at(until, self.output.read(&mut self.buffer)).await {
            Ok(Ok(count @ 1..)) if Instant::now() < until => {
                self.lines.push(self.buffer.get(..count).unwrap_or_default());
            }
            _ => self.phase = Phase::Gone { exit },
        }
    }

    async fn gone(&mut self, exit: Exit) -> ProgramFailure {
        // Wait until the error output is read completely.
        let _ = self.companion.wait().await;
        let rest = String::from_utf8_lossy(self.lines.rest());
        let partial = (!rest.trim().is_empty()).then(|| beginning(rest.trim(), NOISE));
        ProgramFailure::Exited { program: self.program.clone(), exit, partial, words: self.words() }
    }

    fn too_long(&self) -> ProgramFailure {
        ProgramFailure::TooLong {
            program: self.program.clone(),
            limit: self.bounds.line,
            words: self.words(),
        }
    }

    /// The end of its error output.
    pub fn words(&self) -> Words {
        let text = self.companion.errors().text();
        let from = text.char_indices().rev().nth(QUOTED - 1).map_or(0, |(at, _)| at);
        Words(text.get(from..).unwrap_or_default().trim().to_owned())
    }

    /// Ends the program and every process that it has started: first with `SIGTERM`, then with `SIGKILL`.
    pub async fn stop(self) {
        self.input.close();
        self.companion.stop().await;
    }
}

fn understand(line: &[u8]) -> OutputLine {
    let why = match std::str::from_utf8(line) {
        Ok(text) => match serde_json::from_str(text) {
            Ok(value) => return OutputLine::Json(value),
            Err(error) => format!("it is not JSON: {error}"),
        },
        Err(error) => format!("it is not UTF-8: {error}"),
    };
    OutputLine::Noise { text: beginning(&String::from_utf8_lossy(line), NOISE), why }
}

fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The input of a program. Cheap to clone.
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
                // The `Child` may have been dropped.
                let _ = report.send(how);
            }
        });
        (Self { lines, closed, patience }, deaf)
    }

    /// Queues a line. A line that cannot be written is dropped, and [`Child::next`] reports the failure.
    pub async fn say(&self, line: &Value) {
        let mut line = line.to_string().into_bytes();
        line.push(b'\n');
        // If the queue stays full for this long, the writer has timed out too.
        let _ = timeout(self.patience, self.lines.send(line)).await;
    }

    /// Closes the input, which asks the program to exit.
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
            Err(_) => return Err(format!("did not read its input for {patience:?}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
