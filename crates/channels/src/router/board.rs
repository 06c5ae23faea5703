//! What is shown while a prompt is being answered: one message of a few lines that changes.
//!
//! Lines are collected as they come and shown at a pace: what came too soon after another is shown with the next, so
//! that nothing is left out where a message can be edited.

use std::{collections::VecDeque, time::Duration};

use client::view::Activity;
use protocol::Millis;
use tokio::time::Instant;

use crate::{
    courier::Showing,
    settings,
    words::{self, excerpt},
};

/// So many lines are shown.
const LINES: usize = 8;

/// So long may a line be.
const LINE: usize = 120;

/// The least time between two looks at an answer that grows.
const REST: Duration = Duration::from_secs(1);

/// What is known about a prompt that is being answered.
#[derive(Debug)]
pub(super) struct Board {
    settings: settings::Progress,
    /// Whether nobody else reads it; others are not shown command lines.
    is_direct: bool,
    /// The message that is answered, which some services want to know.
    message: Option<String>,
    began: Instant,
    lines: VecDeque<String>,
    /// Below the lines: a sign of life, or why nothing happens. Gone with the next line.
    note: Option<String>,
    /// The last tool that was used.
    tool: Option<String>,
    activity: Activity,
    is_asking: bool,
    preview: Option<String>,
    /// The lines as they were shown last.
    shown: Option<String>,
    /// When lines may be shown again.
    lines_from: Instant,
    /// When anything else may be shown again.
    rest_from: Instant,
    news: News,
}

/// What changed since it was shown.
#[derive(Debug)]
struct News {
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
            news: News { lines: false, rest: true },
        }
    }

    /// For how long it has been going on.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// What was used last.
    pub(super) fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    /// When and why the model is asked again.
    pub(super) fn retry(&self, now: Millis) -> Option<(Duration, u32, &str)> {
        let Activity::Retrying { attempt, message, next } = &self.activity else { return None };
        Some((until(*next, now), *attempt, message))
    }

    /// A tool runs.
    pub(super) fn note_tool(&mut self, tool: &str, title: &str) {
        // A command line may hold what others should not read.
        let title = if !self.is_direct && matches!(tool, "bash" | "shell") { tool } else { title };
        let title = excerpt(title, LINE);
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

    /// The agent goes on by itself, or is about to.
    pub(super) fn note_going_on(&mut self, words: &str) {
        self.add(format!("🔁 {words}"));
    }

    /// Nothing happened for a while.
    pub(super) fn note_life(&mut self, todos: Option<(usize, usize)>) {
        let todos = todos.map(|(done, all)| format!(", {done} of {all} todos done")).unwrap_or_default();
        self.note = Some(format!("⏳ Still working… ({}{todos})", words::lasting(self.elapsed())));
        self.news.lines = true;
    }

    /// The model has to be asked again, or answers.
    pub(super) fn note_activity(&mut self, activity: Activity, now: Millis) {
        self.activity = activity;
        self.note = self.retry(now).map(|(wait, attempt, message)| words::retry(wait, attempt, message));
        // Rare, and what a person wants to know first.
        self.lines_from = Instant::now();
        self.news.lines = true;
    }

    /// So many prompts of others wait on the server, before or behind this one.
    pub(super) fn note_queue(&mut self, others: usize) {
        self.note = match others {
            0 => None,
            1 => Some("📥 Another prompt waits on the server".to_owned()),
            others => Some(format!("📥 {others} other prompts wait on the server")),
        };
        self.news.lines = true;
    }

    /// A person is asked something, or not any more.
    pub(super) fn note_asking(&mut self, is_asking: bool) {
        if self.is_asking != is_asking {
            self.is_asking = is_asking;
            // Nobody is to wait for the one who waits for them.
            self.rest_from = Instant::now();
            self.news.rest = true;
        }
    }

    /// The answer reads like this now.
    pub(super) fn note_preview(&mut self, text: String) {
        self.preview = Some(text);
        self.news.rest = true;
    }

    /// When there is something to show, if there is.
    pub(super) fn due(&self) -> Option<Instant> {
        let lines = self.news.lines.then_some(self.lines_from);
        let rest = self.news.rest.then_some(self.rest_from);
        lines.into_iter().chain(rest).min()
    }

    /// What is to be shown now, if something is.
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

    /// What stays when it is over: an answer that was shown while it grew, until the whole of it takes its place.
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
    async fn work_is_shown_at_once_and_lines_at_a_pace() {
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
            "what came too soon is not left out"
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
    async fn a_sign_of_life_goes_when_something_happens() {
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
        let retrying = Activity::Retrying { attempt: 2, message: "Overloaded.".to_owned(), next: 31_000 };
        board.note_activity(retrying, 1_000);
        assert_eq!(status(&mut board).unwrap(), "🔁 Overloaded. Trying again in 30 s (attempt 2)");
        assert_eq!(board.retry(21_000), Some((Duration::from_secs(10), 2, "Overloaded.")));
        board.note_activity(Activity::Working, 31_000);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(status(&mut board), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_that_work_goes_on_is_shown_where_more_is_not_wanted() {
        let mut board = board(false, true);
        board.note_tool("read", "Read a.rs");
        board.note_life(None);
        let showing = board.show().unwrap();
        assert!(showing.is_working && showing.status.is_none());
        assert_eq!(showing.words, "is working…");
    }

    #[tokio::test(start_paused = true)]
    async fn a_growing_answer_does_not_hurry_the_lines() {
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
        assert!(!board.show().unwrap().is_working, "who waits for a person is not at work");
    }

    #[tokio::test(start_paused = true)]
    async fn others_do_not_read_command_lines() {
        let mut board = board(true, false);
        board.note_tool("bash", "curl -H 'Authorization: x'");
        assert_eq!(status(&mut board).unwrap(), "🔧 bash");
    }
}
