//! Webhooks: notify receivers when a turn ends, when a request waits for a user, and when a session fails.
//!
//! Notices are never sent from memory. [`feed`] copies them from the log into the outbox, and one task per receiver
//! sends them ([`send`]): a failed notice is retried with growing pauses, also after a restart, until it is too
//! old. A receiver gets each notice at least once, those of one session in order, and recognises repetitions by
//! their id.

mod feed;
mod payload;
mod send;
mod sign;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use engine::{
    bus::Bus,
    ports::{self, Clock, Logged, Observer, Outbox, Reads},
};
use protocol::config::{Secret, Webhook, WebhookEvent};
use reqwest::Url;
use tokio::{sync::Notify, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

pub use sign::Key;

/// Time for which a shutdown waits for notices that can be sent at once.
const LINGER: Duration = Duration::from_secs(2);

/// Polling interval during that time.
const LOOK: Duration = Duration::from_millis(20);

/// A configured receiver.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// Its key in the configuration.
    pub name: String,
    url: Url,
    key: Key,
    /// The events it wants.
    events: BTreeSet<WebhookEvent>,
    /// True if it may be in a private network.
    private: bool,
}

impl Receiver {
    /// Parses a receiver's configuration; `None` if it is disabled.
    pub fn new(name: &str, config: &Webhook) -> Result<Option<Self>, String> {
        if config.enabled == Some(false) {
            return Ok(None);
        }
        let secret = config.secret.as_ref().filter(|secret| !secret.is_empty());
        let Some(secret) = secret.map(Secret::reveal) else {
            return Err(format!("the webhook {name} has no `secret` to sign with"));
        };
        let url = Url::parse(config.url.reveal())
            .map_err(|error| format!("the `url` of the webhook {name} is not a valid address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("the `url` of the webhook {name} must begin with http:// or https://"));
        }
        let key = Key::new(secret).map_err(|why| format!("the `secret` of the webhook {name} {why}"))?;
        let all = || WebhookEvent::ALL.into_iter().collect();
        let events = config.events.as_ref().map_or_else(all, |events| events.iter().copied().collect());
        let private = config.private_addresses.unwrap_or(false);
        Ok(Some(Self { name: name.to_owned(), url, key, events, private }))
    }
}

/// Timeouts and retries.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Timeout of a receiver's answer.
    pub answer: Duration,
    /// First pause before a retry; doubles with each attempt.
    pub first: Duration,
    pub longest: Duration,
    /// Age at which a notice is given up.
    pub age: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(10),
            first: Duration::from_secs(5),
            longest: Duration::from_hours(1),
            age: Duration::from_hours(72),
        }
    }
}

/// The ports that webhooks need.
#[derive(Clone)]
pub struct Ports {
    pub reads: Arc<dyn Reads>,
    pub outbox: Arc<dyn Outbox>,
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for Ports {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Ports")
    }
}

/// Observes every commit before the bus does, and wakes the webhooks if it has a relevant event.
#[derive(Debug)]
pub struct Watch {
    bus: Arc<Bus>,
    wake: Arc<Notify>,
}

impl Watch {
    /// A watch in front of the bus.
    pub fn new(bus: Arc<Bus>) -> Self {
        Self { bus, wake: Arc::default() }
    }
}

impl Observer for Watch {
    fn committed(&self, events: Vec<Logged>) {
        let wake = events.iter().any(|logged| payload::is_reported(&logged.event.body));
        self.bus.committed(events);
        if wake {
            self.wake.notify_one();
        }
    }
}

/// The tasks that send notices.
#[derive(Debug)]
pub struct Webhooks {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    names: Vec<String>,
    ports: Ports,
    wake: Arc<Notify>,
}

impl Webhooks {
    /// Starts sending to these receivers, beginning with notices that are still waiting. Without receivers, waiting
    /// notices are dropped.
    pub fn start(receivers: Vec<Receiver>, watch: &Watch, ports: Ports, timeouts: Timeouts) -> Self {
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let names: Vec<String> = receivers.iter().map(|receiver| receiver.name.clone()).collect();
        let nudges: Vec<Arc<Notify>> = receivers.iter().map(|_| Arc::default()).collect();
        for (receiver, nudge) in receivers.iter().zip(&nudges) {
            let sender = send::Sender::new(receiver.clone(), ports.clone(), timeouts, nudge.clone());
            tasks.spawn(until(stop.clone(), sender.run()));
        }
        let wake = watch.wake.clone();
        let feeder = feed::Feeder {
            receivers,
            names: names.clone(),
            ports: ports.clone(),
            wake: wake.clone(),
            nudges,
        };
        tasks.spawn(until(stop.clone(), feeder.run()));
        Self { stop, tasks, names, ports, wake }
    }

    /// Stops. Notices that can be sent at once are still sent; one that is interrupted may have arrived, and will
    /// be sent again.
    pub async fn close(mut self) {
        self.wake.notify_one();
        if timeout(LINGER, self.all_sent()).await.is_err() {
            tracing::debug!("the remaining notices are sent after the next start");
        }
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Webhooks {
    /// Waits until no notice is due.
    async fn all_sent(&self) {
        while !self.are_all_sent().await.unwrap_or(true) {
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn are_all_sent(&self) -> Result<bool, ports::Error> {
        let Ports { reads, outbox, clock } = &self.ports;
        if !self.names.is_empty() && outbox.read_upto().await? < Some(reads.bounds().await?.1) {
            return Ok(false);
        }
        for name in &self.names {
            let next = outbox.heads(name, 1).await?;
            if next.first().is_some_and(|notice| notice.due <= clock.now()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}
