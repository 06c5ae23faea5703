//! Formats the diff of an edit for a terminal.

use owo_colors::OwoColorize;
use protocol::{Extra, ToolState, part::ToolPart};
use serde_json::Value;

use crate::terminal;

/// Longest diff that is shown, in lines; the rest is counted.
const MAX_LINES: usize = 40;
/// Longest line that is shown, in characters.
const MAX_LINE: usize = 160;

/// Lines of the diff of a completed tool call; empty if there is none.
pub(super) fn lines(tool: &ToolPart) -> Vec<String> {
    let ToolState::Completed(state) = &tool.state else { return Vec::new() };
    of_metadata(&state.metadata)
}

/// Lines of the diff in the metadata of a tool call or a permission request; empty if there is none.
pub(super) fn of_metadata(metadata: &Extra) -> Vec<String> {
    let told = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let patch = told(metadata.get("diff"))
        .or_else(|| told(metadata.get("filediff").and_then(|diff| diff.get("patch"))));
    patch.map(|patch| show(&patch)).unwrap_or_default()
}

fn show(patch: &str) -> Vec<String> {
    let several = patch.lines().filter(|line| line.starts_with("Index: ")).count() > 1;
    let mut in_header = true;
    let mut shown: Vec<String> = Vec::new();
    let mut hidden = 0_usize;
    for line in patch.lines() {
        if let Some(file) = line.strip_prefix("Index: ") {
            in_header = true;
            if several {
                shown.push(format!("  {}", clean(file).bold()));
            }
            continue;
        }
        in_header &= !line.starts_with("@@");
        if in_header || line.is_empty() {
            continue;
        }
        if shown.len() >= MAX_LINES {
            hidden += 1;
            continue;
        }
        shown.push(format!("  {}", paint(&clean(line))));
    }
    if hidden > 0 {
        shown.push(format!("  {}", format!("… {hidden} more lines").dimmed()));
    }
    shown
}

fn paint(line: &str) -> String {
    match line.bytes().next() {
        Some(b'+') => line.green().to_string(),
        Some(b'-') => line.red().to_string(),
        Some(b'@') => line.cyan().to_string(),
        _ => line.dimmed().to_string(),
    }
}

/// Cuts a line to its bound and replaces control characters, so that a file's content cannot move the cursor.
fn clean(line: &str) -> String {
    let mut clean: String = line.chars().take(MAX_LINE).map(terminal::harmless).collect();
    if line.chars().nth(MAX_LINE).is_some() {
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plain(metadata: &Value) -> Vec<String> {
        let tool: ToolPart = serde_json::from_value(json!({
            "callID": "1", "tool": "edit",
            "state": {
                "status": "completed", "input": {}, "output": "", "title": "", "metadata": metadata,
                "time": { "start": 1, "end": 2 },
            },
        }))
        .unwrap();
        lines(&tool).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn an_edit_is_shown_without_its_header() {
        let patch = "Index: /p/a.txt\n====\n--- /p/a.txt\n+++ /p/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n--- not a header\n";
        let expected = ["  @@ -1,2 +1,2 @@", "   one", "  -two", "  +2", "  --- not a header"];
        assert_eq!(plain(&json!({ "diff": patch })), expected);
        assert_eq!(plain(&json!({ "filediff": { "file": "a", "patch": patch } })), expected);
        assert!(plain(&json!({ "output": "x" })).is_empty());
        assert!(plain(&json!({ "diff": "" })).is_empty());
    }

    #[test]
    fn several_files_are_named() {
        let one = |name: &str| format!("Index: {name}\n===\n--- {name}\n+++ {name}\n@@ -0,0 +1 @@\n+x\n");
        let shown = plain(&json!({ "diff": format!("{}\n{}", one("a"), one("b")) }));
        assert_eq!(shown, ["  a", "  @@ -0,0 +1 @@", "  +x", "  b", "  @@ -0,0 +1 @@", "  +x"]);
    }

    #[test]
    fn long_diffs_and_lines_are_cut_and_control_characters_removed() {
        let body = "+line\n".repeat(100);
        let shown = plain(&json!({ "diff": format!("@@ -0,0 +1,100 @@\n{body}") }));
        assert_eq!((shown.len(), shown.last().unwrap().as_str()), (MAX_LINES + 1, "  … 61 more lines"));
        let shown = plain(&json!({ "diff": format!("@@ -1 +1 @@\n+{}\n+\u{1b}[2Jx", "y".repeat(500)) }));
        assert_eq!(shown[1].chars().count(), MAX_LINE + 3);
        assert_eq!(shown[2], "  +\u{fffd}[2Jx");
    }
}
