//! `write`: writes a whole file.

use std::path::Path;

use protocol::{AgentEvent, Extra};
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::diff::{self, FileDiff};
use workspace::files;

use super::{BuiltIn, Call, Output, ToolFailure, object, paths};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Input {
    file_path: String,
    content: String,
}

pub(super) struct Write;

impl BuiltIn for Write {
    const NAME: &'static str = "write";
    const PERMISSION: &'static str = "edit";

    type Input = Input;

    fn description(&self) -> String {
        "Writes a file, replacing what was there. Prefer edit for changing a file that exists.".to_owned()
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "filePath": { "type": "string", "description": "The file, absolute or relative to the working directory" },
                "content": { "type": "string", "description": "Everything the file is to contain" },
            },
            "required": ["filePath", "content"],
            "additionalProperties": false,
        })
    }

    async fn run(&self, call: &Call<'_>, Input { file_path, content }: Input) -> Result<Output, ToolFailure> {
        let path = paths::locate(call, &file_path).await?;
        let file = path.clone();
        let before = paths::blocking(move || files::current(&file)).await??;
        let planned = diff::unified(&path.to_string_lossy(), before.as_deref().unwrap_or_default(), &content);
        paths::permit_edit(call, &file_path, &path, shown(&path, &planned)).await?;
        call.before_write([path.as_path()]).await?;
        let file = path.clone();
        paths::blocking(move || files::write(&file, &content)).await??;
        changed(call, &path).await;
        let metadata = object(json!({
            "diagnostics": {}, "filepath": path.to_string_lossy(), "exists": before.is_some(), "filediff": planned,
            "truncated": false,
        }));
        Ok(Output::new(call.root.relative(&path), "Wrote file successfully.", metadata))
    }
}

/// Returns the details of a change for the permission request.
pub(super) fn shown(path: &Path, diff: &FileDiff) -> Extra {
    object(json!({ "filepath": path.to_string_lossy(), "diff": diff.patch }))
}

/// Claims a changed file for the session and reports it to clients.
pub(super) async fn changed(call: &Call<'_>, path: &Path) {
    call.changes.after_write(path);
    call.turn.emit(AgentEvent::FileEdited { file: path.to_string_lossy().into_owned() }).await;
}
