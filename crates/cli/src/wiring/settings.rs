//! What people have configured for the directory the server was started in.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use protocol::config::Skill;
use store::files::{Environment, Loaded, Problem, Site, load, skills};
use workspace::git::Repository;

use crate::exit::Failure;

/// The environment, the place and the configuration that applies there.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) environment: Environment,
    pub(super) site: Site,
    pub(super) loaded: Loaded,
    pub(super) skills: BTreeMap<String, Skill>,
}

impl Settings {
    /// Reads them. All that is wrong with the configuration is told at once.
    pub(super) async fn read(directory: &Path) -> Result<Self, Failure> {
        let site = site(directory.to_owned()).await;
        let read = move || -> Result<Self, Failure> {
            let environment = Environment::capture();
            let loaded = load(&environment, &site)
                .map_err(|invalid| Failure::usage(format!("the configuration cannot be used\n{invalid}")))?;
            let found = skills::find(&environment, &site, &loaded);
            warn(&loaded.warnings);
            warn(&found.warnings);
            Ok(Self { environment, site, loaded, skills: found.skills })
        };
        let read = tokio::task::spawn_blocking(read).await;
        let settings = read.map_err(|error| Failure::error(error.to_string()))??;
        tracing::debug!(worktree = %settings.site.worktree.display(), "looked for configurations");
        for file in &settings.loaded.read {
            tracing::debug!(file = %file.display(), "read a configuration");
        }
        Ok(settings)
    }
}

/// A directory and the repository around it.
pub(super) async fn site(directory: PathBuf) -> Site {
    let worktree =
        Repository::find(&directory).await.map_or_else(|| PathBuf::from("/"), |found| found.worktree);
    Site { directory, worktree }
}

/// Notes what is odd, but no reason to stop.
pub(super) fn warn(problems: &[Problem]) {
    for problem in problems {
        tracing::warn!("{problem}");
    }
}
