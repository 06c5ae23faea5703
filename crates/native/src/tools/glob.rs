//! `glob`: finds files by name.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};
use workspace::search::{self, Found, MAX_RESULTS};

use super::{BuiltIn, Call, Output, ToolFailure, object, paths};

#[derive(Deserialize)]
pub(super) struct Input {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
}

pub(super) struct Glob;

impl BuiltIn for Glob {
    const NAME: &'static str = "glob";
    const IS_CONCURRENT: bool = true;

    type Input = Input;

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

    async fn run(&self, call: &Call<'_>, Input { pattern, path }: Input) -> Result<Output, ToolFailure> {
        let metadata = object(json!({ "pattern": pattern, "path": path }));
        call.require(Self::NAME, pattern.clone(), metadata).await?;
        let directory = paths::locate_to_read(call, path.as_deref().unwrap_or(".")).await?;
        let scope = call.scope(directory.clone());
        let found = paths::blocking(move || search::glob(&pattern, &scope)).await??;
        Ok(show(call.root.relative(&directory), &found))
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
