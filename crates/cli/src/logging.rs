//! The program's log: JSON lines in a file with rotation, or plain lines on standard error.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Mutex,
};

use clap::ValueEnum;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::terminal;

/// Name of the file inside the log directory.
const FILE: &str = "baton.log";
/// Size at which a log file is rotated.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Number of rotated files to keep.
const KEPT: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Level {
    Trace,
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace => Self::TRACE,
            Level::Debug => Self::DEBUG,
            Level::Info => Self::INFO,
            Level::Warn => Self::WARN,
            Level::Error => Self::ERROR,
        }
    }
}

/// Destination of the log.
#[derive(Debug)]
pub(crate) enum Target<'a> {
    /// A file in this directory.
    File(&'a Path),
    /// Standard error.
    Terminal,
}

/// Starts logging for the rest of the program. If the log cannot be opened, prints a note and continues without
/// one.
pub(crate) fn start(target: &Target<'_>, level: Level) {
    let registry = tracing_subscriber::registry().with(filter(level));
    let started = match target {
        Target::Terminal => {
            registry.with(fmt::layer().with_writer(io::stderr).with_ansi(terminal::is_watched())).try_init()
        }
        Target::File(directory) => match Rotating::open(directory, MAX_BYTES) {
            Ok(file) => registry.with(fmt::layer().json().with_writer(Mutex::new(file))).try_init(),
            Err(error) => {
                terminal::note(&format!("logging is off: cannot write to {}: {error}", directory.display()));
                return;
            }
        },
    };
    if let Err(error) = started {
        terminal::note(&format!("logging is off: {error}"));
    }
}

/// The log filter. The MCP library is limited to warnings, because it logs whole messages between agents and
/// servers.
fn filter(level: Level) -> Targets {
    let level = LevelFilter::from(level);
    Targets::new().with_default(level).with_target("rmcp", level.min(LevelFilter::WARN))
}

/// A log file that is rotated when it exceeds `max` bytes.
#[derive(Debug)]
struct Rotating {
    path: PathBuf,
    file: File,
    bytes: u64,
    max: u64,
}

impl Rotating {
    fn open(directory: &Path, max: u64) -> io::Result<Self> {
        // Log lines may quote prompts, so only the user may read the directory.
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let path = directory.join(FILE);
        let file = append(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, file, bytes, max })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let aside = |number: usize| self.path.with_extension(format!("log.{number}"));
        for number in (1..KEPT).rev() {
            // The first rotations have no older file to move.
            let _ = fs::rename(aside(number), aside(number + 1));
        }
        fs::rename(&self.path, aside(1))?;
        self.file = append(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

impl Write for Rotating {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let length = line.len() as u64;
        if self.bytes > 0 && self.bytes + length > self.max {
            self.rotate()?;
        }
        // Writes the whole line, so that no line is split between two files.
        self.file.write_all(line)?;
        self.bytes += length;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_mcp_servers_are_not_logged() {
        let all = filter(Level::Trace);
        assert!(all.would_enable("supervision::mcp", &tracing::Level::TRACE));
        assert!(all.would_enable("rmcp::service", &tracing::Level::WARN));
        assert!(!all.would_enable("rmcp::service", &tracing::Level::INFO));
        assert!(!filter(Level::Error).would_enable("rmcp::service", &tracing::Level::WARN));
    }

    #[test]
    fn a_full_log_is_rotated_and_the_oldest_file_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = Rotating::open(directory.path(), 20).unwrap();
        for number in 0..12 {
            log.write_all(format!("line {number:04}\n").as_bytes()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("baton.log"), "line 0010\nline 0011\n");
        assert_eq!(read("baton.log.1"), "line 0008\nline 0009\n");
        assert_eq!(read("baton.log.3"), "line 0004\nline 0005\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), KEPT + 1);

        let mut again = Rotating::open(directory.path(), 20).unwrap();
        again.write_all(b"later\n").unwrap();
        assert_eq!(read("baton.log"), "later\n", "the size of an existing file counts");
    }
}
