//! The status that Slack shows in a thread while the agent works.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{CHANNEL, web::Web};
use crate::{
    AdapterError, Content, Place, Update,
    split::{Limit, Unit},
};

/// Slack removes a status after two minutes, and whenever a message appears in its thread.
pub(super) const REFRESH: Duration = Duration::from_secs(20);

/// Limit of remembered statuses; others expire by themselves.
const REMEMBERED: usize = 10_000;
const TEXT: Limit = Limit { length: 100, unit: Unit::Character };

/// Errors that mean that the app or the server cannot show a status at all.
const NEVER: [&str; 6] = [
    "unknown_method",
    "missing_scope",
    "not_allowed_token_type",
    "access_denied",
    "no_permission",
    "feature_not_enabled",
];

/// The statuses shown by this process.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    is_off: AtomicBool,
    /// The thread in which a place's status is shown. For a direct message outside of a thread, this is the message
    /// itself.
    shown: Mutex<HashMap<Place, String>>,
}

impl Statuses {
    /// Shows a status.
    pub(super) async fn show(
        &self,
        web: &Web,
        place: &Place,
        message: Option<&str>,
        words: &str,
    ) -> Result<(), AdapterError> {
        let Some(thread) = place.thread.as_deref().or(message) else { return Ok(()) };
        let previous = self.remember(place, thread);
        if let Some(previous) = previous.filter(|previous| previous != thread) {
            self.set(web, &place.chat, &previous, "").await?;
        }
        // An empty status would remove the old one.
        let words = if words.trim().is_empty() { "is working…" } else { words };
        let words = TEXT.shorten(words);
        self.set(web, &place.chat, thread, &words).await
    }

    /// Removes the status.
    pub(super) async fn clear(&self, web: &Web, place: &Place) -> Result<(), AdapterError> {
        let Some(thread) = self.shown.lock().remove(place) else { return Ok(()) };
        self.set(web, &place.chat, &thread, "").await
    }

    /// Slack's stop button names the thread of the status. If that is only the message of a direct chat, the place
    /// is the chat.
    pub(super) fn correct(&self, update: &mut Update) {
        let chat = Place { thread: None, ..update.place.clone() };
        if update.content == Content::Stop && self.shown.lock().get(&chat) == update.place.thread.as_ref() {
            update.place = chat;
        }
    }

    fn remember(&self, place: &Place, thread: &str) -> Option<String> {
        let mut shown = self.shown.lock();
        if shown.len() >= REMEMBERED && !shown.contains_key(place) {
            return None;
        }
        shown.insert(place.clone(), thread.to_owned())
    }

    async fn set(&self, web: &Web, chat: &str, thread: &str, words: &str) -> Result<(), AdapterError> {
        if self.is_off.load(Ordering::Relaxed) {
            return Ok(());
        }
        let fields = [("channel_id", chat), ("thread_ts", thread), ("status", words)];
        match web.call::<Value>("assistant.threads.setStatus", &fields).await {
            Err(error) if error.is(&NEVER) => {
                if !self.is_off.swap(true, Ordering::Relaxed) {
                    let reason = error.fault;
                    tracing::warn!(channel = CHANNEL, %reason, "cannot show the status of a thread; progress is not shown");
                }
                Ok(())
            }
            answer => Ok(answer.map(|_| ())?),
        }
    }
}
