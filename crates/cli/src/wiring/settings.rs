//! What people have configured for a directory.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{
    config::Skill,
    login::Login,
    trust::{Withheld, WithheldKind, WithheldReason},
};
use server::instance::Invalid;
use store::files::{
    self, Environment, Loaded, Problem, Site, Source, Trace, auth::AuthFile, load, skills, trust::Trust,
};
use tokio::task::{JoinError, spawn_blocking};
use workspace::git::Repository;

use super::{ground::Ground, trust::Standing};

/// The environment, the place and the configuration that applies there.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) environment: Environment,
    pub(super) site: Site,
    pub(super) loaded: Loaded,
    pub(super) skills: BTreeMap<String, Skill>,
    /// Keys and logins, by provider.
    pub(super) logins: BTreeMap<String, Login>,
    /// Whether the user trusts the directory.
    pub(super) standing: Standing,
    /// Where all of it was looked for.
    trace: Arc<Trace>,
}

impl Settings {
    /// Reads them. All that is wrong with the configuration is told at once.
    pub(super) async fn read(ground: &Ground, directory: PathBuf) -> Result<Self, Invalid> {
        let broken = |error: JoinError| Invalid { path: None, message: error.to_string() };
        let above = directory.clone();
        let trace = spawn_blocking(move || repositories(&above)).await.map_err(broken)?;
        let site = site(directory).await;
        let (environment, data) = (ground.environment.clone(), ground.places.data.clone());
        let read = spawn_blocking(move || Self::read_at(environment, site, &data, trace));
        let settings = read.await.map_err(broken)??;
        tracing::debug!(worktree = %settings.site.worktree.display(), "looked for configurations");
        for file in &settings.loaded.read {
            tracing::debug!(file = %file.display(), "read a configuration");
        }
        Ok(settings)
    }

    fn read_at(environment: Environment, site: Site, data: &Path, mut trace: Trace) -> Result<Self, Invalid> {
        let auth = AuthFile::new(&environment, data);
        auth.trace(&mut trace);
        trace.note(&Trust::file(data));
        let logins = logins(&auth);
        let standing = Standing::read(data, &site, logins.keys());
        let mut loaded = load(&environment, &site, &standing.guard).map_err(|invalid| unusable(&invalid))?;
        if !standing.guard.trusted {
            hold_back_commits(&mut loaded, &site);
        }
        let found = skills::find(&environment, &site, &loaded);
        warn(&loaded.warnings);
        warn(&found.warnings);
        trace.join(std::mem::take(&mut loaded.trace));
        trace.join(found.trace);
        let (skills, trace) = (found.skills, Arc::new(trace));
        Ok(Self { environment, site, loaded, skills, logins, standing, trace })
    }

    /// Whether they would be read differently now.
    pub(super) async fn is_stale(&self) -> bool {
        let trace = Arc::clone(&self.trace);
        // Whatever cannot be told is read again.
        spawn_blocking(move || trace.is_stale()).await.unwrap_or(true)
    }
}

pub(super) fn unusable(invalid: &files::Invalid) -> Invalid {
    let path = invalid.problems.iter().find_map(|problem| match &problem.source {
        Source::File(path) => Some(path.to_string_lossy().into_owned()),
        _ => None,
    });
    Invalid { path, message: invalid.to_string() }
}

/// Switches off commits that the user's own configuration asks for: a commit runs the hooks and filters of the
/// repository.
fn hold_back_commits(loaded: &mut Loaded, site: &Site) {
    let in_repository = site.worktree.parent().is_some();
    if loaded.config.auto_commit == Some(true) && in_repository {
        loaded.config.auto_commit = Some(false);
        loaded.withheld.push(Withheld {
            file: site.worktree.join(".git").to_string_lossy().into_owned(),
            key: "auto_commit".to_owned(),
            kind: WithheldKind::Program,
            reason: WithheldReason::Untrusted,
        });
    }
}

fn logins(auth: &AuthFile) -> BTreeMap<String, Login> {
    match auth.read() {
        Ok(auth) => {
            warn(&auth.warnings);
            auth.entries
        }
        Err(error) => {
            tracing::warn!(%error, "keys and logins are not known");
            BTreeMap::new()
        }
    }
}

/// Where repositories begin decides where configuration is looked for.
fn repositories(directory: &Path) -> Trace {
    let mut trace = Trace::default();
    for above in directory.ancestors() {
        trace.note(&above.join(".git"));
    }
    trace
}

/// A directory and the repository around it.
pub(crate) async fn site(directory: PathBuf) -> Site {
    let worktree =
        Repository::find(&directory).await.map_or_else(|| PathBuf::from("/"), |found| found.worktree);
    Site { directory, worktree }
}

/// Notes what is odd, but no reason to stop.
fn warn(problems: &[Problem]) {
    for problem in problems {
        tracing::warn!("{problem}");
    }
}
