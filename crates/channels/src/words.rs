//! Texts that users read in a chat, as Markdown; the adapter converts it to its service's format.

mod asks;
mod ends;
mod lists;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::{
    Unusable,
    split::{Limit, Unit},
};
pub(crate) use asks::{
    Decision, is_free, permission, permission_outcome, question, question_outcome, replied,
};
pub(crate) use ends::{failure, outcome, unknown_state, unreachable};
pub(crate) use lists::{SHOWN, Situation, agents, matching_models, models, queue, retry, sessions, status};

/// Commands: name, example usage if the name alone does not show it, description.
pub(crate) const COMMANDS: [(&str, &str, &str); 15] = [
    ("status", "", "Show what the agent is doing"),
    ("cancel", "", "Stop the running turn"),
    ("stop", "", "Stop, drop waiting messages and end automatic continuation"),
    ("continue", "", "Allow automatic continuation again"),
    ("queue", "", "List the messages that wait"),
    ("withdraw", "/withdraw 2", "Remove a message of that list"),
    ("new", "/new fix the test", "Start a new session, with its first prompt if you like"),
    ("sessions", "", "List the sessions"),
    ("use", "/use 2", "Continue a session of that list, or one by its id"),
    ("model", "/model provider/name", "List the models, or choose one"),
    ("agent", "/agent name", "List the agents, or choose one"),
    ("last", "", "Show the last answer again"),
    ("diff", "", "Send the changes as a file"),
    ("skip", "", "Dismiss a question"),
    ("help", "", "List the commands"),
];

/// The text of `/help`.
pub(crate) fn help() -> String {
    let lines = COMMANDS.map(|(name, usage, what)| match usage {
        "" => format!("/{name} – {what}"),
        usage => format!("/{name} – {what} (`{usage}`)"),
    });
    let first = "Write what you want done; the answer comes here. Commands:";
    format!("{first}\n\n{}", lines.join("\n"))
}

/// Answer to a user who has no access.
pub(crate) const STRANGER: &str = "You are not on the list of users I work for. Ask the operator of this bot for a code \
     (`baton channels pair`), then send /pair and the code.";

/// Sent once while a message waits for a server that cannot be reached.
pub(crate) const AWAY: &str =
    "The server cannot be reached right now. I go on with your message as soon as it is back.";

/// Answer to a message that cannot become a prompt.
pub(crate) fn unusable(why: Unusable) -> &'static str {
    match why {
        Unusable::Edit => "I read a message only as it was first sent. Send the change as a new message.",
        Unusable::Kind => "I cannot read this kind of message. Write it in words, or send a file.",
    }
}

/// Introduces posts that were held until the user wrote.
pub(crate) const LATE: &str = "⏰ This service lets me write to you only for a while after your last message. These \
     messages waited until now:";

pub(crate) fn unknown_command(name: &str) -> String {
    let similar = COMMANDS.iter().map(|(known, ..)| (distance(name, known), *known)).min();
    // In a short name, two typing errors could mean anything.
    let most = if name.len() < 6 { 1 } else { 2 };
    match similar {
        Some((errors, known)) if errors <= most => {
            format!("There is no command /{name}. Did you mean /{known}?")
        }
        _ => format!("There is no command /{name}. /help lists them."),
    }
}

/// Number of characters to insert, delete or replace to turn one word into another.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (above, left) in from.chars().enumerate() {
        let mut next = vec![above + 1];
        for ((column, right), (diagonal, up)) in
            to.chars().enumerate().zip(row.iter().zip(row.iter().skip(1)))
        {
            let beside = next.get(column).copied().unwrap_or_default();
            next.push((diagonal + usize::from(left != right)).min(up + 1).min(beside + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

/// Answer to messages that have to wait for the running turn.
pub(crate) fn queued(count: usize) -> String {
    let what = if count == 1 { "Queued.".to_owned() } else { format!("Queued: {count} messages.") };
    format!("📥 {what} /cancel stops what is running now.")
}

/// Answer to a message when the queue is full.
pub(crate) fn queue_full(most: usize) -> String {
    format!("{most} messages are already waiting, so this one was not queued. Send it again later.")
}

/// Answer to a message that is too old to run.
pub(crate) fn stale(age: Duration, text: &str) -> String {
    let age = lasting(age);
    format!(
        "I was not running when you wrote this {age} ago, so I did not run it: “{}”. Send it again if it still matters.",
        excerpt(text, 80)
    )
}

/// Formats a duration for a chat, in its largest units.
pub(crate) fn lasting(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The beginning of a text, on one line.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    clip(&text.split_whitespace().collect::<Vec<_>>().join(" "), most)
}

/// The beginning of a text, with its line breaks. `most` counts characters.
pub(crate) fn clip(text: &str, most: usize) -> String {
    Limit { length: most, unit: Unit::Character }.shorten(text.trim())
}

/// A text as a code span, or as a code block if it has several lines.
pub(crate) fn code(text: &str) -> String {
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or_default();
    if text.contains('\n') {
        let fence = "`".repeat((longest + 1).max(3));
        return format!("{fence}\n{text}\n{fence}");
    }
    let marks = "`".repeat(longest + 1);
    if longest == 0 { format!("`{text}`") } else { format!("{marks} {text} {marks}") }
}

/// Formats a file size for a chat.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}
