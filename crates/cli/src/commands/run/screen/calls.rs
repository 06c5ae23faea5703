//! The line about a tool call: its outcome, its name, what it worked on, and the reason if it failed.

use owo_colors::OwoColorize;
use protocol::{ToolState, part::ToolPart};
use serde_json::Value;

use super::super::words::one_line;

/// Longest description of a call or of its failure, in characters.
const MAX_LABEL: usize = 100;
/// Shortest description that a narrow terminal cuts to, in characters.
const MIN_LABEL: usize = 24;
/// Input fields that describe a call best, in this order.
const TELLING: [&str; 6] = ["description", "command", "filePath", "pattern", "path", "url"];
/// The tool that receives calls which the model made wrongly.
const INVALID: &str = "invalid";

/// The line about a call that has ended, cut to fit into the terminal's width; `None` while the call runs.
pub(super) fn line(tool: &ToolPart, indent: &str, width: usize) -> Option<String> {
    let trouble = match &tool.state {
        ToolState::Pending(_) | ToolState::Running(_) => return None,
        ToolState::Completed(_) => failure(tool),
        ToolState::Error(failed) => Some(reason(&failed.error)),
    };
    let mark = if trouble.is_some() { "✗".red().to_string() } else { "✓".green().to_string() };
    let name = name(tool);
    // The mark, the spaces and a failure share the line with the description.
    let taken = indent.len() + name.chars().count() + 5;
    let room = width.saturating_sub(taken);
    let rest = room.saturating_sub(trouble.as_ref().map_or(0, |it| it.chars().count() + 2));
    let label = one_line(&label(tool), rest.clamp(MIN_LABEL, MAX_LABEL));
    let gap = if label.is_empty() { "" } else { " " };
    let trouble = trouble.map(|trouble| format!(": {}", one_line(&trouble, room.max(MIN_LABEL))));
    let trouble = trouble.unwrap_or_default();
    Some(format!("{indent}{mark} {}{gap}{}{}", name.bold(), label.dimmed(), trouble.red()))
}

/// The description of a call that runs.
pub(super) fn running(tool: &ToolPart) -> String {
    format!("{} {}", tool.tool, label(tool))
}

/// The failure of a call that ended without an error: a command with an exit code, or a call made wrongly.
fn failure(tool: &ToolPart) -> Option<String> {
    let ToolState::Completed(state) = &tool.state else { return None };
    if tool.tool == INVALID {
        return Some(reason(state.input.get("error").and_then(Value::as_str).unwrap_or("invalid call")));
    }
    match state.metadata.get("exit")?.as_i64()? {
        0 => None,
        code => Some(format!("exit code {code}")),
    }
}

/// The tool's name; for a call made wrongly, the name that the model used.
fn name(tool: &ToolPart) -> &str {
    let wanted = || tool.state.input().get("tool").and_then(Value::as_str);
    if tool.tool == INVALID { wanted().unwrap_or(INVALID) } else { &tool.tool }
}

/// A short description of a call.
fn label(tool: &ToolPart) -> String {
    let title = match &tool.state {
        _ if tool.tool == INVALID => return String::new(),
        ToolState::Running(state) => state.title.as_deref(),
        ToolState::Completed(state) => Some(state.title.as_str()),
        ToolState::Pending(_) | ToolState::Error(_) => None,
    };
    let input = || TELLING.iter().find_map(|name| tool.state.input().get(*name).and_then(Value::as_str));
    one_line(title.filter(|title| !title.is_empty()).or_else(input).unwrap_or_default(), MAX_LABEL)
}

/// The first line of an error that is text: results of subagents wrap theirs in tags.
fn reason(error: &str) -> String {
    let is_tag = |line: &&str| line.starts_with('<') && line.ends_with('>');
    let first = error.lines().map(str::trim).find(|line| !line.is_empty() && !is_tag(line));
    one_line(first.unwrap_or("failed"), MAX_LABEL)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(tool: &str, state: &Value) -> String {
        let part = json!({ "callID": "1", "tool": tool, "state": state });
        let line = line(&serde_json::from_value(part).unwrap(), "  ", 80).unwrap();
        anstream::adapter::strip_str(&line).to_string()
    }

    fn completed(tool: &str, title: &str, input: &Value, metadata: &Value) -> String {
        shown(
            tool,
            &json!({
                "status": "completed", "input": input, "output": "", "title": title, "metadata": metadata,
                "time": { "start": 1, "end": 2 },
            }),
        )
    }

    fn failed(tool: &str, input: &Value, error: &str) -> String {
        shown(
            tool,
            &json!({ "status": "error", "input": input, "error": error, "time": { "start": 1, "end": 2 } }),
        )
    }

    #[test]
    fn a_command_that_failed_is_marked_as_failed() {
        let line = |exit: &Value| completed("bash", "npm test", &json!({}), &json!({ "exit": exit }));
        assert_eq!(line(&json!(0)), "  ✓ bash npm test");
        assert_eq!(line(&json!(254)), "  ✗ bash npm test: exit code 254");
        assert_eq!(line(&Value::Null), "  ✓ bash npm test");
    }

    #[test]
    fn a_call_made_wrongly_is_shown_with_the_tool_that_the_model_meant() {
        let input = json!({ "tool": "read", "error": "filePath is missing\nmore" });
        assert_eq!(completed("invalid", "Invalid Tool", &input, &json!({})), "  ✗ read: filePath is missing");
    }

    #[test]
    fn errors_are_shown_without_markup() {
        let error =
            "<task id=\"ses_1\" state=\"error\">\n<task_error>\nThe model is gone.\n</task_error>\n</task>";
        let input = json!({ "description": "Mock subtask" });
        assert_eq!(failed("task", &input, error), "  ✗ task Mock subtask: The model is gone.");
        assert_eq!(failed("read", &json!({}), "<x>"), "  ✗ read: failed");
    }
}
