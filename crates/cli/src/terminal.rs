//! Standard output and standard error: the only place that writes to them.
//!
//! Data goes to standard output, everything said about it to standard error. Colours are added freely and
//! taken out again where nobody would see them (`NO_COLOR`, a pipe, a dumb terminal).

use std::io::{self, IsTerminal, Write};

use owo_colors::OwoColorize;

use crate::exit::Failure;

/// Whether a person reads standard error as it is written.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Whether a person reads standard output as it is written.
pub(crate) fn is_read_live() -> bool {
    io::stdout().is_terminal()
}

/// Whether there is a person who can be asked.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && is_watched()
}

/// Whether standard input is a pipe or a file.
pub(crate) fn is_fed() -> bool {
    !io::stdin().is_terminal()
}

/// Writes data as it is. Whoever closed the pipe does not want the rest, which is no error.
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

/// Writes a line about what is going on.
pub(crate) fn note(text: &str) {
    hint(&format!("{text}\n"));
}

/// Writes about what is going on, without ending the line.
pub(crate) fn hint(text: &str) {
    let mut out = anstream::stderr().lock();
    // There is nobody left to tell that standard error is closed.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Says why a command could not do what it was asked to.
pub(crate) fn complain(failure: &Failure) {
    note(&format!("{} {failure}", "error:".red().bold()));
    for hint in failure.hints() {
        note(&format!("{} {hint}", "hint:".cyan()));
    }
}
