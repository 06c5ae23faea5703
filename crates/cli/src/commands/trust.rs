//! `baton trust`: whether the plugins of a project may run.

use std::path::Path;

use store::files::{Places, trust};

use crate::{
    args::Trust,
    exit::{Exit, Failure},
    terminal,
};

/// Trusts a directory, or no longer. A server that runs notices it with the next prompt.
pub(crate) fn trust(options: &Trust) -> Result<Exit, Failure> {
    let directory = options.directory.as_deref().unwrap_or(Path::new("."));
    let shown = directory.display();
    let unusable = |error| Failure::usage(format!("{shown} cannot be used: {error}"));
    let directory = match directory.canonicalize() {
        Ok(directory) if !directory.is_dir() => {
            return Err(Failure::usage(format!("{shown} is no directory")));
        }
        // What is gone can still be trusted no longer.
        Err(_) if options.revoke => std::path::absolute(directory).map_err(unusable)?,
        directory => directory.map_err(unusable)?,
    };
    let places = Places::find(options.data_dir.as_deref());
    let data = places.map_err(|error| Failure::usage(error.to_string()))?.data;
    let unreadable =
        |error| Failure::error(format!("{} cannot be used: {error}", trust::Trust::file(&data).display()));
    let mut trusted = trust::Trust::read(&data).map_err(unreadable)?;
    let changed = if options.revoke { trusted.revoke(&directory) } else { trusted.grant(&directory) };
    if changed {
        trusted.write(&data).map_err(unreadable)?;
    }
    let shown = directory.display();
    let said = match (options.revoke, changed) {
        (false, true) => format!("plugins of {shown} may run from now on"),
        (false, false) => format!("plugins of {shown} may run already"),
        (true, _) if trusted.covers(&directory) => {
            format!("plugins of {shown} may still run, because a directory above it is trusted")
        }
        (true, true) => format!("plugins of {shown} may not run any more"),
        (true, false) => format!("plugins of {shown} were not allowed to run"),
    };
    terminal::line(&said).map_err(|error| Failure::error(error.to_string()))?;
    Ok(Exit::Completed)
}
