//! `glob`: finds files by name.

use std::fmt::Write as _;

use futures::future::{BoxFuture, FutureExt};
use protocol::Extra;
use serde::Deserialize;
use serde_json::{Value, json};
use supervision::permission::{Pattern, PermissionCheck};
use workspace::search::{self, Found, MAX_RESULTS, SearchScope};

use super::input::parse;
use super::{Call, Output, Tool, ToolFailure, object, paths};

#[derive(Deserialize)]
struct Input {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
}

pub(super) struct Glob;

impl Tool for Glob {
    fn name(&self) -> &'static str {
        "glob"
    }

    fn description(&self) -> String {
        format!(
            "Finds files by name, the ones changed last first, at most {MAX_RESULTS}. Patterns are like \"**/*.rs\" or \
             \"src/**/*.{{ts,tsx}}\"; one without a slash matches at every depth. Files that git ignores are left out \
             unless path points to them."
        )
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "description": "The pattern, relative to path" },
                "path": { "type": "string", "description": "The directory to search; the working directory if left out" },
            },
            "required": ["pattern"],
            "additionalProperties": false,
        })
    }

    fn is_concurrent(&self) -> bool {
        true
    }

    fn check(&self, input: &Extra) -> Result<(), String> {
        parse::<Input>(input).map(drop)
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, ToolFailure>> {
        async move {
            let Input { pattern, path } = parse(call.input).map_err(ToolFailure::Error)?;
            let check = PermissionCheck {
                permission: "glob".into(),
                patterns: vec![Pattern::plain(pattern.clone())],
                always: vec!["*".to_owned()],
                metadata: object(json!({ "pattern": pattern, "path": path })),
            };
            call.permissions.require(call.turn, check, Some(call.id)).await?;
            let directory = paths::locate_to_read(call, path.as_deref().unwrap_or(".")).await?;
            let mut scope = SearchScope::new(directory.clone());
            scope.cancel = call.turn.cancellation().clone();
            scope.closed = call.root.closed().clone();
            let found = paths::blocking(move || search::glob(&pattern, &scope)).await??;
            Ok(show(call.root.relative(&directory), &found))
        }
        .boxed()
    }
}

fn show(title: String, found: &Found) -> Output {
    let shown = found.paths.len();
    let cut = found.total > shown || found.unfinished;
    let paths: Vec<String> = found.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let mut text = if paths.is_empty() { "No files found".to_owned() } else { paths.join("\n") };
    if found.total > shown {
        let _ = write!(
            text,
            "\n\n(Showing the {shown} files changed last of {}. Use a narrower path or pattern for the others.)",
            found.total
        );
    }
    if found.unfinished {
        text.push_str("\n\n(The search timed out before it was complete. Use a narrower path.)");
    }
    Output::new(title, text, object(json!({ "count": shown, "truncated": cut })))
}
