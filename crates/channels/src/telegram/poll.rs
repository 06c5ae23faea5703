//! Long polls. The offset of a poll tells Telegram what it may forget, so it is moved after what came is stored.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{CHANNEL, Telegram, api::Trouble, read::Bot, wire};
use crate::{Fault, Inbox, Place, Update};

/// What Telegram is to tell. Edits are not: what was said has been acted upon.
pub(super) const KINDS: [&str; 2] = ["message", "callback_query"];

/// How many updates are fetched at once, at most.
const BATCH: u32 = 100;

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How long Telegram waits for something to tell.
    pub poll: Duration,
    /// How much longer an answer may take. After that the poll is taken for dead and made anew.
    pub grace: Duration,
    /// A server that does not wait is not asked again before this.
    pub idle: Duration,
    /// How long to wait after the first failure, and at most.
    pub least: Duration,
    pub most: Duration,
    /// How long to wait while somebody else fetches the updates.
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
    /// How long to wait after something went wrong so many times; the fault, if there is no use in going on.
    pub(super) fn after(&self, trouble: &Trouble, tries: &mut u32) -> Result<Duration, Fault> {
        let pause = match trouble {
            Trouble::No { code: 401 | 404, words, .. } => {
                return Err(Fault::Refused(format!(
                    "Telegram does not know the bot; its token is wrong or was revoked: {words}"
                )));
            }
            Trouble::No { code: 409, words, .. } => {
                tracing::warn!(
                    "somebody else fetches this bot's updates (another gateway, or a webhook); stop it: {words}"
                );
                return Ok(self.conflict);
            }
            Trouble::No { parameters, .. } => parameters.retry_after.map(Duration::from_secs),
            Trouble::Fault(_) => None,
        };
        let growing = self.least.saturating_mul(1 << (*tries).min(10)).min(self.most);
        *tries += 1;
        let pause = pause.unwrap_or(growing);
        tracing::warn!(
            ?trouble,
            ?pause,
            "updates of Telegram could not be fetched or stored; this is tried again"
        );
        Ok(pause)
    }
}

impl Telegram {
    /// Fetches updates, until there is no use in it.
    pub(super) async fn poll(&self, bot: &Bot, inbox: &Inbox) -> Fault {
        let mut tries = 0;
        loop {
            let trouble = match self.fetch(bot, inbox).await {
                Ok(pause) => {
                    tries = 0;
                    sleep(pause).await;
                    continue;
                }
                Err(trouble) => trouble,
            };
            match self.pace.after(&trouble, &mut tries) {
                Ok(pause) => sleep(pause).await,
                Err(fault) => return fault,
            }
        }
    }

    /// Fetches updates once, and stores them. Says how long to wait before the next time.
    async fn fetch(&self, bot: &Bot, inbox: &Inbox) -> Result<Duration, Trouble> {
        // Another bot's updates are counted differently.
        let bookmark = format!("{CHANNEL}/{}", bot.id);
        let lost = |error: crate::ledger::Error| Trouble::Fault(Fault::Unreachable(error.to_string()));
        let offset = inbox.bookmark(&bookmark).await.map_err(lost)?;
        let mut body = json!({"timeout": self.pace.poll.as_secs(), "limit": BATCH, "allowed_updates": KINDS});
        if let (Some(offset), Some(body)) =
            (offset.and_then(|it| it.parse::<i64>().ok()), body.as_object_mut())
        {
            body.insert("offset".to_owned(), offset.into());
        }
        let started = Instant::now();
        let found: Vec<Value> = self.api.wait("getUpdates", &body, self.pace.poll + self.pace.grace).await?;
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

/// Says which group has become which other, if that is what an update tells. It is told in both.
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

/// What an update means. One that cannot be understood will not be understood next time, and is left out.
pub(super) fn read(bot: &Bot, update: Value, inbox: &Inbox) -> Option<Update> {
    match serde_json::from_value::<wire::Update>(update) {
        Ok(update) => bot.read(update, inbox.now()),
        Err(error) => {
            tracing::warn!(%error, "Telegram sent an update that cannot be understood");
            None
        }
    }
}
