//! From the text a model wrote to a file it may touch.

use std::path::{Path, PathBuf};

use protocol::Extra;
use serde_json::json;
use tokio::task;

use super::{Call, Failure, object};
use crate::native::permission::{Pattern, Wish};

/// Where a path leads; a person is asked if that is outside of the project.
pub(super) async fn locate(call: &Call<'_>, path: &str) -> Result<PathBuf, Failure> {
    find(call, path, false).await
}

/// The same for somebody who only looks, and may do so in a few places more.
pub(super) async fn locate_to_read(call: &Call<'_>, path: &str) -> Result<PathBuf, Failure> {
    find(call, path, true).await
}

async fn find(call: &Call<'_>, path: &str, looks: bool) -> Result<PathBuf, Failure> {
    let root = call.root.clone();
    let text = path.to_owned();
    let place = blocking(move || root.locate(&text)).await??;
    let known = || looks && call.options.readable().any(|directory| place.path.starts_with(directory));
    if !place.inside && !known() {
        let parent = if place.path.is_dir() {
            place.path.as_path()
        } else {
            place.path.parent().unwrap_or(&place.path)
        };
        let wish = away(&[parent.to_owned()]);
        call.permissions.get(call.turn, wish, Some(call.id)).await?;
    }
    Ok(place.path)
}

/// The wish to use directories outside of the project.
pub(in crate::native) fn away(directories: &[PathBuf]) -> Wish {
    let patterns: Vec<String> =
        directories.iter().map(|path| path.join("*").to_string_lossy().into_owned()).collect();
    let names: Vec<String> = directories.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    Wish {
        permission: "external_directory".into(),
        patterns: patterns.iter().cloned().map(Pattern::plain).collect(),
        always: patterns,
        metadata: object(json!({ "filepath": names.join(", "), "parentDir": names.join(", ") })),
    }
}

/// Asks to do something with a file of the project.
pub(super) async fn permit(
    call: &Call<'_>,
    permission: &'static str,
    path: &Path,
    metadata: Extra,
) -> Result<(), Failure> {
    let wish = Wish {
        permission: permission.into(),
        patterns: vec![Pattern::plain(call.root.relative(path))],
        always: vec!["*".to_owned()],
        metadata,
    };
    call.permissions.get(call.turn, wish, Some(call.id)).await
}

/// Runs something that blocks. A panic in there is an error of the tool.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    task::spawn_blocking(work).await.map_err(|error| Failure::Error(format!("the tool broke: {error}")))
}
