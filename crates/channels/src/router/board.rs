//! The progress message of a running prompt: one message of a few lines that is edited.
//!
//! Lines are collected as they arrive and shown at a limited rate. A line that arrives too early is shown together
//! with the next one, so no line is lost where messages can be edited.

use std::{collections::VecDeque, time::Duration};

use client::view::Activity;
use protocol::Millis;
use tokio::time::Instant;

use crate::{
    courier::Showing,
    settings,
    words::{self, excerpt},
};

/// Maximum number of lines.
const LINES: usize = 8;

/// Maximum length of a line, in characters.
const LINE: usize = 120;

/// Minimum time between two updates of a growing answer.
const REST: Duration = Duration::from_secs(1);

/// Progress of a running prompt.
#[derive(Debug)]
pub(super) struct Board {
    settings: settings::Progress,
    /// True if the chat has no other members; otherwise command lines are not shown.
    is_direct: bool,
    /// The service's id of the message being answered, which some services require.
    message: Option<String>,
    began: Instant,
    lines: VecDeque<String>,
    /// Shown below the lines: a heartbeat, or the reason for a delay. Removed by the next line.
    note: Option<String>,
    /// Title of the last tool call.
    tool: Option<String>,
    activity: Activity,
    is_asking: bool,
    preview: Option<String>,
    /// The lines as last shown.
    shown: Option<String>,
    /// Earliest time to show lines again.
    lines_from: Instant,
    /// Earliest time to show anything else again.
    rest_from: Instant,
    news: ProgressChange,
}

/// Changes since the last update.
#[derive(Debug)]
struct ProgressChange {
    lines: bool,
    rest: bool,
}

impl Board {
    pub(super) fn new(settings: settings::Progress, is_direct: bool, message: Option<String>) -> Self {
        let now = Instant::now();
        Self {
            settings,
            is_direct,
            message,
            began: now,
            lines: VecDeque::new(),
            note: None,
            tool: None,
            activity: Activity::Working,
            is_asking: false,
            preview: None,
            shown: None,
            lines_from: now,
            rest_from: now,
            news: ProgressChange { lines: false, rest: true },
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Title of the last tool call.
    pub(super) fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    /// If the model call is being retried: the remaining wait, the attempt, and the error.
    pub(super) fn retry(&self, now: Millis) -> Option<(Duration, u32, &str)> {
        let Activity::Retrying { attempt, message, next, .. } = &self.activity else { return None };
        Some((until(*next, now), *attempt, message))
    }

    /// Adds a line for a tool call, except for a question, which is shown anyway.
    pub(super) fn note_tool(&mut self, tool: &str, title: &str) {
        let is = |names: &[&str]| names.iter().any(|name| tool.eq_ignore_ascii_case(name));
        if is(&["question", "AskUserQuestion"]) {
            return;
        }
        // A command line may contain secrets that other members should not read.
        let is_hidden = !self.is_direct && is(&["bash", "shell"]);
        let title = if is_hidden { "Running a command".to_owned() } else { excerpt(title, LINE) };
        self.add(format!("🔧 {title}"));
        self.tool = Some(title);
    }

    fn add(&mut self, line: String) {
        self.lines.push_back(line);
        while self.lines.len() > LINES - 1 {
            self.lines.pop_front();
        }
        self.note = None;
        self.news.lines = true;
    }

    /// Adds a line about a continuation.
    pub(super) fn note_going_on(&mut self, words: &str) {
        self.add(format!("🔁 {words}"));
    }

    /// Shows a heartbeat.
    pub(super) fn note_life(&mut self, todos: Option<(usize, usize)>) {
        let todos = todos.map(|(done, all)| format!(", {done} of {all} todos done")).unwrap_or_default();
        self.note = Some(format!("⏳ Still working… ({}{todos})", words::lasting(self.elapsed())));
        self.news.lines = true;
    }

    /// Shows that the model call is being retried, or works again.
    pub(super) fn note_activity(&mut self, activity: Activity, now: Millis) {
        self.activity = activity;
        self.note = self.retry(now).map(|(wait, attempt, message)| words::retry(wait, attempt, message));
        // Retries are rare and important, so they are shown at once.
        self.lines_from = Instant::now();
        self.news.lines = true;
    }

    /// Shows how many other prompts are queued on the server.
    pub(super) fn note_queue(&mut self, others: usize) {
        self.note = match others {
            0 => None,
            1 => Some("📥 1 other prompt is queued on the server".to_owned()),
            others => Some(format!("📥 {others} other prompts are queued on the server")),
        };
        self.news.lines = true;
    }

    /// Sets whether a request is open.
    pub(super) fn note_asking(&mut self, is_asking: bool) {
        if self.is_asking != is_asking {
            self.is_asking = is_asking;
            // While the agent waits for the user, the typing indicator must stop at once.
            self.rest_from = Instant::now();
            self.news.rest = true;
        }
    }

    /// Sets the text of the answer so far.
    pub(super) fn note_preview(&mut self, text: String) {
        self.preview = Some(text);
        self.news.rest = true;
    }

    /// Time of the next update, if something changed.
    pub(super) fn due(&self) -> Option<Instant> {
        let lines = self.news.lines.then_some(self.lines_from);
        let rest = self.news.rest.then_some(self.rest_from);
        lines.into_iter().chain(rest).min()
    }

    /// The new content, if an update is due.
    pub(super) fn show(&mut self) -> Option<Showing> {
        let now = Instant::now();
        let are_lines_due = self.news.lines && now >= self.lines_from;
        let is_rest_due = self.news.rest && now >= self.rest_from;
        if !are_lines_due && !is_rest_due {
            return None;
        }
        if are_lines_due {
            self.news.lines = false;
            self.lines_from = now + self.settings.tool_throttle();
            let lines: Vec<&str> = self.lines.iter().chain(&self.note).map(String::as_str).collect();
            self.shown = (self.settings.enabled && !lines.is_empty()).then(|| lines.join("\n"));
        }
        self.news.rest = false;
        self.rest_from = now + REST;
        Some(self.showing())
    }

    /// The content after the turn: a preview stays until the complete answer replaces it.
    pub(super) fn last(&self) -> Showing {
        Showing { preview: self.preview.clone(), ..Showing::default() }
    }

    fn showing(&self) -> Showing {
        Showing {
            is_working: !self.is_asking,
            words: match &self.tool {
                Some(title) if self.settings.enabled => format!("is working: {title}"),
                _ => "is working…".to_owned(),
            },
            status: self.shown.clone(),
            preview: self.preview.clone(),
            message: self.message.clone(),
        }
    }
}

fn until(next: Millis, now: Millis) -> Duration {
    Duration::from_millis(u64::try_from(next - now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(enabled: bool, is_direct: bool) -> Board {
        let settings = settings::Progress { enabled, ..settings::Progress::default() };
        Board::new(settings, is_direct, Some("17".to_owned()))
    }

    fn status(board: &mut Board) -> Option<String> {
        board.show().and_then(|showing| showing.status)
    }

    #[tokio::test(start_paused = true)]
    async fn typing_is_shown_at_once_and_lines_at_a_limited_rate() {
        let mut board = board(true, true);
        let first = board.show().unwrap();
        assert!(first.is_working && first.status.is_none());
        board.note_tool("read", "Read a.rs");
        assert_eq!(status(&mut board).unwrap(), "🔧 Read a.rs");
        board.note_tool("read", "Read b.rs");
        assert_eq!(board.show(), None, "too soon");
        board.note_tool("read", "Read c.rs");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(
            status(&mut board).unwrap(),
            "🔧 Read a.rs\n🔧 Read b.rs\n🔧 Read c.rs",
            "an early line is not lost"
        );
        assert_eq!(board.due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_never_more_than_a_few_lines() {
        let mut board = board(true, true);
        for number in 0..20 {
            board.note_tool("read", &format!("Read {number}"));
        }
        board.note_life(Some((1, 3)));
        let status = status(&mut board).unwrap();
        assert_eq!(status.lines().count(), LINES);
        assert!(status.ends_with("⏳ Still working… (0 s, 1 of 3 todos done)"), "{status}");
        assert!(status.contains("Read 19"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_disappears_with_the_next_line() {
        let mut board = board(true, true);
        tokio::time::advance(Duration::from_mins(2)).await;
        board.note_life(None);
        assert_eq!(status(&mut board).unwrap(), "⏳ Still working… (2 min)");
        board.note_tool("read", "Read a.rs");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(status(&mut board).unwrap(), "🔧 Read a.rs");
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_says_why_and_when() {
        let mut board = board(true, true);
        let message = "Overloaded.".to_owned();
        let retrying = Activity::Retrying { attempt: 2, message, next: 31_000, action: None };
        board.note_activity(retrying, 1_000);
        assert_eq!(status(&mut board).unwrap(), "🔁 Overloaded. Trying again in 30 s (attempt 2)");
        assert_eq!(board.retry(21_000), Some((Duration::from_secs(10), 2, "Overloaded.")));
        board.note_activity(Activity::Working, 31_000);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(status(&mut board), None);
    }

    #[tokio::test(start_paused = true)]
    async fn without_progress_only_typing_is_shown() {
        let mut board = board(false, true);
        board.note_tool("read", "Read a.rs");
        board.note_life(None);
        let showing = board.show().unwrap();
        assert!(showing.is_working && showing.status.is_none());
        assert_eq!(showing.words, "is working…");
    }

    #[tokio::test(start_paused = true)]
    async fn a_growing_answer_does_not_speed_up_the_lines() {
        let mut board = board(true, true);
        board.note_tool("read", "Read a.rs");
        board.show().unwrap();
        board.note_tool("read", "Read b.rs");
        board.note_preview("He".to_owned());
        tokio::time::advance(Duration::from_secs(1)).await;
        let showing = board.show().unwrap();
        assert_eq!(
            (showing.status.as_deref(), showing.preview.as_deref()),
            (Some("🔧 Read a.rs"), Some("He"))
        );
        board.note_asking(true);
        assert!(!board.show().unwrap().is_working, "no typing indicator while a request is open");
    }

    #[tokio::test(start_paused = true)]
    async fn command_lines_are_hidden_in_groups() {
        let mut board = board(true, false);
        board.note_tool("bash", "curl -H 'Authorization: x'");
        assert_eq!(status(&mut board).unwrap(), "🔧 Running a command");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_has_no_tool_line() {
        let mut board = board(true, true);
        board.note_tool("question", "question");
        assert_eq!(status(&mut board), None);
    }
}
