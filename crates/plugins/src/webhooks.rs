//! Webhooks: receivers outside are told when a turn ends, when somebody is waited for, and when something fails.
//!
//! Nothing is told from memory. The outbox follows the log ([`feed`]), and for each receiver one task empties it
//! ([`send`]): what is not taken is tried again with growing pauses, after a restart too, until it is too old. A
//! receiver is told at least once, of one session in order, and knows by the id what it was told before.

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

/// How long a shutdown waits for what can be told at once.
const LINGER: Duration = Duration::from_secs(2);

/// How often it looks meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// Somebody who is told.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// What it is called in the configuration.
    pub name: String,
    /// Where it is.
    url: Url,
    /// What is signed with.
    key: Key,
    /// What it wants to be told.
    events: BTreeSet<WebhookEvent>,
    /// Whether it may be in a private network.
    private: bool,
}

impl Receiver {
    /// A receiver as it is configured; nothing if it is switched off.
    pub fn new(name: &str, config: &Webhook) -> Result<Option<Self>, String> {
        if config.enabled == Some(false) {
            return Ok(None);
        }
        let secret = config.secret.as_ref().filter(|secret| !secret.is_empty());
        let Some(secret) = secret.map(Secret::reveal) else {
            return Err(format!("the webhook {name} has no `secret` to sign with"));
        };
        let url = Url::parse(config.url.reveal())
            .map_err(|error| format!("the `url` of the webhook {name} is no address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("the `url` of the webhook {name} has to begin with http:// or https://"));
        }
        let key = Key::new(secret).map_err(|why| format!("the `secret` of the webhook {name} {why}"))?;
        let all = || WebhookEvent::ALL.into_iter().collect();
        let events = config.events.as_ref().map_or_else(all, |events| events.iter().copied().collect());
        let private = config.private_addresses.unwrap_or(false);
        Ok(Some(Self { name: name.to_owned(), url, key, events, private }))
    }
}

/// How patient it is.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long a receiver may take to answer.
    pub answer: Duration,
    /// The first pause before something is tried again; each is twice the one before.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// What is older than this is given up.
    pub age: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(10),
            first: Duration::from_secs(5),
            longest: Duration::from_hours(1),
            age: Duration::from_hours(72),
        }
    }
}

/// What it works with.
#[derive(Clone)]
pub struct Ports {
    /// Where events are read.
    pub reads: Arc<dyn Reads>,
    /// Where notices wait.
    pub outbox: Arc<dyn Outbox>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for Ports {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Ports")
    }
}

/// Hears of every commit before the bus does, and knows when there is something to tell.
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
        let wake = events.iter().any(|logged| payload::is_told(&logged.event.body));
        self.bus.committed(events);
        if wake {
            self.wake.notify_one();
        }
    }
}

/// The tasks that tell.
#[derive(Debug)]
pub struct Webhooks {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    names: Vec<String>,
    ports: Ports,
    wake: Arc<Notify>,
}

impl Webhooks {
    /// Tells these receivers from now on, and what they were not told before. Without any, what waits is forgotten.
    pub fn start(receivers: Vec<Receiver>, watch: &Watch, ports: Ports, patience: Patience) -> Self {
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let names: Vec<String> = receivers.iter().map(|receiver| receiver.name.clone()).collect();
        let nudges: Vec<Arc<Notify>> = receivers.iter().map(|_| Arc::default()).collect();
        for (receiver, nudge) in receivers.iter().zip(&nudges) {
            let sender = send::Sender::new(receiver.clone(), ports.clone(), patience, nudge.clone());
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

    /// Stops telling. What can be told at once still is; what is under way then may have been taken, and will be told
    /// again.
    pub async fn close(mut self) {
        self.wake.notify_one();
        if timeout(LINGER, self.told()).await.is_err() {
            tracing::debug!("webhooks are told the rest after the next start");
        }
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Webhooks {
    /// Waits until nothing could be told right now.
    async fn told(&self) {
        while !self.is_told().await.unwrap_or(true) {
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn is_told(&self) -> Result<bool, ports::Error> {
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
