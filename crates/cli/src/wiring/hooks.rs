//! Who looks on in a directory and may shape what happens there.

use std::sync::Arc;

use ::plugins::{
    Chain, Link,
    builtin::auto_commit::{self, AutoCommit},
};
use engine::{bus::Place, ports::Hooks};

use super::{ground::Ground, plugins::complain, setup::Setup};

/// The plugins of a directory, in the order in which they are called. What commits comes last: by then it is clear
/// whether the turn ends.
pub(super) fn chain(ground: &Ground, setup: &Setup, place: Place) -> Arc<dyn Hooks> {
    let announcer = ground.announcer.clone();
    let report: Arc<dyn Fn(&str) + Send + Sync> =
        Arc::new(move |text: &str| complain(&announcer, &place, text));
    let mut links = Vec::new();
    if setup.settings.loaded.config.auto_commit == Some(true)
        && let Some(reads) = ground.reads.get()
    {
        let commit =
            AutoCommit { reads: reads.clone(), hidden: setup.shown.hidden.clone(), report: report.clone() };
        links.push(Link { name: auto_commit::NAME.to_owned(), hooks: Arc::new(commit) });
    }
    let first = setup.plugins.hooks();
    if links.is_empty() { first } else { Arc::new(Chain::new(links, report).after(first)) }
}
