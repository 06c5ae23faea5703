//! The hooks of a directory: its plugins and auto-commit.

use std::sync::Arc;

use ::plugins::{
    Chain, NamedHooks,
    builtin::auto_commit::{self, AutoCommit},
};
use engine::{bus::Place, ports::Hooks};

use crate::{project::Project, services::Services};

/// Returns the hooks of a directory in the order in which they are called. Auto-commit comes last, after every plugin has
/// decided whether the turn goes on.
pub(crate) fn chain(services: &Services, project: &Project, place: Place) -> Arc<dyn Hooks> {
    let announcer = services.announcer.clone();
    let report: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(move |text: &str| announcer.error(&place, text));
    let mut links = Vec::new();
    if project.settings.resolved.auto_commit
        && let Some(reads) = services.reads.get()
    {
        let commit = AutoCommit {
            reads: reads.clone(),
            hidden: project.instance.hidden.clone(),
            report: report.clone(),
        };
        links.push(NamedHooks { name: auto_commit::NAME.to_owned(), hooks: Arc::new(commit) });
    }
    let first = project.plugins.hooks();
    if links.is_empty() { first } else { Arc::new(Chain::new(links, report).after(first)) }
}
