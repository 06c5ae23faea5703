//! Resolves paths that a model wrote, and checks permissions for them.

use std::path::{Path, PathBuf};

use protocol::Extra;
pub(super) use supervision::blocking;
use supervision::gate::{Access, Target};

use super::{Call, ToolFailure};

/// Resolves a path. A path outside of the project needs a permission.
pub(super) async fn locate(call: &Call<'_>, path: &str) -> Result<PathBuf, ToolFailure> {
    call.gate().locate(path, Access::Write).await
}

/// Resolves a path for reading, for which some directories outside of the project need no permission.
pub(super) async fn locate_to_read(call: &Call<'_>, path: &str) -> Result<PathBuf, ToolFailure> {
    call.gate().locate(path, Access::Read).await
}

/// Gets a permission to access a file.
pub(super) async fn permit(
    call: &Call<'_>,
    permission: &'static str,
    path: &Path,
    metadata: Extra,
) -> Result<(), ToolFailure> {
    call.gate().permit(permission, &[path.to_owned()], metadata).await
}

/// Gets a permission to change a file.
pub(super) async fn permit_edit(
    call: &Call<'_>,
    written: &str,
    path: &Path,
    metadata: Extra,
) -> Result<(), ToolFailure> {
    let target = Target { written: written.to_owned(), path: path.to_owned() };
    call.gate().permit_edit(vec![target], metadata).await
}
