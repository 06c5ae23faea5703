//! `edit`: replaces a piece of a file.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use workspace::diff::{self, FileDiff};
use workspace::files::{self, Change, Replacement};

use super::write::{changed, shown};
use super::{BuiltIn, Call, Output, ToolFailure, object, paths};

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Input {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: Option<bool>,
}

pub(super) struct Edit;

impl BuiltIn for Edit {
    const NAME: &'static str = "edit";

    type Input = Input;

    fn description(&self) -> String {
        "Replaces a piece of a file. Quote oldString exactly as the file has it, without line numbers; it must occur \
         once only, so include enough around it, or set replaceAll. An empty oldString creates a new file."
            .to_owned()
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "filePath": { "type": "string", "description": "The file, absolute or relative to the working directory" },
                "oldString": { "type": "string", "description": "The text to replace" },
                "newString": { "type": "string", "description": "The text to put in its place" },
                "replaceAll": { "type": "boolean", "description": "Replace every occurrence" },
            },
            "required": ["filePath", "oldString", "newString"],
            "additionalProperties": false,
        })
    }

    async fn run(&self, call: &Call<'_>, input: Input) -> Result<Output, ToolFailure> {
        let path = paths::locate(call, &input.file_path).await?;
        // Planned first, so that the user sees the exact change in the permission request.
        let planned = plan(&input, &path).await?;
        let mut change = compare(&path, &planned);
        paths::permit_edit(call, &input.file_path, &path, shown(&path, &change)).await?;
        // Applied to the current file: it may have changed while the request was open.
        call.before_write([path.as_path()]).await?;
        let file = path.clone();
        let done = paths::blocking(move || files::edit(&file, input.replacement())).await??;
        if done != planned {
            change = compare(&path, &done);
        }
        changed(call, &path).await;
        let metadata = object(json!({
            "diagnostics": {}, "diff": change.patch, "filediff": change, "truncated": false,
        }));
        Ok(Output::new(call.root.relative(&path), "Edit applied successfully.", metadata))
    }
}

impl Input {
    fn replacement(&self) -> Replacement<'_> {
        Replacement { old: &self.old_string, new: &self.new_string, all: self.replace_all.unwrap_or(false) }
    }
}

fn compare(path: &Path, change: &Change) -> FileDiff {
    diff::unified(&path.to_string_lossy(), change.before.as_deref().unwrap_or_default(), &change.after)
}

async fn plan(input: &Input, path: &Path) -> Result<Change, ToolFailure> {
    let (input, path) = (input.clone(), path.to_owned());
    Ok(paths::blocking(move || files::plan(&path, input.replacement())).await??)
}
