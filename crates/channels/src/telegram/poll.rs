//! Long polling. The offset of a poll acknowledges all earlier updates, so it only advances after they are stored.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{CHANNEL, Telegram, api::ApiError, read::Bot, wire};
use crate::{AdapterError, Inbox, Place, Update};

/// Kinds of updates to receive. An edit changes nothing, but its author is told so.
pub(super) const KINDS: [&str; 3] = ["message", "edited_message", "callback_query"];

/// Maximum number of updates of one poll.
const BATCH: u32 = 100;

/// Timing of the polls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time for which Telegram waits for an update.
    pub poll: Duration,
    /// Additional time for the answer. After that the connection is considered dead, and a new poll begins.
    pub grace: Duration,
    /// Minimum time between polls, for a server that answers at once.
    pub idle: Duration,
    /// Pause after the first failure, and maximum pause.
    pub least: Duration,
    pub most: Duration,
    /// Pause while another client receives the updates.
    pub conflict: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(50),
            grace: Duration::from_secs(15),
            idle: Duration::from_millis(300),
            least: Duration::from_secs(1),
            most: Duration::from_secs(30),
            conflict: Duration::from_secs(30),
        }
    }
}

impl Pace {
    /// The pause before the next attempt; the fault if another attempt is useless.
    pub(super) fn after(&self, error: &ApiError, tries: &mut u32) -> Result<Duration, AdapterError> {
        let pause = match error {
            ApiError::No { code: 401 | 404, words, .. } => {
                return Err(AdapterError::Refused(format!(
                    "Telegram rejects the bot's token, which is wrong or was revoked: {words}"
                )));
            }
            ApiError::No { code: 409, words, .. } => {
                tracing::warn!(
                    "another client receives this bot's updates (another gateway, or a webhook); stop it: {words}"
                );
                return Ok(self.conflict);
            }
            ApiError::No { parameters, .. } => parameters.retry_after.map(Duration::from_secs),
            ApiError::Adapter(_) => None,
        };
        let growing = self.least.saturating_mul(1 << (*tries).min(10)).min(self.most);
        *tries += 1;
        let pause = pause.unwrap_or(growing);
        tracing::warn!(%error, pause_s = pause.as_secs_f32(), "cannot receive or store updates of Telegram; retrying");
        Ok(pause)
    }
}

impl Telegram {
    /// Polls until a fault makes it useless.
    pub(super) async fn poll(&self, bot: &Bot, inbox: &Inbox) -> AdapterError {
        let mut tries = 0;
        loop {
            // After a failure, a short poll shows at once whether Telegram is back.
            let timeout = if tries == 0 { self.pace.poll } else { Duration::ZERO };
            let error = match self.fetch(bot, inbox, timeout).await {
                Ok(pause) => {
                    tries = 0;
                    inbox.connected(CHANNEL);
                    sleep(pause).await;
                    continue;
                }
                Err(error) => error,
            };
            match self.pace.after(&error, &mut tries) {
                Ok(pause) => {
                    inbox.lost(CHANNEL, error.to_string());
                    sleep(pause).await;
                }
                Err(fault) => return fault,
            }
        }
    }

    /// Polls once and stores the updates. Returns the pause before the next poll.
    async fn fetch(&self, bot: &Bot, inbox: &Inbox, timeout: Duration) -> Result<Duration, ApiError> {
        // Update numbers are counted per bot.
        let bookmark = format!("{CHANNEL}/{}", bot.id);
        let lost =
            |error: crate::ledger::Error| ApiError::Adapter(AdapterError::Unreachable(error.to_string()));
        let offset = inbox.bookmark(&bookmark).await.map_err(lost)?;
        let mut body = json!({"timeout": timeout.as_secs(), "limit": BATCH, "allowed_updates": KINDS});
        if let (Some(offset), Some(body)) =
            (offset.and_then(|it| it.parse::<i64>().ok()), body.as_object_mut())
        {
            body.insert("offset".to_owned(), offset.into());
        }
        let started = Instant::now();
        let found: Vec<Value> = self.api.wait("getUpdates", &body, timeout + self.pace.grace).await?;
        let Some(last) = found.iter().rev().find_map(|it| it.get("update_id").and_then(Value::as_i64)) else {
            let is_early = started.elapsed() < self.pace.idle;
            return Ok(if is_early { self.pace.idle } else { Duration::ZERO });
        };
        for (from, to) in found.iter().filter_map(moved) {
            inbox.moved(&from, &to).await.map_err(lost)?;
        }
        let updates = found.into_iter().filter_map(|update| read(bot, update, inbox)).collect();
        inbox.accept_all(updates).await.map_err(lost)?;
        inbox.set_bookmark(&bookmark, last.saturating_add(1).to_string()).await.map_err(lost)?;
        Ok(Duration::ZERO)
    }
}

/// The old and the new place, if an update reports that a group has a new id. Telegram reports it in both groups.
pub(super) fn moved(update: &Value) -> Option<(Place, Place)> {
    let message = update.get("message")?;
    let chat = |id: i64| Place { channel: CHANNEL.to_owned(), chat: id.to_string(), thread: None };
    let here = message.pointer("/chat/id")?.as_i64()?;
    let other = |name: &str| message.get(name).and_then(Value::as_i64);
    if let Some(to) = other("migrate_to_chat_id") {
        return Some((chat(here), chat(to)));
    }
    other("migrate_from_chat_id").map(|from| (chat(from), chat(here)))
}

/// Parses an update. One that cannot be parsed is skipped, because it would fail again.
pub(super) fn read(bot: &Bot, update: Value, inbox: &Inbox) -> Option<Update> {
    match serde_json::from_value::<wire::Update>(update) {
        Ok(update) => bot.read(update, inbox.now()),
        Err(error) => {
            tracing::warn!(%error, "skipping an update of Telegram that cannot be parsed");
            None
        }
    }
}
