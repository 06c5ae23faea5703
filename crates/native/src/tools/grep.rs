//! `grep`: finds lines by content.

use std::fmt::Write as _;
use std::sync::Arc;

use protocol::request::Action;
use serde::Deserialize;
use serde_json::{Value, json};
use supervision::permission::evaluate;
use workspace::search::{self, MAX_RESULTS, Matches};

use super::{BuiltIn, Call, Output, ToolFailure, object, paths};

#[derive(Deserialize)]
pub(super) struct Input {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    include: Option<String>,
}

pub(super) struct Grep;

impl BuiltIn for Grep {
    const NAME: &'static str = "grep";
    const IS_CONCURRENT: bool = true;

    type Input = Input;

    fn description(&self) -> String {
        format!(
            "Finds lines in files with a regular expression (Rust syntax, one line at a time, case matters unless it \
             begins with (?i)). Returns at most {MAX_RESULTS} lines with their numbers, from the files changed last \
             first. Files that git ignores and files that are not text are left out."
        )
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "description": "The regular expression" },
                "path": { "type": "string", "description": "The directory or file to search; the working directory if left out" },
                "include": { "type": "string", "description": "Only files whose path matches, such as \"*.rs\" or \"src/**/*.{ts,tsx}\"" },
            },
            "required": ["pattern"],
            "additionalProperties": false,
        })
    }

    fn check(&self, input: &Input) -> Result<(), String> {
        if input.pattern.is_empty() { Err("the pattern is empty".to_owned()) } else { Ok(()) }
    }

    async fn run(
        &self,
        call: &Call<'_>,
        Input { pattern, path, include }: Input,
    ) -> Result<Output, ToolFailure> {
        let metadata = object(json!({ "pattern": pattern, "path": path, "include": include }));
        call.require(Self::NAME, pattern.clone(), metadata).await?;
        let include = include.filter(|include| !include.trim().is_empty());
        let mut scope = call.scope(paths::locate_to_read(call, path.as_deref().unwrap_or(".")).await?);
        // A match shows the line, so files that may not be read are not searched either.
        let (rules, root) = (call.permissions.rules_for("read"), call.root.clone());
        scope.withheld =
            Arc::new(move |path| evaluate(rules.iter(), "read", &root.relative(path)) != Action::Allow);
        let expression = pattern.clone();
        let found = paths::blocking(move || search::grep(&expression, include.as_deref(), &scope)).await??;
        Ok(show(pattern, &found, call.options.output.bytes))
    }
}

fn show(title: String, found: &Matches, room: usize) -> Output {
    let mut text = String::new();
    let mut shown = 0;
    'files: for file in &found.files {
        let _ = write!(text, "\n{}:\n", file.path.display());
        for line in &file.lines {
            // Each line is short, but a hundred of them may be too long.
            if text.len() + line.text.len() > room {
                break 'files;
            }
            let _ = writeln!(text, "  Line {}: {}", line.number, line.text);
            shown += 1;
        }
    }
    let cut = found.total > shown || found.unfinished;
    let mut text = match found.total {
        0 => "No matches found\n".to_owned(),
        total if total > shown => format!("Found {total} matches, showing {shown}\n{text}"),
        total => format!("Found {total} matches\n{text}"),
    };
    if found.total > shown {
        text.push_str("\n(Use a narrower path, include or pattern for the others.)\n");
    }
    if found.unfinished {
        text.push_str("\n(The search timed out before it was complete. Use a narrower path.)\n");
    }
    if found.withheld > 0 {
        let _ =
            writeln!(text, "\n({} files need permission to be read and were not searched.)", found.withheld);
    }
    let metadata = object(json!({ "matches": found.total, "truncated": cut }));
    Output::new(title, text.trim_end(), metadata)
}

#[cfg(test)]
mod tests {
    use workspace::search::{Line, Matched};

    use super::*;

    fn matches(lines: usize, total: usize) -> Matches {
        let line = |number: usize| Line {
            number: number as u64,
            offset: 0,
            text: "x".repeat(50),
            spans: Vec::new(),
        };
        let file = Matched { path: "/project/a.rs".into(), lines: (1..=lines).map(line).collect() };
        let files = if lines == 0 { Vec::new() } else { vec![file] };
        Matches { files, total, ..Matches::default() }
    }

    #[test]
    fn matches_are_shown_by_file() {
        let output = show("x".to_owned(), &matches(2, 2), 1000);
        let line = "x".repeat(50);
        assert_eq!(
            output.text,
            format!("Found 2 matches\n\n/project/a.rs:\n  Line 1: {line}\n  Line 2: {line}")
        );
        assert_eq!(Value::Object(output.metadata), json!({ "matches": 2, "truncated": false }));
        assert_eq!(show(String::new(), &matches(0, 0), 1000).text, "No matches found");
    }

    #[test]
    fn omitted_matches_are_mentioned() {
        let output = show(String::new(), &matches(10, 500), 300);
        assert!(output.text.starts_with("Found 500 matches, showing 4\n"), "{}", output.text);
        assert!(output.text.ends_with("(Use a narrower path, include or pattern for the others.)"));
        assert_eq!(output.metadata["truncated"], true);
        let found = Matches { unfinished: true, withheld: 2, ..Matches::default() };
        let text = show(String::new(), &found, 300).text;
        assert!(text.contains("timed out") && text.contains("(2 files need permission"), "{text}");
    }
}
