//! `AGENTS.md` and its like, for the loop that hands them to models.

use std::sync::Arc;

use ::agents::native::{Instruction, Instructions};
use futures::future::{BoxFuture, FutureExt};
use protocol::Session;
use store::files::instructions;

use super::settings::Settings;

/// Finds the instructions of the directory these settings are for, anew for each turn.
#[derive(Debug)]
pub(super) struct Guidance(pub(super) Arc<Settings>);

impl Instructions for Guidance {
    fn find<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Vec<Instruction>> {
        let settings = Arc::clone(&self.0);
        async move {
            let read =
                move || instructions::find(&settings.environment, &settings.site, &settings.loaded.config);
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
