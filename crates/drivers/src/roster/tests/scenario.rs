//! The events of one task in the snapshots of each agent, as a table of docs/agents.md.
//!
//! The snapshots of each runner use their own short form; this module maps them to the names of the wire.

use std::fmt::Write as _;
use std::path::Path;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// The snapshots of the task: read a file, add a line to it, report it.
const STREAMS: [(&str, &str); 5] = [
    ("native", "../../native/src/tests/snapshots/native__tests__scenarios__story_read_edit.snap"),
    ("Claude Code", "claude/tests/snapshots/drivers__claude__tests__recordings__state_read_edit.snap"),
    ("Codex", "codex/tests/snapshots/drivers__codex__tests__replay__read_edit.snap"),
    ("ACP", "acp/tests/snapshots/drivers__acp__tests__replay__opencode_read_edit.snap"),
    ("OpenCode", "opencode/tests/snapshots/drivers__opencode__tests__replay__read_edit.snap"),
];

/// The prefix of a snapshot line, in lower case, and its event. The first match counts.
const WORDS: [(&str, &str); 17] = [
    ("busy", "`session.status` busy"),
    ("status busy", "`session.status` busy"),
    ("idle(", "`session.status` idle"),
    ("status idle", "`session.status` idle"),
    ("session.idle", "`session.idle`"),
    ("idle", "`session.idle`"),
    ("user", "`message.updated` user"),
    ("message user", "`message.updated` user"),
    ("delta", "`message.part.delta`"),
    ("text+start", "`message.part.updated` text, open"),
    ("text start", "`message.part.updated` text, open"),
    ("text \"\"", "`message.part.updated` text, open"),
    ("text", "`message.part.updated` text"),
    ("step-start", "`message.part.updated` step-start"),
    ("step start", "`message.part.updated` step-start"),
    ("step-finish", "`message.part.updated` step-finish"),
    ("step finish", "`message.part.updated` step-finish"),
];

/// The cell of an event without details.
const THERE: &str = "●";

/// An event and its cell for each stream.
struct Row {
    event: String,
    cells: Vec<Option<String>>,
}

/// The table. An empty cell marks a difference.
pub(super) fn table() -> String {
    let mut rows: Vec<Row> = Vec::new();
    for (at, (name, path)) in STREAMS.into_iter().enumerate() {
        let words = words(path);
        for (event, times) in
            [("`session.idle`", 1), ("`session.status` idle", 1), ("`session.status` busy", 1)]
        {
            assert_eq!(words.iter().filter(|(word, _)| word == event).count(), times, "{name}: {event}");
        }
        rows = merged(&rows, at, &words);
    }
    let names: Vec<&str> = STREAMS.iter().map(|(name, _)| *name).collect();
    let mut table = format!("| | event | {} |\n|---|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<&str> = row.cells.iter().map(|cell| cell.as_deref().unwrap_or("")).collect();
        writeln!(table, "| {} | {} | {} |", at + 1, row.event, cells.join(" | ")).unwrap();
    }
    table
}

/// Adds a stream as a column. Equal events share a row.
fn merged(rows: &[Row], at: usize, words: &[(String, String)]) -> Vec<Row> {
    let old: Vec<&str> = rows.iter().map(|row| row.event.as_str()).collect();
    let new: Vec<&str> = words.iter().map(|(event, _)| event.as_str()).collect();
    let both = |row: Option<usize>, word: Option<usize>| {
        let mut cells = row.map_or_else(|| vec![None; at], |row| rows[row].cells.clone());
        cells.push(word.map(|word| words[word].1.clone()));
        let event = word.map_or_else(|| old[row.unwrap()], |word| new[word]);
        Row { event: event.to_owned(), cells }
    };
    let mut merged = Vec::new();
    for operation in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let (before, after) = (operation.old_range(), operation.new_range());
        if matches!(operation, DiffOp::Equal { .. }) {
            merged.extend(before.zip(after).map(|(row, word)| both(Some(row), Some(word))));
        } else {
            merged.extend(before.map(|row| both(Some(row), None)));
            merged.extend(after.map(|word| both(None, Some(word))));
        }
    }
    merged
}

/// The events of a stream with their details. Consecutive equal events, such as deltas, become one.
fn words(path: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let story = text.splitn(3, "---\n").nth(2).unwrap();
    let mut tools: Vec<String> = Vec::new();
    let mut words: Vec<(String, String)> =
        story.lines().filter_map(|line| word(&line.trim().to_ascii_lowercase(), &mut tools)).collect();
    words.dedup_by(|next, last| next.0 == last.0);
    words
}

/// The event of one line. Events that only Baton sends, events about the session itself and events without a session
/// (`file.edited`) are left out, because not every snapshot contains them.
fn word(line: &str, tools: &mut Vec<String>) -> Option<(String, String)> {
    let plain = line.strip_prefix("message ").unwrap_or(line);
    if plain.starts_with("asst") || plain.starts_with("assistant") {
        return Some((assistant(plain), THERE.to_owned()));
    }
    if let Some(found) = tool(line.strip_prefix("tool ").unwrap_or(line), tools) {
        return Some(found);
    }
    let (_, event) = WORDS.iter().find(|(start, _)| line.starts_with(start))?;
    Some(((*event).to_owned(), THERE.to_owned()))
}

/// The event of an assistant message, with its finish reason and completion.
fn assistant(line: &str) -> String {
    let finish = match line {
        line if line.contains("tool") => ", `tool-calls`",
        line if line.contains("stop") => ", `stop`",
        _ => "",
    };
    let completed = if line.contains("done") || line.contains("completed") { ", completed" } else { "" };
    format!("`message.updated` assistant{finish}{completed}")
}

/// The event of a tool. Tools are numbered, because their names differ between agents.
fn tool(line: &str, tools: &mut Vec<String>) -> Option<(String, String)> {
    let mut parts = line.split([':', ' ']);
    let (name, state) = (parts.next()?, parts.next()?);
    if !["pending", "running", "completed", "error"].contains(&state) {
        return None;
    }
    if !tools.iter().any(|known| known == name) {
        tools.push(name.to_owned());
    }
    let which = if tools[0] == name { "first" } else { "second" };
    Some((format!("`message.part.updated` the {which} tool, {state}"), format!("`{name}`")))
}
