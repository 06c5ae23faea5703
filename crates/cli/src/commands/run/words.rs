//! The texts of `run` about requests: what the agent wants to do, what `always` would save, and what was denied.

use protocol::request::{PermissionRequest, Question, Request};
use serde_json::{Value, json};

use crate::terminal;

/// Lines of a command that are shown. More are counted, so that a user knows that something is hidden.
const MAX_LINES: usize = 60;
/// Longest text inside a sentence, in characters.
const MAX_QUOTED: usize = 120;

/// The line that says who asks for what: the agent, or the subagent with the title `child`.
pub(super) fn headline(request: &PermissionRequest, child: Option<&str>) -> String {
    let who = match child {
        Some("") => "A subagent".to_owned(),
        Some(title) => format!("The subagent \"{}\"", one_line(title, MAX_QUOTED)),
        None => "The agent".to_owned(),
    };
    let wants = match request.permission.as_str() {
        "bash" => "wants to run a command",
        "edit" => "wants to change a file",
        "read" => "wants to read a file",
        "webfetch" => "wants to fetch a page",
        "external_directory" => "wants to leave the project's directory",
        "doom_loop" => "repeats a call of the tool",
        "task" => "wants to start a subagent",
        other => return format!("{who} asks for the permission {other}:"),
    };
    format!("{who} {wants}:")
}

/// The exact command line, path or address that needs the permission, line by line.
pub(super) fn subject(request: &PermissionRequest) -> Vec<String> {
    let command = request.metadata.get("command").and_then(Value::as_str).filter(|it| !it.trim().is_empty());
    let text = command.map_or_else(|| request.patterns.join("\n"), str::to_owned);
    let mut lines: Vec<String> =
        text.lines().take(MAX_LINES).map(|line| line.chars().map(terminal::harmless).collect()).collect();
    let hidden = text.lines().count().saturating_sub(MAX_LINES);
    if hidden > 0 {
        lines.push(format!("… {hidden} more lines"));
    }
    lines
}

/// A request in a few words: the command line, file or question.
pub(super) fn brief(request: &Request) -> String {
    match request {
        Request::Permission(request) => {
            let subject = one_line(&subject(request).join(" "), MAX_QUOTED);
            match request.permission.as_str() {
                _ if subject.is_empty() => format!("permission for {}", request.permission),
                "bash" => format!("permission for `{subject}`"),
                "doom_loop" => format!("permission to repeat `{subject}`"),
                permission => format!("permission for {permission} of `{subject}`"),
            }
        }
        Request::Question(request) => {
            let first = request.questions.first().map_or("", |question| question.question.as_str());
            format!("the question \"{}\"", one_line(first, MAX_QUOTED))
        }
    }
}

/// The setting that allows a permission without asking; `None` if there is no such rule.
pub(super) fn rule(request: &PermissionRequest) -> Option<String> {
    let permission = &request.permission;
    let rules = match request.always.as_slice() {
        [] => return None,
        [all] if all == "*" => json!("allow"),
        patterns => patterns.iter().map(|pattern| (pattern.clone(), json!("allow"))).collect(),
    };
    Some(format!("\"permission\": {}", spaced(&json!({ permission.as_str(): rules }))))
}

/// The patterns that `always` saves, for a prompt.
pub(super) fn always(request: &PermissionRequest) -> Option<String> {
    let permission = &request.permission;
    match request.always.as_slice() {
        [] => None,
        [all] if all == "*" => Some(format!("every {permission} in this directory")),
        tools if permission == "doom_loop" => Some(format!("repeated calls of {}", tools.join(", "))),
        patterns => {
            let patterns: Vec<String> =
                patterns.iter().map(|pattern| format!("`{}`", one_line(pattern, MAX_QUOTED))).collect();
            Some(format!("{} in this directory", patterns.join(", ")))
        }
    }
}

/// The line below a question that says which answers are possible.
pub(super) fn how_to_answer(question: &Question) -> String {
    let how = if question.multiple == Some(true) { "numbers separated by commas" } else { "a number" };
    let own = if question.custom == Some(false) { "" } else { " or your own answer" };
    format!("Enter {how}{own} (empty to skip): ")
}

/// JSON on one line with spaces, as users write it.
fn spaced(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{}: {}", json!(name), spaced(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        value => value.to_string(),
    }
}

/// A text on one line, cut to a number of characters.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line: String = line.chars().map(terminal::harmless).collect();
    if line.chars().count() > max {
        line = line.chars().take(max.saturating_sub(1)).chain(['…']).collect();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(
        permission: &str,
        patterns: &[&str],
        always: &[&str],
        metadata: &Value,
    ) -> PermissionRequest {
        let request = json!({
            "id": "per_1", "sessionID": "ses_1", "permission": permission, "patterns": patterns,
            "always": always, "metadata": metadata,
        });
        serde_json::from_value(request).unwrap()
    }

    #[test]
    fn a_command_is_shown_as_it_will_run() {
        let line = "touch x && echo approved\nrm \u{1b}[2Jy";
        let request = permission(
            "bash",
            &["touch x", "echo approved"],
            &["touch *", "echo *"],
            &json!({ "command": line }),
        );
        assert_eq!(subject(&request), ["touch x && echo approved", "rm \u{fffd}[2Jy"]);
        assert_eq!(headline(&request, None), "The agent wants to run a command:");
        assert_eq!(
            headline(&request, Some("Find the bug")),
            "The subagent \"Find the bug\" wants to run a command:"
        );
        assert_eq!(always(&request).unwrap(), "`touch *`, `echo *` in this directory");
        assert_eq!(
            rule(&request).unwrap(),
            r#""permission": { "bash": { "touch *": "allow", "echo *": "allow" } }"#
        );
    }

    #[test]
    fn a_permission_without_a_command_shows_its_patterns() {
        let request = permission("edit", &["src/a.rs"], &["*"], &json!({}));
        assert_eq!(subject(&request), ["src/a.rs"]);
        assert_eq!(always(&request).unwrap(), "every edit in this directory");
        assert_eq!(rule(&request).unwrap(), r#""permission": { "edit": "allow" }"#);
        assert_eq!(brief(&Request::Permission(request)), "permission for edit of `src/a.rs`");
        let guarded = permission("edit", &[".git/config"], &[], &json!({}));
        assert_eq!((always(&guarded), rule(&guarded)), (None, None));
    }

    #[test]
    fn hidden_lines_are_counted() {
        let request = permission("bash", &[], &[], &json!({ "command": "x\n".repeat(100) }));
        assert_eq!(subject(&request).last().unwrap(), "… 40 more lines");
    }
}
