//! The gateway: adapters, router, couriers and the webhook listener around one ledger.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use client::{Client, Feed, Scope};
use protocol::channel::{Channel, ChannelState};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet, time::sleep};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    Adapter, AdapterError, Health, Inbox, Place, Settings,
    courier::Couriers,
    health,
    ledger::{self, Clock, Ledger},
    router::{Context, Router},
    settings::{Allowed, UserAccess},
    slack::Slack,
    telegram::Telegram,
    webhook,
    whatsapp::WhatsApp,
};

/// File name of the ledger in the gateway's data directory.
const LEDGER: &str = "channels.db";
/// Directory for files from users that do not fit into a prompt.
const FILES: &str = "channels-files";

/// Number of attempts to open the ledger, and the pause between them.
const OPEN_ATTEMPTS: u32 = 5;
const OPEN_PAUSE: Duration = Duration::from_millis(20);

/// Pause before the states of the channels are stored again after the ledger failed.
const STATE_PAUSE: Duration = Duration::from_secs(5);

/// Reasons why the gateway cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no channel is configured: add `telegram`, `slack` or `whatsapp` under `channels`")]
    Nothing,
    /// A channel receives by webhook, but there is no listener address.
    #[error(
        "{channel} delivers messages by webhook: set `channels.listen` to an address, for instance \"127.0.0.1:4097\""
    )]
    NoListener { channel: &'static str },
    #[error("cannot listen for webhooks on {address}: {reason}")]
    Listen { address: SocketAddr, reason: std::io::Error },
    #[error("`channels.{channel}` cannot be used: {reason}")]
    Settings { channel: &'static str, reason: String },
    /// A channel failed while running.
    #[error("{channel}: {fault}")]
    Channel { channel: &'static str, fault: AdapterError },
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

/// A gateway that is ready to run.
pub struct Gateway {
    inbox: Inbox,
    news: mpsc::Receiver<Place>,
    adapters: Vec<Arc<dyn Adapter>>,
    router: Router,
    couriers: Couriers,
    ledger: Arc<Ledger>,
    listener: Option<TcpListener>,
    /// True if the settings allow at least one user.
    has_guests: bool,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Gateway").field("channels", &self.channels()).finish_non_exhaustive()
    }
}

/// Path of a gateway's ledger.
pub fn ledger_path(directory: &Path) -> PathBuf {
    directory.join(LEDGER)
}

/// The states of the channels of the gateway that uses this data directory, or used it last; empty if there was none.
/// Any process may ask: the running gateway stores its states in the ledger.
pub async fn channels(directory: &Path, clock: Clock) -> Result<Vec<Channel>, Error> {
    let path = ledger_path(directory);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let opened = path.clone();
    let ledger = tokio::task::spawn_blocking(move || Ledger::visit(&opened, clock)).await;
    let mut channels = ledger.map_err(|_| ledger::Error::Closed)??.channels().await?;
    if !Ledger::is_in_use(&path) {
        health::correct(&mut channels);
    }
    Ok(channels)
}

/// Opens the ledger. Tries again for a moment if another process looks whether the ledger is in use.
async fn open_ledger(path: &Path, clock: &Clock) -> Result<Ledger, ledger::Error> {
    for _ in 1..OPEN_ATTEMPTS {
        match Ledger::open(path, Arc::clone(clock)) {
            Err(ledger::Error::InUse(_)) => sleep(OPEN_PAUSE).await,
            opened => return opened,
        }
    }
    Ledger::open(path, Arc::clone(clock))
}

/// Stores the states of the channels whenever one changes. Never returns.
async fn store_states(health: Health, ledger: Arc<Ledger>) {
    let mut states = health.subscribe();
    loop {
        let channels = states.borrow_and_update().values().cloned().collect();
        if let Err(error) = ledger.set_channels(channels).await {
            tracing::warn!(%error, "cannot store the states of the channels");
            sleep(STATE_PAUSE).await;
            states.mark_changed();
        }
        if states.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Gateway {
    /// Opens the ledger in a directory and prepares everything. Makes no call to a chat service yet.
    pub async fn open(
        settings: &Settings,
        client: Client,
        directory: &Path,
        clock: Clock,
    ) -> Result<Self, Error> {
        let adapters = adapters(settings)?;
        let listener = listen(settings, &adapters).await?;
        let ledger = Arc::new(open_ledger(&ledger_path(directory), &clock).await?);
        let (inbox, news) = Inbox::new(Arc::clone(&ledger));
        let couriers = Couriers::new(inbox.clone(), &adapters);
        let allow = allowed(settings);
        let has_guests = allow.values().any(|users| !users.is_empty());
        let router = Router::new(Context {
            feed: Feed::new(client.clone(), Scope::Directory),
            client,
            ledger: Arc::clone(&ledger),
            couriers: couriers.clone(),
            adapters: adapters.iter().map(|it| (it.channel().to_owned(), Arc::clone(it))).collect(),
            settings: settings.router.clone(),
            allow,
            files: directory.join(FILES),
        });
        let gateway = Self { inbox, news, adapters, router, couriers, ledger, listener, has_guests };
        for channel in gateway.channels() {
            gateway.note_state(channel, ChannelState::Connecting, None);
        }
        // From here on the ledger is in use, so the states of an earlier gateway must not stay in it.
        gateway.ledger.set_channels(gateway.states()).await?;
        Ok(gateway)
    }

    /// Address of the webhook listener, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Names of the configured channels.
    pub fn channels(&self) -> Vec<&'static str> {
        self.adapters.iter().map(|adapter| adapter.channel()).collect()
    }

    /// The states of the channels, which stay up to date while the gateway runs.
    pub fn health(&self) -> Health {
        self.inbox.health().clone()
    }

    /// A pairing code for the first user; `None` if a user already has access.
    pub async fn first_code(&self) -> Result<Option<String>, Error> {
        if self.has_guests || !self.ledger.users().await?.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.ledger.new_code(true).await?))
    }

    /// Handles stored and new updates until `stop` is cancelled or every channel has failed.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Error> {
        let mut receiving = JoinSet::new();
        for adapter in &self.adapters {
            let (adapter, inbox) = (Arc::clone(adapter), self.inbox.clone());
            receiving.spawn(async move { (adapter.channel(), adapter.receive(&inbox).await) });
        }
        let _webhooks = self.listener.take().map(|listener| {
            let serving = webhook::serve(listener, self.adapters.clone(), self.inbox.clone());
            AbortOnDropHandle::new(tokio::spawn(serving))
        });
        let (inbox, router) = (self.inbox.clone(), self.router.clone());
        let _beside = [
            AbortOnDropHandle::new(tokio::spawn(async move { inbox.make_up().await })),
            AbortOnDropHandle::new(tokio::spawn(async move { router.watch().await })),
        ];
        let storing = store_states(self.health(), Arc::clone(&self.ledger));
        let mut storing = AbortOnDropHandle::new(tokio::spawn(storing));
        for place in self.ledger.open_places().await? {
            self.couriers.wake(&place);
            self.router.attend(place);
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    self.router.stop().await;
                    self.couriers.stop().await;
                    self.store_stop(&mut storing).await;
                    return Ok(());
                }
                Some(place) = self.news.recv() => {
                    // Posts that were held until the user wrote are now due.
                    self.couriers.wake(&place);
                    self.router.attend(place);
                }
                Some(ended) = receiving.join_next() => if let Ok((channel, fault)) = ended {
                    tracing::error!(channel, %fault, "the channel failed and is now disabled");
                    self.note_state(channel, ChannelState::Refused, Some(fault.to_string()));
                    if receiving.is_empty() {
                        self.store_stop(&mut storing).await;
                        return Err(Error::Channel { channel, fault });
                    }
                },
            }
        }
    }
}

impl Gateway {
    fn states(&self) -> Vec<Channel> {
        self.inbox.health().subscribe().borrow().values().cloned().collect()
    }

    fn note_state(&self, channel: &str, state: ChannelState, reason: Option<String>) {
        self.inbox.health().set(channel, state, reason, self.ledger.now());
    }

    /// Ends the task that stores the states, and stores that the gateway has stopped. A refused channel keeps its
    /// state.
    async fn store_stop(&self, storing: &mut AbortOnDropHandle<()>) {
        storing.abort();
        let _ = storing.await;
        let mut channels = self.states();
        for channel in channels.iter_mut().filter(|it| it.state != ChannelState::Refused) {
            (channel.state, channel.since, channel.reason) =
                (ChannelState::Stopped, Some(self.ledger.now()), None);
        }
        if let Err(error) = self.ledger.set_channels(channels).await {
            tracing::warn!(%error, "cannot store the states of the channels");
        }
    }
}

/// Users named in the settings, by channel.
fn allowed(settings: &Settings) -> BTreeMap<String, Vec<UserAccess>> {
    let Settings { telegram, slack, whatsapp, .. } = settings;
    let lists = [
        ("telegram", telegram.as_ref().map(|it| &it.allow)),
        ("slack", slack.as_ref().map(|it| &it.allow)),
        ("whatsapp", whatsapp.as_ref().map(|it| &it.allow)),
    ];
    let users = |list: &Vec<Allowed>| list.iter().map(Allowed::access).collect();
    lists.into_iter().filter_map(|(channel, list)| Some((channel.to_owned(), users(list?)))).collect()
}

fn adapters(settings: &Settings) -> Result<Vec<Arc<dyn Adapter>>, Error> {
    let mut adapters: Vec<Arc<dyn Adapter>> = Vec::new();
    let unusable = |channel| {
        move |fault| match fault {
            // No service was called yet.
            AdapterError::Refused(reason) => Error::Settings { channel, reason },
            fault => Error::Channel { channel, fault },
        }
    };
    if let Some(telegram) = &settings.telegram {
        adapters.push(Arc::new(Telegram::new(telegram).map_err(unusable("telegram"))?));
    }
    if let Some(slack) = &settings.slack {
        adapters.push(Arc::new(Slack::new(slack).map_err(unusable("slack"))?));
    }
    if let Some(whatsapp) = &settings.whatsapp {
        adapters.push(Arc::new(WhatsApp::new(whatsapp).map_err(unusable("whatsapp"))?));
    }
    if adapters.is_empty() { Err(Error::Nothing) } else { Ok(adapters) }
}

/// Listens for webhooks if a channel receives by webhook.
async fn listen(settings: &Settings, adapters: &[Arc<dyn Adapter>]) -> Result<Option<TcpListener>, Error> {
    let Some(called) = adapters.iter().find(|adapter| adapter.is_called()) else { return Ok(None) };
    let address = settings.listen.ok_or(Error::NoListener { channel: called.channel() })?;
    let listener = TcpListener::bind(address).await;
    listener.map(Some).map_err(|reason| Error::Listen { address, reason })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clock() -> Clock {
        Arc::new(|| 7)
    }

    async fn open(directory: &Path) -> Gateway {
        let settings = json!({ "telegram": { "token": "1:a", "api": "http://127.0.0.1:1" } });
        let settings = serde_json::from_value(settings).unwrap();
        let client = Client::new("http://127.0.0.1:1").unwrap();
        Gateway::open(&settings, client, directory, clock()).await.unwrap()
    }

    async fn state(directory: &Path) -> Option<(ChannelState, Option<i64>)> {
        let channels = channels(directory, clock()).await.unwrap();
        channels.first().map(|channel| (channel.state, channel.since))
    }

    #[tokio::test]
    async fn states_are_read_beside_a_gateway_and_do_not_outlive_it() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        assert_eq!(state(directory).await, None, "no gateway ever ran here");
        assert!(!ledger_path(directory).exists(), "reading creates nothing");
        let killed = open(directory).await;
        assert_eq!(state(directory).await, Some((ChannelState::Connecting, Some(7))));
        drop(killed);
        assert_eq!(state(directory).await, Some((ChannelState::Stopped, None)));
        let stopped = open(directory).await;
        let stop = CancellationToken::new();
        stop.cancel();
        stopped.run(stop).await.unwrap();
        assert_eq!(state(directory).await, Some((ChannelState::Stopped, Some(7))));
    }
}
