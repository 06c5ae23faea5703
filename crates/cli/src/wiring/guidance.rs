//! `AGENTS.md` and its like, for the loop that hands them to models.

use std::{path::PathBuf, sync::Arc};

use ::agents::native::{Instruction, Instructions};
use futures::future::{BoxFuture, FutureExt};
use protocol::Session;
use store::files::instructions;

use super::settings::{Settings, site};

/// Finds the instructions of a session's directory, anew for each turn.
#[derive(Debug)]
pub(super) struct Guidance(pub(super) Arc<Settings>);

impl Instructions for Guidance {
    fn find<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, Vec<Instruction>> {
        let settings = Arc::clone(&self.0);
        let directory = PathBuf::from(&session.directory);
        async move {
            let site = if directory == settings.site.directory {
                settings.site.clone()
            } else {
                site(directory).await
            };
            let read = move || instructions::find(&settings.environment, &site, &settings.loaded.config);
            let Ok(found) = tokio::task::spawn_blocking(read).await else { return Vec::new() };
            // They are the same in every turn, so they are nothing to warn of each time.
            for problem in &found.warnings {
                tracing::debug!("{problem}");
            }
            for url in &found.urls {
                tracing::debug!(url, "instructions are not fetched from addresses yet");
            }
            let files = found.files.into_iter();
            files
                .map(|file| Instruction { source: file.path.to_string_lossy().into_owned(), text: file.text })
                .collect()
        }
        .boxed()
    }
}
