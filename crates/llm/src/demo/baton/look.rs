//! The default tour: lists the project, reads one file, keeps a todo list and reports.

use serde_json::{Value, json};

use super::{Action, PROVIDER_HINT, Turn, call, go_on, say, stop};

/// Names of files worth reading, best first, in lower case.
const TELLING: [&str; 7] =
    ["readme.md", "readme", "readme.txt", "cargo.toml", "package.json", "pyproject.toml", "go.mod"];

/// Most names mentioned in the answer.
const MENTIONED: usize = 6;

/// Longest quotation from a file, in characters.
const QUOTED: usize = 120;

pub(super) fn around(turn: &Turn<'_>) -> Vec<Action> {
    let seen = turn.result("list").filter(|result| !result.is_error).map(|result| entries(&result.output));
    match (&seen, turn.step) {
        (None, 0) if turn.offers("list") => {
            let mut actions =
                vec![say("Hello! I am Baton's built-in demo. Let me look around your project first. ")];
            actions.extend(todos(turn, ["in_progress", "pending"]));
            actions.push(call("list", json!({})));
            go_on(actions)
        }
        (Some(names), 1) if turn.offers("read") => match telling(names) {
            Some(file) => go_on([
                say(&format!("`{file}` looks telling, I'll read it. ")),
                call("read", json!({ "filePath": file })),
            ]),
            None => conclude(turn, names),
        },
        (Some(names), _) => conclude(turn, names),
        (None, _) => stop([
            say(
                "Hello! I am Baton's built-in demo. I could not look around your project, but the session works. ",
            ),
            say(PROVIDER_HINT),
        ]),
    }
}

/// The last step: completes the todo list, then answers.
fn conclude(turn: &Turn<'_>, names: &[String]) -> Vec<Action> {
    // Step 0 wrote the first list; the next write is the step right after reading.
    let looked = if turn.result("read").is_some() { 2 } else { 1 };
    if turn.step == looked {
        let ticks: Vec<Action> = todos(turn, ["completed", "completed"]).into_iter().collect();
        if !ticks.is_empty() {
            return go_on(ticks);
        }
    }
    let mut answer = match names {
        [] => "This directory is empty, a fine place to start. ".to_owned(),
        [only] => format!("There is one entry here, `{only}`. "),
        many => {
            let shown: Vec<String> = many.iter().take(MENTIONED).map(|name| format!("`{name}`")).collect();
            let more = if many.len() > MENTIONED { ", and more" } else { "" };
            format!("I see {} entries here: {}{more}. ", many.len(), shown.join(", "))
        }
    };
    if let Some(read) = turn.result("read").filter(|result| !result.is_error) {
        let file = telling(names).map_or("It", String::as_str);
        answer.push_str(&opening(file, &read.output));
        answer.push(' ');
    }
    answer
        .push_str("\n\nI am only a script, so that is all I can tell. Say `help` to see what else I show. ");
    stop([say(&answer), say(PROVIDER_HINT)])
}

fn todos(turn: &Turn<'_>, states: [&str; 2]) -> Option<Action> {
    let todos: Vec<Value> = ["Look around the project", "Say what I found"]
        .iter()
        .zip(states)
        .map(|(content, status)| json!({ "content": content, "status": status, "priority": "medium" }))
        .collect();
    turn.offers("todowrite").then(|| call("todowrite", json!({ "todos": todos })))
}

fn telling(names: &[String]) -> Option<&String> {
    let wanted = |file: &str| names.iter().find(move |name| name.eq_ignore_ascii_case(file));
    TELLING
        .iter()
        .find_map(|file| wanted(file))
        .or_else(|| names.iter().find(|name| name.to_lowercase().ends_with(".md")))
}

/// Text between two tags of a tool's output; all of it when the tags are missing.
fn section<'a>(output: &'a str, tag: &str) -> &'a str {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let inner = output.split_once(&open).map_or(output, |(_, rest)| rest);
    inner.rsplit_once(&close).map_or(inner, |(inner, _)| inner).trim_matches('\n')
}

/// Names in the output of `list`, without remarks in parentheses.
fn entries(output: &str) -> Vec<String> {
    section(output, "entries")
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('('))
        .map(str::to_owned)
        .collect()
}

/// Numbered lines in the output of `read`, without their numbers.
fn content(output: &str) -> impl Iterator<Item = &str> {
    section(output, "content").lines().filter_map(|line| {
        let (number, text) = line.split_once(':')?;
        number.trim().parse::<u64>().ok().map(|_| text.trim())
    })
}

/// Number of lines that `read` showed.
pub(super) fn lines(output: &str) -> usize {
    content(output).count()
}

/// A sentence that quotes the beginning of a file.
pub(super) fn opening(file: &str, output: &str) -> String {
    let first = content(output).map(|line| line.trim_start_matches(['#', ' '])).find(|line| !line.is_empty());
    first.map_or_else(
        || format!("`{file}` has nothing to read in it."),
        |line| {
            let cut: String = line.chars().take(QUOTED).collect();
            let dots = if cut.len() < line.len() { "..." } else { "" };
            format!("`{file}` begins with \"{cut}{dots}\".")
        },
    )
}

/// The report of a child session without the tags around it.
pub(super) fn task_report(output: &str) -> String {
    section(output, "task_result").lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}
