//! The settings of a directory: configuration files, logins, skills and the trust in the directory.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{
    config::{Config, Skill},
    diagnostic::{Diagnostic, DiagnosticKind},
    login::Login,
    trust::{Withheld, WithheldKind, WithheldReason},
};
use server::instance::Invalid;
use store::files::{
    self, Environment, Loaded, Site, Source, Trace, auth::AuthFile, load, skills, trust::Trust,
};
use tokio::task::{JoinError, spawn_blocking};
use workspace::git::Repository;

use crate::{diagnostics, resolved::ResolvedConfig, services::Services, trust::DirectoryTrust};

/// The configuration that applies in a directory, and the environment that it was read in.
#[derive(Debug, Clone)]
pub struct Settings {
    pub environment: Environment,
    pub site: Site,
    pub loaded: Loaded,
    /// Limits and switches of `loaded.config`, with every default applied.
    pub resolved: Arc<ResolvedConfig>,
    pub(crate) skills: BTreeMap<String, Skill>,
    /// Keys and logins, by provider.
    pub(crate) logins: BTreeMap<String, Login>,
    pub(crate) standing: DirectoryTrust,
    /// Warnings about files and variables.
    pub(crate) warnings: Vec<Diagnostic>,
    /// The files that were read or looked for, to notice changes.
    trace: Arc<Trace>,
}

impl Settings {
    /// Reads the settings. The error lists every mistake in the configuration, not only the first.
    pub(crate) async fn read(services: &Services, directory: PathBuf) -> Result<Self, Invalid> {
        let broken = |error: JoinError| Invalid { path: None, message: error.to_string() };
        let above = directory.clone();
        let trace = spawn_blocking(move || repositories(&above)).await.map_err(broken)?;
        let site = site(directory).await;
        let (environment, data) = (services.environment.clone(), services.places.data.clone());
        let read = spawn_blocking(move || Self::read_at(environment, site, &data, trace));
        let settings = read.await.map_err(broken)??;
        tracing::debug!(worktree = %settings.site.worktree.display(), "looked for configuration files");
        for file in &settings.loaded.read {
            tracing::debug!(file = %file.display(), "read a configuration file");
        }
        Ok(settings)
    }

    fn read_at(environment: Environment, site: Site, data: &Path, mut trace: Trace) -> Result<Self, Invalid> {
        let auth = AuthFile::new(&environment, data);
        auth.trace(&mut trace);
        trace.note(&Trust::file(data));
        let (logins, mut warnings) = logins(&auth);
        let standing = DirectoryTrust::read(data, &site, logins.keys());
        let mut loaded = load(&environment, &site, &standing.guard).map_err(|invalid| unusable(&invalid))?;
        if !standing.guard.trusted {
            hold_back_commits(&mut loaded, &site);
        }
        let found = skills::find(&environment, &site, &loaded);
        warnings.extend(loaded.warnings.iter().chain(&found.warnings).map(diagnostics::problem));
        trace.join(std::mem::take(&mut loaded.trace));
        trace.join(found.trace);
        let (skills, trace) = (found.skills, Arc::new(trace));
        let resolved = Arc::new(ResolvedConfig::new(&loaded.config));
        Ok(Self { environment, site, loaded, resolved, skills, logins, standing, warnings, trace })
    }

    /// Replaces the configuration by one that plugins have changed.
    pub(crate) fn set_config(&mut self, config: Config) {
        self.resolved = Arc::new(ResolvedConfig::new(&config));
        self.loaded.config = config;
    }

    /// Returns true if a file has changed since the settings were read.
    pub(crate) async fn is_stale(&self) -> bool {
        let trace = Arc::clone(&self.trace);
        // If the check itself fails, the settings are read again.
        spawn_blocking(move || trace.is_stale()).await.unwrap_or(true)
    }
}

pub(crate) fn unusable(invalid: &files::Invalid) -> Invalid {
    let path = invalid.problems.iter().find_map(|problem| match &problem.source {
        Source::File(path) => Some(path.to_string_lossy().into_owned()),
        _ => None,
    });
    Invalid { path, message: invalid.to_string() }
}

/// Switches off auto-commit, which the user's own configuration may have switched on: a commit runs the hooks and filters
/// of an untrusted repository.
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

/// Returns the stored logins, and warnings about their file. A file that cannot be read has no logins.
fn logins(auth: &AuthFile) -> (BTreeMap<String, Login>, Vec<Diagnostic>) {
    match auth.read() {
        Ok(auth) => (auth.entries, auth.warnings.iter().map(diagnostics::problem).collect()),
        Err(error) => {
            let message = format!("cannot read the stored keys and logins; continuing without them: {error}");
            (BTreeMap::new(), vec![Diagnostic::new(DiagnosticKind::Config, message)])
        }
    }
}

/// Notes where a repository may begin, because that decides in which directories configuration is searched.
fn repositories(directory: &Path) -> Trace {
    let mut trace = Trace::default();
    for above in directory.ancestors() {
        trace.note(&above.join(".git"));
    }
    trace
}

/// Finds the repository around a directory.
pub async fn site(directory: PathBuf) -> Site {
    let worktree =
        Repository::find(&directory).await.map_or_else(|| PathBuf::from("/"), |found| found.worktree);
    Site { directory, worktree }
}
