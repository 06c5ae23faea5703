//! Updates, until they are confirmed: fetched by polls, or pushed to a webhook.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{Refusal, Telegram, body::Body};
use crate::calls::http;

/// Time for a webhook to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Pause before a push is repeated: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Longest time that a poll waits, in seconds.
const LONGEST_POLL: u64 = 50;

/// The address to push updates to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Webhook {
    pub(super) url: String,
    pub(super) secret: Option<String>,
}

impl Telegram {
    /// Adds an update, unless the bot has not asked for its kind.
    pub(super) fn add(&self, kind: &str, content: &Value) {
        let mut inner = self.lock();
        if inner.kinds.as_ref().is_some_and(|kinds| !kinds.iter().any(|it| it == kind)) {
            return;
        }
        inner.last_update += 1;
        let update = json!({"update_id": inner.last_update, kind: content});
        inner.last = Some(update.clone());
        inner.waiting.push_back(update);
        drop(inner);
        self.news.send_modify(|count| *count += 1);
    }

    /// Delivers a value that need not be a valid update.
    pub fn bring(&self, update: Value) {
        self.lock().again.push(update);
        self.news.send_modify(|count| *count += 1);
    }

    /// Records the kinds of updates that the bot asks for.
    pub(super) fn want(&self, body: &Body) {
        if let Some(kinds) = body.value("allowed_updates").and_then(Value::as_array) {
            let kinds = kinds.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect();
            self.lock().kinds = Some(kinds);
        }
    }

    pub(super) async fn poll(&self, body: &Body) -> Result<Value, Refusal> {
        self.want(body);
        let mine = {
            let mut inner = self.lock();
            if inner.webhook.is_some() {
                return Err(Refusal::new(
                    409,
                    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the \
                     webhook first",
                ));
            }
            inner.poller += 1;
            inner.poller
        };
        // Wakes a waiting poll, which ends because it is no longer the only one.
        self.news.send_modify(|count| *count += 1);
        self.confirm(body.number("offset").unwrap_or_default());
        let limit = body.number("limit").and_then(|it| usize::try_from(it).ok()).unwrap_or(100).clamp(1, 100);
        let wait = body.number("timeout").and_then(|it| u64::try_from(it).ok()).unwrap_or_default();
        let found = timeout(Duration::from_secs(wait.min(LONGEST_POLL)), self.news_for(mine, limit)).await;
        found.unwrap_or_else(|_| Ok(json!([])))
    }

    async fn news_for(&self, mine: u64, limit: usize) -> Result<Value, Refusal> {
        let mut news = self.news.subscribe();
        loop {
            news.mark_unchanged();
            {
                let mut inner = self.lock();
                if inner.poller != mine {
                    return Err(Refusal::new(
                        409,
                        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is \
                         running",
                    ));
                }
                let mut found = std::mem::take(&mut inner.again);
                found.extend(inner.waiting.iter().take(limit).cloned());
                if !found.is_empty() {
                    return Ok(Value::Array(found));
                }
            }
            if news.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Removes all updates before `offset`.
    fn confirm(&self, offset: i64) {
        let mut inner = self.lock();
        let before = inner.waiting.len();
        inner.waiting.retain(|it| it.get("update_id").and_then(Value::as_i64).is_none_or(|id| id >= offset));
        let confirmed = before - inner.waiting.len();
        drop(inner);
        if confirmed > 0 {
            self.service_state.change(|state| state.acknowledged += confirmed);
        }
    }

    fn next_push(&self) -> Option<(Webhook, Value)> {
        let mut inner = self.lock();
        let webhook = inner.webhook.clone()?;
        let again = inner.again.pop();
        Some((webhook, again.or_else(|| inner.waiting.front().cloned())?))
    }
}

/// Pushes updates one after the other, each until it is answered with success.
pub(super) async fn push(service: Weak<Telegram>) {
    let Some(mut news) = service.upgrade().map(|it| it.news.subscribe()) else { return };
    let http = http();
    let mut pause = PAUSE;
    loop {
        news.mark_unchanged();
        let Some(telegram) = service.upgrade() else { return };
        let Some((webhook, update)) = telegram.next_push() else {
            drop(telegram);
            if news.changed().await.is_err() {
                return;
            }
            continue;
        };
        if deliver(&http, &telegram, &webhook, &update).await {
            pause = PAUSE;
        } else {
            drop(telegram);
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

async fn deliver(
    http: &reqwest::Client,
    telegram: &Arc<Telegram>,
    webhook: &Webhook,
    update: &Value,
) -> bool {
    let mut call = http.post(&webhook.url).json(update).timeout(ANSWER);
    if let Some(secret) = &webhook.secret {
        call = call.header("X-Telegram-Bot-Api-Secret-Token", secret);
    }
    let answer = call.send().await;
    telegram.service_state.change(|state| *state.calls.entry("push".to_owned()).or_default() += 1);
    let is_taken = answer.is_ok_and(|answer| answer.status().is_success());
    let mut inner = telegram.lock();
    let is_first = inner.waiting.front() == Some(update);
    if is_taken && is_first {
        inner.waiting.pop_front();
    } else if !is_taken && !is_first {
        inner.again.push(update.clone());
    }
    drop(inner);
    if is_taken {
        telegram.service_state.change(|state| state.acknowledged += 1);
    }
    is_taken
}
