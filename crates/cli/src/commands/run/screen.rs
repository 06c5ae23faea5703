//! Shows a turn while it runs: text as it arrives, a line per tool call, the diff of an edit, and a spinner
//! while nothing arrives.
//!
//! The agent's text goes to standard output and everything else to standard error, so a pipe receives only the
//! answer: each text once, when it is final. Text that a plugin rewrites or a broken connection retracts can be
//! corrected on a terminal, but not in a pipe.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::OwoColorize;
use protocol::{
    Event, EventBody, Message, MessageError, MessageId, Part, PartBody, PartId, SessionId, SessionStatus,
    ToolState, part::ToolPart,
};
use serde_json::Value;

use super::diff;
use crate::{args::Format, exit::Failure, terminal};

/// Interval between frames of the spinner.
const TURN: Duration = Duration::from_millis(80);
/// Longest description of a tool call, in characters.
const MAX_LABEL: usize = 100;
/// Input fields that describe a call best, in this order.
const TELLING: [&str; 6] = ["description", "command", "filePath", "pattern", "path", "url"];

/// State of the output.
#[derive(Debug)]
pub(super) struct Screen {
    format: Format,
    session: SessionId,
    person: Person,
    spinner: Option<ProgressBar>,
    /// A question is on the screen and the user types on the current line.
    held: bool,
    /// Ids of the agent's messages. Text parts of other messages belong to prompts and are not shown.
    answers: HashSet<MessageId>,
    /// Text already shown, per part.
    shown: HashMap<PartId, String>,
    /// The last output does not end with a newline.
    mid_line: bool,
    /// Tool calls whose line is already shown.
    done: HashSet<PartId>,
}

/// Streams that a user reads live on a terminal.
#[derive(Debug, Clone, Copy)]
struct Person {
    /// Standard error: notes about the turn.
    sees_notes: bool,
    /// Standard output: the agent's text appears as it arrives instead of when it is final.
    sees_words: bool,
}

impl Screen {
    pub(super) fn new(format: Format, session: &SessionId) -> Self {
        Self {
            format,
            session: session.clone(),
            person: Person {
                sees_notes: format == Format::Text && terminal::is_watched(),
                sees_words: terminal::is_read_live(),
            },
            spinner: None,
            held: false,
            answers: HashSet::new(),
            shown: HashMap::new(),
            mid_line: false,
            done: HashSet::new(),
        }
    }

    /// Shows an event of the session or of one of its children.
    pub(super) fn show(&mut self, event: &Event) -> Result<(), Failure> {
        if self.format == Format::Json {
            let line = serde_json::to_string(event).unwrap_or_default();
            return print(&format!("{line}\n"));
        }
        let is_ours = event.body.session_id() == Some(&self.session);
        match &event.body {
            EventBody::MessageUpdated(it) if is_ours => {
                if let Message::Assistant(message) = &it.info {
                    self.answers.insert(message.id.clone());
                }
            }
            EventBody::PartDelta(it) if is_ours && self.person.sees_words => {
                if let Some(shown) = self.shown.get_mut(&it.part_id) {
                    shown.push_str(&it.delta);
                    self.say(&it.delta)?;
                }
            }
            EventBody::PartUpdated(it) => self.show_part(&it.part, is_ours)?,
            EventBody::PartRemoved(it) if self.shown.remove(&it.part_id).is_some() => {
                self.note("the connection to the model broke; discarding the text above");
            }
            EventBody::SessionStatus(it) if is_ours => self.show_status(&it.status),
            EventBody::ContinuationStarted(it) if is_ours => {
                self.note(&it.describe().dimmed().to_string());
                self.wait();
            }
            EventBody::ContinuationCountdown(it) if is_ours => {
                self.note(&it.describe().dimmed().to_string());
            }
            EventBody::ContinuationStopped(it) if is_ours => {
                self.note(&it.reason.describe().yellow().to_string());
            }
            EventBody::SessionError(it) if is_ours => {
                if let Some(error) =
                    it.error.as_ref().filter(|it| !matches!(it, MessageError::Aborted { .. }))
                {
                    self.complain(error.message());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn show_part(&mut self, part: &Part, is_ours: bool) -> Result<(), Failure> {
        match &part.body {
            PartBody::Text(text) if is_ours && self.answers.contains(&part.message_id) => {
                if self.person.sees_words || !part.is_open() {
                    self.show_text(&part.id, &text.text)?;
                }
                if !part.is_open() {
                    self.end_line()?;
                    self.wait();
                }
            }
            PartBody::Reasoning(_) if is_ours && part.is_open() => self.spin("thinking"),
            PartBody::Tool(tool) => self.show_tool(&part.id, tool, is_ours),
            _ => {}
        }
        Ok(())
    }

    /// Shows the new end of a text, or the whole text again if a plugin changed the part that is on the screen.
    fn show_text(&mut self, id: &PartId, text: &str) -> Result<(), Failure> {
        let shown = self.shown.insert(id.clone(), text.to_owned()).unwrap_or_default();
        match text.strip_prefix(shown.as_str()) {
            Some(rest) => self.say(rest),
            None if shown.trim_end() == text.trim_end() => Ok(()),
            None => {
                self.end_line()?;
                self.note(&"a plugin changed this text to:".dimmed().to_string());
                self.say(text)
            }
        }
    }

    fn show_tool(&mut self, id: &PartId, tool: &ToolPart, is_ours: bool) {
        let label = label(tool);
        let (mark, trouble) = match &tool.state {
            ToolState::Pending(_) => return,
            ToolState::Running(_) => return self.spin(&format!("{} {label}", tool.tool)),
            ToolState::Completed(_) => ("✓".green().to_string(), String::new()),
            ToolState::Error(failed) => {
                let first = failed.error.lines().next().unwrap_or_default();
                ("✗".red().to_string(), format!(" {}", cut(first).red()))
            }
        };
        if !self.done.insert(id.clone()) {
            return;
        }
        let indent = if is_ours { "" } else { "  " };
        self.note(&format!("{indent}{mark} {} {}{trouble}", tool.tool.bold(), label.dimmed()));
        for line in diff::lines(tool) {
            self.note(&format!("{indent}{line}"));
        }
        self.wait();
    }

    fn show_status(&mut self, status: &SessionStatus) {
        match status {
            SessionStatus::Busy { .. } => self.wait(),
            SessionStatus::Retry { attempt, message, .. } => {
                self.note(&format!("{} {message}", format!("retry {attempt}:").yellow()));
                self.spin("waiting to retry");
            }
            SessionStatus::Idle { .. } => self.pause(),
        }
    }

    /// Shows the spinner.
    pub(super) fn wait(&mut self) {
        self.spin("working");
    }

    fn spin(&mut self, label: &str) {
        if !self.person.sees_notes || self.mid_line || self.held {
            return;
        }
        let spinner = self.spinner.get_or_insert_with(|| {
            let spinner = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg:.dim} {elapsed:.dim}") {
                spinner.set_style(style);
            }
            spinner.enable_steady_tick(TURN);
            spinner
        });
        spinner.set_message(label.to_owned());
    }

    /// Hides the spinner while the user answers a question, or shows it again.
    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
        if held {
            self.pause();
        } else {
            self.wait();
        }
    }

    fn pause(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }

    /// Ends the output of the turn.
    pub(super) fn end(&mut self) {
        self.pause();
        // A write error was already reported.
        let _ = self.end_line();
    }

    fn say(&mut self, words: &str) -> Result<(), Failure> {
        if words.is_empty() {
            return Ok(());
        }
        self.pause();
        self.mid_line = !words.ends_with('\n');
        print(words)
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.mid_line) { print("\n") } else { Ok(()) }
    }

    /// Prints a line about the turn, if a user watches.
    fn note(&mut self, line: &str) {
        if self.person.sees_notes {
            self.end();
            terminal::note(line);
        }
    }

    /// Prints a warning about a problem that does not stop the turn.
    pub(super) fn warn(&mut self, sentence: &str) {
        if self.format == Format::Text {
            self.end();
            terminal::note(&format!("{} {sentence}", "warning:".yellow()));
        }
    }

    fn complain(&mut self, sentence: &str) {
        self.end();
        terminal::complain(&Failure::error(sentence));
    }
}

fn print(text: &str) -> Result<(), Failure> {
    terminal::write(text).map_err(|error| Failure::error(format!("cannot print the answer: {error}")))
}

/// A short description of a tool call.
fn label(tool: &ToolPart) -> String {
    let title = match &tool.state {
        ToolState::Running(state) => state.title.as_deref(),
        ToolState::Completed(state) => Some(state.title.as_str()),
        ToolState::Pending(_) | ToolState::Error(_) => None,
    };
    let input = || TELLING.iter().find_map(|name| tool.state.input().get(*name).and_then(Value::as_str));
    cut(title.filter(|title| !title.is_empty()).or_else(input).unwrap_or_default())
}

/// The first line, cut to the bound.
fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= MAX_LABEL {
        return line.to_owned();
    }
    line.chars().take(MAX_LABEL - 1).chain(['…']).collect()
}
