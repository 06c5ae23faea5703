//! From the text a model wrote to a file it may touch.

use std::path::{Path, PathBuf};

use protocol::Extra;
use tokio::task;

use super::{Call, Failure};
use crate::native::gate::Target;

/// Where a path leads; a person is asked if that is outside of the project.
pub(super) async fn locate(call: &Call<'_>, path: &str) -> Result<PathBuf, Failure> {
    call.gate().locate(path, false).await
}

/// The same for somebody who only looks, and may do so in a few places more.
pub(super) async fn locate_to_read(call: &Call<'_>, path: &str) -> Result<PathBuf, Failure> {
    call.gate().locate(path, true).await
}

/// Asks to do something with a file of the project.
pub(super) async fn permit(
    call: &Call<'_>,
    permission: &'static str,
    path: &Path,
    metadata: Extra,
) -> Result<(), Failure> {
    call.gate().permit(permission, &[path.to_owned()], metadata).await
}

/// Asks to change a file.
pub(super) async fn permit_edit(
    call: &Call<'_>,
    written: &str,
    path: &Path,
    metadata: Extra,
) -> Result<(), Failure> {
    let target = Target { written: written.to_owned(), path: path.to_owned() };
    call.gate().permit_edit(vec![target], metadata).await
}

/// Runs something that blocks. A panic in there is an error of the tool.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    task::spawn_blocking(work).await.map_err(|error| Failure::Error(format!("the tool broke: {error}")))
}
