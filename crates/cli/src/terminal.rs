//! Access to standard output and standard error; no other module writes to them.
//!
//! Data goes to standard output, messages about it to standard error. Callers add colours freely; this module
//! strips them where they would not show (`NO_COLOR`, a pipe, a dumb terminal).

use std::io::{self, IsTerminal, Write};

use owo_colors::OwoColorize;

use crate::exit::Failure;

/// True if standard error is a terminal, so a user reads it live.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// True if standard output is a terminal, so a user reads it live.
pub(crate) fn is_read_live() -> bool {
    io::stdout().is_terminal()
}

/// True if a user at a terminal can answer questions.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && is_watched()
}

/// True if standard input is a pipe or a file.
pub(crate) fn is_fed() -> bool {
    !io::stdin().is_terminal()
}

/// Writes data unchanged. A closed pipe is no error: the reader does not want the rest.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes a line of data.
pub(crate) fn line(text: &str) -> io::Result<()> {
    write(&format!("{text}\n"))
}

/// Writes a line to standard error.
pub(crate) fn note(text: &str) {
    hint(&format!("{text}\n"));
}

/// Writes to standard error without ending the line.
pub(crate) fn hint(text: &str) {
    let mut out = anstream::stderr().lock();
    // If standard error is closed, there is no place left to report it.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints an error and its hints.
pub(crate) fn complain(failure: &Failure) {
    note(&format!("{} {failure}", "error:".red().bold()));
    for hint in failure.hints() {
        note(&format!("{} {hint}", "hint:".cyan()));
    }
}
