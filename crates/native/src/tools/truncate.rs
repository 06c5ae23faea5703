//! Cuts output that is too long for a model, and stores the whole in a file.

use std::path::PathBuf;

use serde_json::Value;
use workspace::output::{self, Cut, End, Omitted};

use super::{Call, Output, paths};

/// Cuts the output of a tool that has no limit of its own, and stores the whole in a file.
pub(super) async fn fit(call: &Call<'_>, mut output: Output) -> Output {
    if output.metadata.contains_key("truncated") {
        return output;
    }
    let Some(cut) = output::cut(&output.text, call.options.output, End::Head) else {
        output.metadata.insert("truncated".to_owned(), Value::Bool(false));
        return output;
    };
    let path = store(call, output.text.clone()).await;
    let text = format!("{}\n\n{}\n\n{}", cut.shown, marker(&cut), hint(call, path.as_ref()));
    output.text = text;
    output.metadata.insert("truncated".to_owned(), Value::Bool(true));
    if let Some(path) = path {
        output.metadata.insert("outputPath".to_owned(), path.to_string_lossy().into());
    }
    output
}

/// Returns the name of the file with the whole output of a call.
pub(super) fn name(call: &Call<'_>) -> String {
    format!("{}_{}", call.turn.session.id, call.id)
}

/// Stores a whole output in a file. Returns `None` if that fails, because a full disk is no reason to fail the
/// call.
pub(super) async fn store(call: &Call<'_>, text: String) -> Option<PathBuf> {
    let (output_directory, name) = (call.options.output_directory.clone()?, name(call));
    let kept = paths::blocking(move || output_directory.keep(&name, &text)).await.ok()?;
    kept.inspect_err(
        |error| tracing::warn!(%error, "cannot store a long output; the model sees only a part of it"),
    )
    .ok()
}

/// Returns the text in place of the omitted part.
pub(super) fn marker(cut: &Cut<'_>) -> String {
    match cut.omitted {
        Omitted::Lines(count) => format!("...{count} lines truncated..."),
        Omitted::Bytes(count) => format!("...{count} bytes truncated..."),
    }
}

/// Returns a hint for the model on how to get the omitted part.
pub(super) fn hint(call: &Call<'_>, path: Option<&PathBuf>) -> String {
    let Some(path) = path else {
        return "The rest was not stored: call the tool again in a way that produces less output.".to_owned();
    };
    let path = path.display();
    let delegate = if call.may_delegate {
        " If all of it matters, let a subagent read it (task) and report."
    } else {
        ""
    };
    format!(
        "The whole output is in {path}. Search it with grep, or read parts of it with offset and limit; do not read it \
         whole.{delegate}"
    )
}
