//! Access to standard output and standard error; no other module writes to them.
//!
//! Data goes to standard output, messages about it to standard error. Callers add colours freely; this module
//! strips them where they would not show (`NO_COLOR`, a pipe, a dumb terminal).

use std::io::{self, IsTerminal, Write};

use owo_colors::OwoColorize;
use unicode_width::UnicodeWidthStr;

use crate::exit::Failure;

/// Width of a terminal that does not report one, in columns.
const USUAL_WIDTH: usize = 80;

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

/// Width of the terminal of standard output or standard error, in columns.
pub(crate) fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let size = size.or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH)
}

/// Replaces a control character, so that text of a model or a file cannot move the cursor or change the terminal.
pub(crate) fn harmless(letter: char) -> char {
    match letter {
        '\t' => ' ',
        letter if letter.is_control() => char::REPLACEMENT_CHARACTER,
        letter => letter,
    }
}

/// Replaces the control characters of a text, except line breaks.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|letter| if letter == '\n' { letter } else { harmless(letter) }).collect()
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

/// Prints a warning.
pub(crate) fn warn(sentence: &str) {
    note(&wrapped(&format!("{} {sentence}", "warning:".yellow().bold())));
}

/// Prints an error and its hints.
pub(crate) fn complain(failure: &Failure) {
    note(&wrapped(&format!("{} {failure}", "error:".red().bold())));
    for hint in failure.hints() {
        note(&wrapped(&format!("{} {hint}", "hint:".cyan())));
    }
}

/// Wraps a text at the words for the terminal of standard error; elsewhere it stays as it is.
pub(crate) fn wrapped(text: &str) -> String {
    if is_watched() { wrap(text, width()) } else { text.to_owned() }
}

/// Wraps each line of a text that may contain escape sequences. Continued lines keep the line's indentation.
fn wrap(text: &str, width: usize) -> String {
    let lines = text.lines().map(|line| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let mut wrapped = " ".repeat(indent);
        let mut column = indent;
        for (index, word) in line.trim_start_matches(' ').split(' ').enumerate() {
            let length = UnicodeWidthStr::width(anstream::adapter::strip_str(word).to_string().as_str());
            if index > 0 && column + 1 + length > width {
                wrapped.push('\n');
                wrapped.push_str(&" ".repeat(indent));
                column = indent;
            } else if index > 0 {
                wrapped.push(' ');
                column += 1;
            }
            wrapped.push_str(word);
            column += length;
        }
        wrapped
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_at_words_and_keep_their_indentation() {
        let text = "one two three\n  four five six\n\nend";
        assert_eq!(wrap(text, 10), "one two\nthree\n  four\n  five six\n\nend");
        let coloured = format!("{} two", "one".red());
        assert_eq!(wrap(&coloured, 7), coloured, "escape sequences take no room");
    }
}
