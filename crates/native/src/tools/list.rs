//! `list`: lists the entries of a directory.

use std::path::{Path, PathBuf};

use protocol::Extra;
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::files::{self, Listing};

use super::{BuiltIn, Call, Output, ToolFailure, object, paths};

#[derive(Deserialize)]
pub(super) struct Input {
    path: Option<String>,
}

pub(super) struct List;

impl BuiltIn for List {
    const NAME: &'static str = "list";
    const IS_CONCURRENT: bool = true;

    type Input = Input;

    fn description(&self) -> String {
        "Lists the files and directories in a directory; names of directories end with a slash.".to_owned()
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The directory; the working directory if left out" },
            },
            "additionalProperties": false,
        })
    }

    async fn run(&self, call: &Call<'_>, input: Input) -> Result<Output, ToolFailure> {
        let path = paths::locate_to_read(call, input.path.as_deref().unwrap_or(".")).await?;
        paths::permit(call, "list", &path, Extra::new()).await?;
        show(call, path).await
    }
}

/// Lists a directory; `read` shows directories in the same way.
pub(super) async fn show(call: &Call<'_>, path: PathBuf) -> Result<Output, ToolFailure> {
    let directory = path.clone();
    let listing = paths::blocking(move || files::list(&directory)).await??;
    let metadata = object(json!({
        "count": listing.names.len(),
        "truncated": listing.omitted > 0,
        "preview": listing.names.join("\n"),
        "loaded": [],
    }));
    Ok(Output::new(call.root.relative(&path), entries(&path, &listing), metadata))
}

/// Formats the entries of a directory for the model.
pub(crate) fn entries(path: &Path, listing: &Listing) -> String {
    let count = listing.names.len();
    let remark = match listing.omitted {
        0 => format!("({count} entries)"),
        omitted => format!("(Showing {count} of {} entries)", count + omitted),
    };
    let names = listing.names.join("\n");
    format!(
        "<path>{}</path>\n<type>directory</type>\n<entries>\n{names}\n\n{remark}\n</entries>",
        path.to_string_lossy()
    )
}
