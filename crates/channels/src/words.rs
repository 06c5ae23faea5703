//! What people are told, in their words. Markdown, which an adapter puts into its service's form.

mod asks;
mod ends;
mod lists;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use asks::{
    Decision, is_free, permission, permission_outcome, question, question_outcome, replied,
};
pub(crate) use ends::{failure, outcome, unreachable};
pub(crate) use lists::{SHOWN, Situation, agents, models, retry, sessions, status};

/// The commands: name, how it is used where that is not clear, what it does.
pub(crate) const COMMANDS: [(&str, &str, &str); 13] = [
    ("status", "", "What the agent does right now"),
    ("cancel", "", "Stop what it does"),
    ("stop", "", "Stop, drop what waits, and do not go on by itself"),
    ("continue", "", "Let it go on by itself again"),
    ("new", "", "Begin a new session"),
    ("sessions", "", "List the sessions"),
    ("use", "/use 2", "Go on with a session of that list, or with an id"),
    ("model", "/model provider/name", "List the models, or choose one"),
    ("agent", "/agent name", "List the agents, or choose one"),
    ("last", "", "The last answer again"),
    ("diff", "", "What was changed, as a file"),
    ("skip", "", "Dismiss a question"),
    ("help", "", "What can be done here"),
];

/// What can be done.
pub(crate) fn help() -> String {
    let lines = COMMANDS.map(|(name, usage, what)| match usage {
        "" => format!("/{name} – {what}"),
        usage => format!("/{name} – {what} (`{usage}`)"),
    });
    let first = "Write what you want done, and the answer comes here. While the agent works you can use:";
    format!("{first}\n\n{}", lines.join("\n"))
}

/// Somebody who was not let in, and how to change that.
pub(crate) const STRANGER: &str = "I do not know you, so I may not work for you. Whoever runs this server can make a \
     code with `baton channels pair`; then send me /pair and the code.";

/// Said before what came too late for somebody who had not written for long.
pub(crate) const LATE: &str = "⏰ I could not write to you earlier: here I may do that only for a while after your last \
     message. This is what I had to tell you:";

/// A command that there is not.
pub(crate) fn unknown_command(name: &str) -> String {
    format!("There is no command /{name}. /help lists them.")
}

/// What waits in front of a message.
pub(crate) fn queued(position: usize) -> String {
    format!("📥 Queued (#{position}). It comes after what runs now; /cancel stops that.")
}

/// Too much waits.
pub(crate) fn queue_full(most: usize) -> String {
    format!("{most} messages wait already, so this one was not taken. Send it again later.")
}

/// A message that is too old to be run.
pub(crate) fn stale(age: Duration, text: &str) -> String {
    let age = lasting(age);
    format!(
        "I was away when you wrote this {age} ago, so I did not run it: “{}”. Send it again if it still matters.",
        excerpt(text, 80)
    )
}

/// A length of time, for people.
pub(crate) fn lasting(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// How a text begins, on one line.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let head: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", head.trim_end())
}

/// A text that is to be shown as it is.
pub(crate) fn code(text: &str) -> String {
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or_default();
    if text.contains('\n') {
        let fence = "`".repeat((longest + 1).max(3));
        return format!("{fence}\n{text}\n{fence}");
    }
    let marks = "`".repeat(longest + 1);
    if longest == 0 { format!("`{text}`") } else { format!("{marks} {text} {marks}") }
}

/// How much a file holds.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}
