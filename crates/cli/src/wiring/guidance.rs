//! `AGENTS.md` and its like, for the loop that hands them to models.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ::agents::native::{Instruction, Instructions, read_address};
use futures::future::{BoxFuture, FutureExt, join_all};
use protocol::Session;
use store::files::instructions;
use tokio::time::timeout;

use super::settings::Settings;

/// How long an address may take: a turn waits for it.
const ADDRESS: Duration = Duration::from_secs(3);

/// Most text that is taken from one address, in bytes.
const MAX_TEXT: usize = 64 * 1024;

/// Finds the instructions of the directory these settings are for, anew for each turn.
#[derive(Debug)]
pub(super) struct Guidance {
    settings: Arc<Settings>,
    /// What addresses have said before: that counts as long as they cannot be reached.
    heard: Mutex<HashMap<String, String>>,
}

impl Guidance {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, heard: Mutex::default() }
    }

    async fn ask(&self, url: String) -> Option<Instruction> {
        let webfetch = self.settings.loaded.config.webfetch;
        let private = webfetch.and_then(|it| it.private_addresses).unwrap_or(false);
        let asked = timeout(ADDRESS, read_address(&url, private)).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {} seconds", ADDRESS.as_secs())));
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match asked {
            Ok(mut text) => {
                text.truncate(text.floor_char_boundary(MAX_TEXT));
                heard.insert(url.clone(), text);
            }
            Err(reason) => {
                let reason = reason.replace(&url, shown(&url));
                tracing::warn!(url = shown(&url), reason, "instructions cannot be fetched");
            }
        }
        let text = heard.get(&url)?.clone();
        Some(Instruction { source: shown(&url).to_owned(), text })
    }
}

/// An address without what may be a key.
fn shown(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

impl Instructions for Guidance {
    fn find<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Vec<Instruction>> {
        let settings = Arc::clone(&self.settings);
        async move {
            let read =
                move || instructions::find(&settings.environment, &settings.site, &settings.loaded.config);
            let Ok(found) = tokio::task::spawn_blocking(read).await else { return Vec::new() };
            // They are the same in every turn, so they are nothing to warn of each time.
            for problem in &found.warnings {
                tracing::debug!("{problem}");
            }
            let addresses = join_all(found.urls.into_iter().map(|url| self.ask(url))).await;
            let files = found.files.into_iter();
            files
                .map(|file| Instruction { source: file.path.to_string_lossy().into_owned(), text: file.text })
                .chain(addresses.into_iter().flatten())
                .collect()
        }
        .boxed()
    }
}
