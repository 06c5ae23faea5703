//! The demo's titles and summaries.

use super::choice;
use super::scenario::{Action, ScriptedText};
use crate::{AssistantContent, Finish, Message, Request};

/// Longest title, in characters.
const TITLE: usize = 50;

/// A title: the first line of the prompt, cut at a word.
pub(super) fn title(request: &Request) -> Vec<Action> {
    let prompt = choice::prompt(request);
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("Hello");
    let mut title = String::new();
    for word in line.split_whitespace() {
        if !title.is_empty() && title.chars().count() + 1 + word.chars().count() > TITLE {
            break;
        }
        if !title.is_empty() {
            title.push(' ');
        }
        title.push_str(word);
    }
    said(title.chars().take(TITLE).collect())
}

/// Prefix of every summary.
const SUMMARY: &str = "Summary by the demo model:";

/// A summary that states the number of lines, which is all a script can tell.
pub(super) fn summary(request: &Request) -> Vec<Action> {
    let lines = choice::prompt(request).lines().count();
    said(format!("{SUMMARY} what came before this has {lines} lines."))
}

/// Returns true if the conversation contains such a summary.
pub(super) fn is_summarised(request: &Request) -> bool {
    request.messages.iter().any(|message| match message {
        Message::Assistant(said) => {
            said.iter().any(|it| matches!(it, AssistantContent::Text(text) if text.starts_with(SUMMARY)))
        }
        Message::User(_) | Message::Tool(_) => false,
    })
}

fn said(text: String) -> Vec<Action> {
    vec![
        Action::Text(ScriptedText { text, words: 1, delay_ms: 0, repeat: 1 }),
        Action::Finish { reason: Finish::Stop, usage: None },
    ]
}
