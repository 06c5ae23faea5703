//! Warnings about a directory's configuration, on the terminal of `run` and `serve`.

use crate::{commands::host::Host, terminal};

/// The warnings that are known before a turn begins.
pub(crate) async fn of(host: &Host, directory: &str) -> Vec<String> {
    // A server that is too old to have them is no reason to stop.
    host.diagnostics(directory).await.unwrap_or_default()
}

/// Prints warnings, one line each.
pub(crate) fn print(warnings: &[String]) {
    warnings.iter().for_each(|warning| terminal::warn(warning));
}
