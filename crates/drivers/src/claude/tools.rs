//! Maps Claude Code's tools to the names, inputs, titles and permissions that clients know.

use std::fmt::Write as _;
use std::path::Path;

use protocol::Extra;
use protocol::agent_event::Ask;
use protocol::part::FilePart;
use serde_json::{Value, json};

use super::wire::Permit;

/// Most bytes of a tool's output that are kept.
const MAX_OUTPUT: usize = 200_000;

/// A call with the names that clients know.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) input: Extra,
    pub(super) title: String,
    /// The file that it changes.
    pub(super) edits: Option<String>,
}

impl Call {
    pub(super) fn new(name: &str, input: &Extra, directory: &Path) -> Self {
        let tool = tool(name);
        let input: Extra = input.iter().map(|(key, value)| (field(key), value.clone())).collect();
        let path = text(&input, "filePath").map(|path| relative(path, directory));
        let first =
            |keys: &[&str]| keys.iter().find_map(|key| text(&input, key)).unwrap_or_default().to_owned();
        let title =
            path.unwrap_or_else(|| first(&["description", "command", "pattern", "url", "query", "subject"]));
        let edits = matches!(tool.as_str(), "edit" | "write").then(|| first(&["filePath", "notebook_path"]));
        Self { tool, title, edits: edits.filter(|path| !path.is_empty()), input }
    }

    /// The permission request for this call.
    pub(super) fn ask(&self, permit: &Permit, directory: &Path) -> Ask {
        let (permission, pattern) = self.needs(directory);
        let always = if permission == "bash" { pattern.clone() } else { "*".to_owned() };
        Ask::Permission {
            permission,
            patterns: vec![pattern],
            metadata: self.input.clone(),
            always: vec![always],
            call: permit.tool_use_id.clone(),
        }
    }

    /// The permission and its pattern.
    fn needs(&self, directory: &Path) -> (String, String) {
        let named = |key: &str| text(&self.input, key).unwrap_or("*").to_owned();
        match self.tool.as_str() {
            "bash" => ("bash".to_owned(), named("command")),
            "edit" | "write" => {
                let path =
                    self.edits.as_deref().map_or_else(|| "*".to_owned(), |path| relative(path, directory));
                ("edit".to_owned(), path)
            }
            "read" => ("read".to_owned(), relative(&named("filePath"), directory)),
            "webfetch" => ("webfetch".to_owned(), named("url")),
            "task" => ("task".to_owned(), named("subagent_type")),
            other => (other.to_owned(), "*".to_owned()),
        }
    }

    /// The metadata of a successful call.
    pub(super) fn facts(&self, output: &str, result: &Value) -> Extra {
        let facts = match self.tool.as_str() {
            "bash" => json!({ "output": output, "description": self.title, "truncated": false }),
            "edit" | "write" => match patch(result) {
                Some((diff, additions, deletions)) => json!({
                    "diff": diff,
                    "filediff": { "file": self.edits, "additions": additions, "deletions": deletions, "patch": diff },
                    "diagnostics": {},
                    "truncated": false,
                }),
                None => json!({ "diagnostics": {}, "truncated": false }),
            },
            _ => json!({ "truncated": false }),
        };
        serde_json::from_value(facts).unwrap_or_default()
    }
}

/// The name under which clients know a tool. An unknown tool keeps its name.
fn tool(name: &str) -> String {
    match name {
        "Read" => "read",
        "Write" => "write",
        "Edit" | "MultiEdit" | "NotebookEdit" => "edit",
        "Bash" => "bash",
        "Grep" => "grep",
        "Glob" => "glob",
        "LS" => "list",
        "WebFetch" => "webfetch",
        "WebSearch" => "websearch",
        "Task" | "Agent" => "task",
        "TodoWrite" => "todowrite",
        "AskUserQuestion" => "question",
        "Skill" => "skill",
        other => other,
    }
    .to_owned()
}

fn field(name: &str) -> String {
    match name {
        "file_path" => "filePath",
        "old_string" => "oldString",
        "new_string" => "newString",
        "replace_all" => "replaceAll",
        other => other,
    }
    .to_owned()
}

fn text<'a>(input: &'a Extra, key: &str) -> Option<&'a str> {
    input.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// A path relative to the directory, if it is inside.
fn relative(path: &str, directory: &Path) -> String {
    Path::new(path).strip_prefix(directory).map_or(path, |path| path.to_str().unwrap_or_default()).to_owned()
}

/// A change to a file as a unified diff, with the numbers of added and removed lines.
fn patch(result: &Value) -> Option<(String, usize, usize)> {
    let hunks = result.get("structuredPatch")?.as_array()?;
    let (mut diff, mut added, mut removed) = (String::new(), 0, 0);
    for hunk in hunks {
        let number = |key: &str| hunk.get(key).and_then(Value::as_u64).unwrap_or_default();
        let (old, new) = ((number("oldStart"), number("oldLines")), (number("newStart"), number("newLines")));
        // Writing to a string cannot fail.
        let _ = writeln!(diff, "@@ -{},{} +{},{} @@", old.0, old.1, new.0, new.1);
        for line in hunk.get("lines").and_then(Value::as_array)?.iter().filter_map(Value::as_str) {
            added += usize::from(line.starts_with('+'));
            removed += usize::from(line.starts_with('-'));
            diff.push_str(line);
            diff.push('\n');
        }
    }
    Some((diff, added, removed))
}

/// The output of a tool: its text, and its images as files.
pub(super) fn output(content: &Value) -> (String, Vec<FilePart>) {
    let mut files = Vec::new();
    let words = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            files.extend(blocks.iter().filter_map(picture));
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    (shorten(words), files)
}

fn picture(block: &Value) -> Option<FilePart> {
    let source = block.get("source")?;
    let (mime, data) = (source.get("media_type")?.as_str()?, source.get("data")?.as_str()?);
    let url = format!("data:{mime};base64,{data}");
    Some(FilePart { mime: mime.to_owned(), filename: None, url, source: None, extra: Extra::new() })
}

fn shorten(mut words: String) -> String {
    if words.len() > MAX_OUTPUT {
        let left = words.len() - MAX_OUTPUT;
        words.truncate(words.floor_char_boundary(MAX_OUTPUT));
        let _ = write!(words, "\n({left} more bytes are not shown)");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, input: Value) -> Call {
        Call::new(name, &serde_json::from_value(input).unwrap(), Path::new("/project"))
    }

    #[test]
    fn calls_get_the_names_that_clients_know() {
        let edit =
            call("Edit", json!({ "file_path": "/project/a/b.rs", "old_string": "x", "replace_all": false }));
        assert_eq!((edit.tool.as_str(), edit.title.as_str()), ("edit", "a/b.rs"));
        assert_eq!(edit.edits.as_deref(), Some("/project/a/b.rs"));
        assert_eq!(edit.input.keys().collect::<Vec<_>>(), ["filePath", "oldString", "replaceAll"]);
        let bash = call("Bash", json!({ "command": "ls", "description": "List" }));
        assert_eq!((bash.tool.as_str(), bash.title.as_str(), bash.edits), ("bash", "List", None));
        let other = call("mcp__server__tool", json!({ "x": 1 }));
        assert_eq!((other.tool.as_str(), other.title.as_str()), ("mcp__server__tool", ""));
    }

    #[test]
    fn a_change_is_a_diff() {
        let result = json!({ "structuredPatch": [
            { "oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 2, "lines": [" a", "+b", "-c"] },
        ] });
        assert_eq!(patch(&result), Some(("@@ -1,1 +1,2 @@\n a\n+b\n-c\n".to_owned(), 1, 1)));
        assert_eq!(patch(&json!({})), None);
    }

    #[test]
    fn output_is_text_and_images_within_limits() {
        let content = json!([
            { "type": "text", "text": "one" },
            { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA==" } },
            { "type": "text", "text": "two" },
        ]);
        let (words, files) = output(&content);
        assert_eq!(words, "one\ntwo");
        assert_eq!(
            files.iter().map(|file| file.url.as_str()).collect::<Vec<_>>(),
            ["data:image/png;base64,AA=="]
        );
        let (words, _) = output(&json!("é".repeat(MAX_OUTPUT)));
        assert!(words.len() < MAX_OUTPUT + 100 && words.ends_with("(200000 more bytes are not shown)"));
        assert_eq!(output(&Value::Null).0, "");
    }
}
