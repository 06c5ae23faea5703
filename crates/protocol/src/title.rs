//! Titles of running tool calls, made from their inputs.
//!
//! Users want to read what the agent is doing now, with every agent in the same words. The names of tools and inputs are
//! those of Baton, OpenCode and Claude Code.

use serde_json::Value;

use crate::Extra;

/// Maximum length of a quoted input, in characters.
const QUOTED: usize = 100;

/// A title such as "Reading README.md". None if the input does not tell more than the tool's name.
pub fn of_call(tool: &str, input: &Extra) -> Option<String> {
    let text = |names: &[&str]| names.iter().find_map(|name| filled(input.get(*name)?));
    let file = || text(&["filePath", "file_path", "path", "notebook_path"]).map(file_name);
    match tool.to_ascii_lowercase().as_str() {
        "read" => file().map(|name| format!("Reading {name}")),
        "write" => file().map(|name| format!("Writing {name}")),
        "edit" | "multiedit" | "notebookedit" => file().map(|name| format!("Editing {name}")),
        "apply_patch" | "patch" => Some("Applying a patch".to_owned()),
        "list" | "ls" => Some(file().map_or("Listing files".to_owned(), |name| format!("Listing {name}"))),
        "bash" | "shell" => command(input).map(|line| format!("Running {}", excerpt(&line))),
        "glob" => text(&["pattern"]).map(|pattern| format!("Looking for files {}", excerpt(pattern))),
        "grep" | "codesearch" => {
            text(&["pattern", "query"]).map(|pattern| format!("Searching for {}", excerpt(pattern)))
        }
        "webfetch" => text(&["url"]).map(|url| format!("Fetching {}", excerpt(url))),
        "websearch" => text(&["query"]).map(|query| format!("Searching the web for {}", excerpt(query))),
        "task" | "agent" => text(&["description"]).map(|task| format!("Subagent: {}", excerpt(task))),
        "skill" => text(&["name", "skill"]).map(|name| format!("Using the skill {}", excerpt(name))),
        "todowrite" => Some("Updating the todo list".to_owned()),
        "todoread" => Some("Reading the todo list".to_owned()),
        _ => None,
    }
}

fn filled(value: &Value) -> Option<&str> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// A command line, which some agents pass as a list of words.
fn command(input: &Extra) -> Option<String> {
    match input.get("command")? {
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        line => filled(line).map(str::to_owned),
    }
    .filter(|line| !line.is_empty())
}

/// A relative path as it is. An absolute path is long and says where the project lies, so only its last name is shown.
fn file_name(path: &str) -> &str {
    if path.starts_with('/') { path.trim_end_matches('/').rsplit('/').next().unwrap_or(path) } else { path }
}

/// The beginning of a text, on one line.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= QUOTED {
        return line;
    }
    let head: String = line.chars().take(QUOTED - 1).collect();
    format!("{}…", head.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn title(tool: &str, input: &Value) -> String {
        let title = of_call(tool, &serde_json::from_value(input.clone()).unwrap());
        title.unwrap_or_else(|| "none".to_owned())
    }

    #[test]
    fn a_title_names_the_work() {
        assert_eq!(title("read", &json!({ "filePath": "/home/ada/project/README.md" })), "Reading README.md");
        assert_eq!(title("Edit", &json!({ "file_path": "src/main.rs" })), "Editing src/main.rs");
        assert_eq!(title("bash", &json!({ "command": "cargo test\n  -p a" })), "Running cargo test -p a");
        assert_eq!(title("shell", &json!({ "command": ["git", "status"] })), "Running git status");
        assert_eq!(title("task", &json!({ "description": "Find the bug" })), "Subagent: Find the bug");
        assert_eq!(title("grep", &json!({ "pattern": "fn main" })), "Searching for fn main");
        assert_eq!(title("list", &json!({})), "Listing files");
    }

    #[test]
    fn an_unknown_tool_or_an_empty_input_gives_no_title() {
        assert_eq!(title("acme_deploy", &json!({ "target": "x" })), "none");
        assert_eq!(title("read", &json!({})), "none");
        assert_eq!(title("bash", &json!({ "command": [] })), "none");
    }

    #[test]
    fn a_long_input_is_shortened() {
        assert!(title("bash", &json!({ "command": "x".repeat(5_000) })).chars().count() < 120);
    }
}
