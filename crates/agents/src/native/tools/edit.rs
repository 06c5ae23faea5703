//! `edit`: one exact piece of a file.

use futures::future::{BoxFuture, FutureExt};
use protocol::Extra;
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::diff;
use workspace::files::{self, Replacement};

use super::input::parse;
use super::write::{changed, shown};
use super::{Call, Failure, Output, Tool, object, paths};

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: Option<bool>,
}

pub(super) struct Edit;

impl Tool for Edit {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn description(&self) -> String {
        "Replaces an exact piece of a file. oldString has to occur exactly once, spaces and line breaks included, \
         unless replaceAll is set. An empty oldString creates a new file."
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

    fn check(&self, input: &Extra) -> Result<(), String> {
        parse::<Input>(input).map(drop)
    }

    fn run<'a>(&'a self, call: &'a Call<'a>) -> BoxFuture<'a, Result<Output, Failure>> {
        async move {
            let input: Input = parse(call.input).map_err(Failure::Error)?;
            let path = paths::locate(call, &input.file_path).await?;
            // Planned first, so that a person who is asked sees the very change.
            let planned = plan(&input, &path).await?;
            let name = path.to_string_lossy().into_owned();
            let change = diff::unified(&name, planned.before.as_deref().unwrap_or_default(), &planned.after);
            paths::permit(call, "edit", &path, shown(&path, &change)).await?;
            // Applied to the file as it is now: it may have changed while the person thought.
            let file = path.clone();
            paths::blocking(move || files::edit(&file, input.replacement())).await??;
            changed(call, &path).await;
            let metadata = object(json!({
                "diagnostics": {}, "diff": change.patch, "filediff": change, "truncated": false,
            }));
            Ok(Output {
                title: call.root.relative(&path),
                text: "Edit applied successfully.".to_owned(),
                metadata,
            })
        }
        .boxed()
    }
}

impl Input {
    fn replacement(&self) -> Replacement<'_> {
        Replacement { old: &self.old_string, new: &self.new_string, all: self.replace_all.unwrap_or(false) }
    }
}

async fn plan(input: &Input, path: &std::path::Path) -> Result<files::Change, Failure> {
    let (input, path) = (input.clone(), path.to_owned());
    Ok(paths::blocking(move || files::plan(&path, input.replacement())).await??)
}
