//! `apply_patch`: changes several files at once, for models that are trained on this format.

use serde::Deserialize;
use serde_json::{Value, json};
use supervision::gate::Target;
use workspace::diff::{self, FileDiff};
use workspace::files::Root;
use workspace::patch::{self, Operation, PatchedFile};

use super::write::changed;
use super::{BuiltIn, Call, Output, ToolFailure, object, paths};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Input {
    patch_text: String,
}

pub(super) struct ApplyPatch;

impl BuiltIn for ApplyPatch {
    const NAME: &'static str = "apply_patch";
    const PERMISSION: &'static str = "edit";

    type Input = Input;

    fn description(&self) -> String {
        "Adds, changes, moves and deletes files with one patch, which is applied whole or not at all:\n\n\
         *** Begin Patch\n\
         *** Add File: new.txt\n\
         +every line of the file\n\
         *** Update File: src/app.py\n\
         *** Move to: src/main.py\n\
         @@ def greet():\n \
         an unchanged line, for context\n\
         -a removed line\n\
         +an added line\n\
         *** Delete File: old.txt\n\
         *** End Patch\n\n\
         Move to is optional. Give about three lines of context around each change; if they occur more than once, \
         name a line above them after @@. Use a new @@ for each place."
            .to_owned()
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "patchText": { "type": "string", "description": "The patch, from *** Begin Patch to *** End Patch" },
            },
            "required": ["patchText"],
            "additionalProperties": false,
        })
    }

    async fn run(&self, call: &Call<'_>, Input { patch_text }: Input) -> Result<Output, ToolFailure> {
        let named = patch::parse(&patch_text).map_err(|error| ToolFailure::Error(error.to_string()))?;
        let (mut operations, mut targets) = (Vec::new(), Vec::new());
        for operation in named {
            let written: Vec<String> = operation.paths().cloned().collect();
            let located = locate(call, operation).await?;
            let paths = located.paths().cloned();
            targets.extend(written.into_iter().zip(paths).map(|(written, path)| Target { written, path }));
            operations.push(located);
        }
        // Computed first, so that the user sees the exact change in the permission request.
        let wanted = operations.clone();
        let planned = paths::blocking(move || patch::prepare(&wanted)).await??;
        let planned: Vec<Shown> = planned.into_iter().map(|outcome| Shown::new(call.root, outcome)).collect();
        permit(call, targets, &planned).await?;
        call.before_write(operations.iter().flat_map(Operation::paths).map(AsRef::as_ref)).await?;
        // Applied to the current files: they may have changed while the request was open.
        let done = paths::blocking(move || patch::apply(&operations)).await??;
        let done: Vec<Shown> = done.into_iter().map(|outcome| Shown::new(call.root, outcome)).collect();
        for path in done.iter().flat_map(Shown::touched) {
            changed(call, path).await;
        }
        Ok(show(&done))
    }
}

/// Resolves the paths of an operation. Paths outside of the project need a permission.
async fn locate(call: &Call<'_>, operation: Operation<String>) -> Result<Operation, ToolFailure> {
    let mut found = Vec::new();
    for path in operation.paths() {
        found.push(paths::locate(call, path).await?);
    }
    let mut found = found.into_iter();
    Ok(operation.map(|_| found.next().unwrap_or_default()))
}

async fn permit(call: &Call<'_>, targets: Vec<Target>, planned: &[Shown]) -> Result<(), ToolFailure> {
    let names: Vec<String> = planned.iter().map(|file| file.name.clone()).collect();
    let metadata = object(json!({
        "filepath": names.join(", "),
        "diff": total(planned),
        "files": planned.iter().map(Shown::metadata).collect::<Vec<_>>(),
    }));
    call.gate().permit_edit(targets, metadata).await
}

/// The change of a file, for display.
struct Shown {
    outcome: PatchedFile,
    diff: FileDiff,
    /// The path relative to the project; for a moved file, the new one.
    name: String,
}

impl Shown {
    fn new(root: &Root, outcome: PatchedFile) -> Self {
        let place = outcome.target.as_ref().unwrap_or(&outcome.path);
        let name = root.relative(place);
        let (before, after) = (outcome.before.as_deref(), outcome.after.as_deref());
        let diff =
            diff::unified(&place.to_string_lossy(), before.unwrap_or_default(), after.unwrap_or_default());
        Self { outcome, diff, name }
    }

    /// Returns the files that are different afterwards.
    fn touched(&self) -> impl Iterator<Item = &std::path::Path> + Clone {
        std::iter::once(&self.outcome.path).chain(&self.outcome.target).map(std::path::PathBuf::as_path)
    }

    fn kind(&self) -> &'static str {
        match &self.outcome {
            PatchedFile { target: Some(_), .. } => "move",
            PatchedFile { before: None, .. } => "add",
            PatchedFile { after: None, .. } => "delete",
            PatchedFile { .. } => "update",
        }
    }

    fn metadata(&self) -> Value {
        let mut shown = json!({
            "filePath": self.outcome.path.to_string_lossy(),
            "relativePath": self.name,
            "type": self.kind(),
            "patch": self.diff.patch,
            "additions": self.diff.additions,
            "deletions": self.diff.deletions,
        });
        if let (Some(target), Some(shown)) = (&self.outcome.target, shown.as_object_mut()) {
            shown.insert("movePath".to_owned(), target.to_string_lossy().into());
        }
        shown
    }
}

fn total(files: &[Shown]) -> String {
    files.iter().map(|file| file.diff.patch.as_str()).collect::<Vec<_>>().join("\n")
}

fn show(done: &[Shown]) -> Output {
    let letter = |file: &Shown| match file.kind() {
        "add" => 'A',
        "delete" => 'D',
        "move" => 'R',
        _ => 'M',
    };
    let lines: Vec<String> = done.iter().map(|file| format!("{} {}", letter(file), file.name)).collect();
    let names: Vec<&str> = done.iter().map(|file| file.name.as_str()).collect();
    let metadata = object(json!({
        "diagnostics": {},
        "diff": total(done),
        "files": done.iter().map(Shown::metadata).collect::<Vec<_>>(),
        "truncated": false,
    }));
    Output::new(names.join(", "), format!("Patch applied:\n{}", lines.join("\n")), metadata)
}
