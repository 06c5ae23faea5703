//! Shows a turn while it runs: text as it arrives, a line per tool call, the diff of an edit, and a spinner
//! while nothing arrives.
//!
//! The agent's text goes to standard output and everything else to standard error, so a pipe receives only the
//! answer: each text once, when it is final, as the model wrote it. Text that a plugin rewrites or a broken
//! connection retracts can be corrected on a terminal, but not in a pipe. On a terminal, Markdown is rendered.

mod calls;
mod markdown;
mod spinner;
mod step;

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use engine::ports::{Clock as _, SystemClock};
use owo_colors::OwoColorize;
use protocol::{
    Event, EventBody, Message, MessageId, Millis, Part, PartBody, PartId, SessionId, SessionStatus,
    message::AssistantMessage,
    part::{TextPart, ToolPart},
};

use super::diff;
use crate::{
    args::{Format, Run},
    exit::Failure,
    terminal,
};
use markdown::Markdown;
use spinner::{Spinner, seconds};
use step::LastStep;

/// State of the output.
#[derive(Debug)]
pub(super) struct Screen {
    format: Format,
    /// The user wants to see the model's reasoning.
    shows_reasoning: bool,
    session: SessionId,
    viewer: Viewer,
    spinner: Spinner,
    /// A question is on the screen and the user types on the current line.
    held: bool,
    /// Ids of the agent's messages. Text parts of other messages belong to prompts and are not shown.
    answers: HashSet<MessageId>,
    last_step: LastStep,
    /// Text already shown, per part.
    shown: HashMap<PartId, String>,
    /// Renders the text on a terminal.
    markdown: Option<Markdown>,
    /// The last output does not end with a newline.
    mid_line: bool,
    /// Tool calls and reasoning that are already shown.
    done: HashSet<PartId>,
    /// Warnings that are already shown.
    warned: HashSet<String>,
}

/// The streams that a user reads live on a terminal.
#[derive(Debug, Clone, Copy)]
struct Viewer {
    /// Standard error: notes about the turn.
    sees_notes: bool,
    /// Standard output: the agent's text appears as it arrives instead of when it is final.
    sees_words: bool,
}

impl Screen {
    pub(super) fn new(options: &Run, session: &SessionId) -> Self {
        let format = options.format;
        Self {
            format,
            shows_reasoning: options.thinking,
            session: session.clone(),
            viewer: Viewer {
                sees_notes: format == Format::Text && terminal::is_watched(),
                sees_words: terminal::is_read_live(),
            },
            spinner: Spinner::default(),
            held: false,
            answers: HashSet::new(),
            last_step: LastStep::default(),
            shown: HashMap::new(),
            markdown: None,
            mid_line: false,
            done: HashSet::new(),
            warned: HashSet::new(),
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
            EventBody::PartUpdated(it) => self.show_part(&it.part, is_ours),
            EventBody::PartRemoved(it) if self.shown.remove(&it.part_id).is_some() => {
                self.note("the connection to the model broke; discarding the text above");
                Ok(())
            }
            body if is_ours => self.show_own(body),
            _ => Ok(()),
        }
    }

    /// Shows an event of the session itself.
    fn show_own(&mut self, body: &EventBody) -> Result<(), Failure> {
        match body {
            EventBody::MessageUpdated(it) => {
                if let Message::Assistant(message) = &it.info {
                    self.meet(message);
                }
            }
            EventBody::PartDelta(it) if self.viewer.sees_words => {
                if let Some(shown) = self.shown.get_mut(&it.part_id) {
                    shown.push_str(&it.delta);
                    self.say(&it.delta)?;
                }
            }
            EventBody::SessionStatus(it) => self.show_status(&it.status),
            EventBody::ContinuationStarted(it) => {
                self.note(&it.describe().dimmed().to_string());
                self.wait();
            }
            EventBody::ContinuationCountdown(it) => self.note(&it.describe().dimmed().to_string()),
            EventBody::ContinuationStopped(it) => self.note(&it.describe().yellow().to_string()),
            _ => {}
        }
        Ok(())
    }

    /// Remembers a step of the answer. The summary of a compaction is for the model, not an answer.
    fn meet(&mut self, message: &AssistantMessage) {
        if message.summary != Some(true) {
            self.last_step.update(message);
            self.answers.insert(message.id.clone());
        } else if self.last_step.summarised(&message.id) {
            self.note(&"summarising the conversation".dimmed().to_string());
            self.spin("summarising");
        }
    }

    fn show_part(&mut self, part: &Part, is_ours: bool) -> Result<(), Failure> {
        let is_answer = is_ours && self.answers.contains(&part.message_id);
        match &part.body {
            PartBody::Text(text) if is_answer && !is_hidden(text) => {
                self.last_step.note_text(&part.message_id, &text.text);
                if self.viewer.sees_words || !part.is_open() {
                    self.show_text(&part.id, &text.text)?;
                }
                if !part.is_open() {
                    self.end_line()?;
                    self.wait();
                }
            }
            PartBody::Reasoning(_) if is_answer && part.is_open() => self.spin("thinking"),
            PartBody::Reasoning(reasoning) if is_answer && self.shows_reasoning => {
                self.show_reasoning(&part.id, &reasoning.text);
            }
            PartBody::Tool(tool) => {
                self.last_step.note_call(&part.message_id);
                self.show_tool(&part.id, tool, is_ours);
            }
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

    fn show_reasoning(&mut self, id: &PartId, text: &str) {
        if text.trim().is_empty() || !self.done.insert(id.clone()) {
            return;
        }
        self.end();
        let mut markdown = Markdown::new(terminal::width());
        let text = markdown.push(text) + &markdown.finish();
        for line in anstream::adapter::strip_str(&text).to_string().lines() {
            terminal::note(&line.dimmed().to_string());
        }
        self.wait();
    }

    fn show_tool(&mut self, id: &PartId, tool: &ToolPart, is_ours: bool) {
        let indent = if is_ours { "" } else { "  " };
        let Some(line) = calls::line(tool, indent, terminal::width()) else {
            return self.spin(&calls::running(tool));
        };
        if !self.done.insert(id.clone()) {
            return;
        }
        self.note(&line);
        for line in diff::lines(tool) {
            self.note(&format!("{indent}{line}"));
        }
        self.wait();
    }

    fn show_status(&mut self, status: &SessionStatus) {
        match status {
            SessionStatus::Busy { .. } => self.wait(),
            SessionStatus::Retry { attempt, limit, message, next, .. } => {
                // A rate limit is retried for a time, not for a number of times.
                let limit = limit.filter(|limit| attempt <= limit);
                let count =
                    limit.map_or_else(|| format!("retry {attempt}"), |it| format!("{attempt} of {it}"));
                self.show_retry(message, *next, &count);
            }
            SessionStatus::Idle { .. } => self.spinner.hide(),
        }
    }

    /// Says that the model call failed and counts down to the next try. A log gets the line, too: minutes without a
    /// word look like a hang.
    fn show_retry(&mut self, message: &str, next: Millis, count: &str) {
        let left = u64::try_from(next.saturating_sub(SystemClock.now())).unwrap_or_default();
        let left = Duration::from_millis(left);
        self.end();
        terminal::note(&terminal::wrapped(&format!(
            "{} {}; next try in {} ({count})",
            "retry:".yellow(),
            terminal::clean(message),
            seconds(left)
        )));
        if self.viewer.sees_notes && !self.held {
            self.spinner.count_down("next try in", Instant::now() + left);
        }
    }

    /// Shows the spinner.
    pub(super) fn wait(&mut self) {
        self.spin("working");
    }

    fn spin(&mut self, label: &str) {
        if self.viewer.sees_notes && !self.mid_line && !self.held {
            self.spinner.show(label);
        }
    }

    /// Hides the spinner while the user answers a question, or shows it again.
    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
        if held {
            self.end();
        } else {
            self.wait();
        }
    }

    /// Ends the output of the turn, or interrupts it for a note.
    pub(super) fn end(&mut self) {
        self.spinner.hide();
        // A write error was already reported.
        let _ = self.end_line();
    }

    /// The reason why a completed answer is none, or only a part of one.
    pub(super) fn shortfall(&self) -> Option<&'static str> {
        self.last_step.shortfall()
    }

    /// The model that answered last, as `provider/model`.
    pub(super) fn model(&self) -> Option<&str> {
        self.last_step.model()
    }

    fn say(&mut self, words: &str) -> Result<(), Failure> {
        if words.is_empty() {
            return Ok(());
        }
        if !self.viewer.sees_words {
            // Only final texts come here. A space at their end is of no use in a file.
            let words = words.trim_end();
            return if words.is_empty() { Ok(()) } else { print(&format!("{words}\n")) };
        }
        let markdown = self.markdown.get_or_insert_with(|| Markdown::new(terminal::width()));
        let ready = markdown.push(words);
        if ready.is_empty() {
            return Ok(());
        }
        self.spinner.hide();
        self.mid_line = !ready.ends_with('\n');
        print(&ready)
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        let Some(mut markdown) = self.markdown.take() else { return Ok(()) };
        let rest = markdown.finish();
        self.mid_line = false;
        if rest.is_empty() {
            return Ok(());
        }
        self.spinner.hide();
        print(&rest)
    }

    /// Prints a line about the turn, if a user watches.
    fn note(&mut self, line: &str) {
        if self.viewer.sees_notes {
            self.end();
            terminal::note(line);
        }
    }

    /// Prints a warning about a problem that does not stop the turn, once.
    pub(super) fn warn(&mut self, sentence: &str) {
        if self.format == Format::Text && self.warned.insert(sentence.to_owned()) {
            self.end();
            terminal::warn(&terminal::clean(sentence));
        }
    }

    /// Prints lines about the turn for users and for logs.
    pub(super) fn report(&mut self, lines: &[String]) {
        if self.format == Format::Text {
            self.end();
            for line in lines {
                terminal::note(&terminal::wrapped(line));
            }
        }
    }
}

/// Text that the server added for the model, or that the model does not get.
fn is_hidden(text: &TextPart) -> bool {
    text.synthetic == Some(true) || text.ignored == Some(true)
}

fn print(text: &str) -> Result<(), Failure> {
    terminal::write(text).map_err(|error| Failure::error(format!("cannot print the answer: {error}")))
}
