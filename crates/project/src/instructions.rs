//! Instruction files (`AGENTS.md` and others) and addresses, read for each turn of the native loop.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt, join_all};
use native::{Instruction, Instructions, read_address};
use parking_lot::Mutex;
use protocol::Session;
use store::files::instructions;
use tokio::time::timeout;

use crate::settings::Settings;

/// A turn waits this long for one address.
const FETCH: Duration = Duration::from_secs(3);

/// Text from one address is cut after this many bytes.
const MAX_TEXT: usize = 64 * 1024;

/// Finds the instructions of a directory.
#[derive(Debug)]
pub(crate) struct ProjectInstructions {
    settings: Arc<Settings>,
    /// The last text of each address, used while the address cannot be reached.
    fetched: Mutex<HashMap<String, String>>,
}

impl ProjectInstructions {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, fetched: Mutex::default() }
    }

    async fn fetch(&self, url: String) -> Option<Instruction> {
        let private = self.settings.resolved.private_addresses;
        let answer = timeout(FETCH, read_address(&url, private)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {} seconds", FETCH.as_secs())));
        let mut fetched = self.fetched.lock();
        match answer {
            Ok(mut text) => {
                text.truncate(text.floor_char_boundary(MAX_TEXT));
                fetched.insert(url.clone(), text);
            }
            Err(reason) => {
                let reason = reason.replace(&url, shown(&url));
                tracing::warn!(url = shown(&url), reason, "cannot fetch instructions");
            }
        }
        let text = fetched.get(&url)?.clone();
        Some(Instruction { source: shown(&url).to_owned(), text })
    }
}

/// Returns an address without its query and fragment, which may hold a key.
fn shown(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

impl Instructions for ProjectInstructions {
    fn find<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Vec<Instruction>> {
        let settings = Arc::clone(&self.settings);
        async move {
            let read =
                move || instructions::find(&settings.environment, &settings.site, &settings.loaded.config);
            let Ok(found) = tokio::task::spawn_blocking(read).await else { return Vec::new() };
            // Logged at a low level, because the same warnings recur in every turn.
            for problem in &found.warnings {
                tracing::debug!("{problem}");
            }
            let addresses = join_all(found.urls.into_iter().map(|url| self.fetch(url))).await;
            let files = found.files.into_iter();
            files
                .map(|file| Instruction { source: file.path.to_string_lossy().into_owned(), text: file.text })
                .chain(addresses.into_iter().flatten())
                .collect()
        }
        .boxed()
    }
}
