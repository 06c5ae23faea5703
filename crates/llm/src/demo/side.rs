//! What the demo says when it is asked for something other than a step of a turn.

use super::choice;
use super::scenario::{Action, Talk};
use crate::{Finish, Message, Request};

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

/// A summary: how much was said, which is all a script can honestly tell.
pub(super) fn summary(request: &Request) -> Vec<Action> {
    let count =
        |wanted: fn(&Message) -> bool| request.messages.iter().filter(|message| wanted(message)).count();
    let prompts = count(|message| matches!(message, Message::User(_)));
    let answers = count(|message| matches!(message, Message::Assistant(_)));
    said(format!("Summary by the demo model: so far {prompts} from the person, {answers} from the model."))
}

fn said(text: String) -> Vec<Action> {
    vec![
        Action::Text(Talk { text, words: 1, delay_ms: 0, repeat: 1 }),
        Action::Finish { reason: Finish::Stop, usage: None },
    ]
}
