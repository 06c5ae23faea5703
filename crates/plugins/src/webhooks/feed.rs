//! Copies events from the log into the outbox.

use std::{borrow::Cow, sync::Arc, time::Duration};

use engine::{
    limits::REPLAY_PAGE,
    ports::{Error, Notice, Span, Stored},
};
use protocol::{Event, config::WebhookEvent};
use serde::Deserialize;
use tokio::sync::Notify;

use super::{Ports, Receiver, payload};

/// Pause after the store failed.
const AGAIN: Duration = Duration::from_secs(5);

/// Reads the log from its last position whenever a relevant event was committed.
pub(super) struct Feeder {
    pub(super) receivers: Vec<Receiver>,
    pub(super) names: Vec<String>,
    pub(super) ports: Ports,
    pub(super) wake: Arc<Notify>,
    /// One for each receiver's sender.
    pub(super) nudges: Vec<Arc<Notify>>,
}

/// The type of an event.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
}

impl Feeder {
    pub(super) async fn run(self) {
        loop {
            match self.feed().await {
                Ok(()) if self.receivers.is_empty() => return,
                Ok(()) => self.wake.notified().await,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the log for webhooks; retrying");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    async fn feed(&self) -> Result<(), Error> {
        let Ports { reads, outbox, .. } = &self.ports;
        let upto = outbox.read_upto().await?;
        if upto.is_some() {
            outbox.retain(self.names.clone()).await?;
        }
        if self.receivers.is_empty() {
            return Ok(());
        }
        let (oldest, newest) = reads.bounds().await?;
        let mut after = match upto {
            // Events before the first receiver was configured are not sent.
            None => {
                outbox.put(newest, Vec::new()).await?;
                newest
            }
            Some(upto) if upto.saturating_add(1) < oldest => {
                tracing::warn!(
                    "the log no longer has the events after the last notice of a webhook; they are skipped"
                );
                oldest.saturating_sub(1)
            }
            Some(upto) => upto,
        };
        loop {
            let span = Span { after, upto: u64::MAX, workspace: None, limit: REPLAY_PAGE };
            let page = reads.replay(span).await?;
            let Some(last) = page.last().map(|stored| stored.position) else { return Ok(()) };
            let mut notices = Vec::new();
            for stored in &page {
                notices.extend(self.notices(stored).await?);
            }
            let any = !notices.is_empty();
            let dropped = outbox.put(last, notices).await?;
            if dropped > 0 {
                tracing::warn!(dropped, "the outbox of a webhook is full; dropping the oldest notices");
            }
            if any {
                self.nudges.iter().for_each(|nudge| nudge.notify_one());
            }
            after = last;
        }
    }

    /// The notices about an event, one for each receiver that wants it.
    async fn notices(&self, stored: &Stored) -> Result<Vec<Notice>, Error> {
        let kind =
            serde_json::from_slice::<Kind<'_>>(&stored.json).map(|kind| kind.r#type).unwrap_or_default();
        if !matches!(&*kind, "session.status" | "session.error" | "permission.asked" | "question.asked") {
            return Ok(Vec::new());
        }
        let Ok(event) = serde_json::from_slice::<Event>(&stored.json) else { return Ok(Vec::new()) };
        if !payload::is_reported(&event.body) {
            return Ok(Vec::new());
        }
        let now = self.ports.clock.now();
        let Some((kind, session, body)) = payload::describe(&*self.ports.reads, &event, now).await? else {
            return Ok(Vec::new());
        };
        let notice = |receiver: &Receiver| Notice {
            receiver: receiver.name.clone(),
            id: event.id.clone(),
            session: session.id.clone(),
            body: body.clone(),
            created: now,
            attempts: 0,
            due: now,
        };
        let wants = |receiver: &&Receiver, kind: WebhookEvent| receiver.events.contains(&kind);
        Ok(self.receivers.iter().filter(|receiver| wants(receiver, kind)).map(notice).collect())
    }
}
