//! The gateway: adapters, router, couriers and the webhook listener around one ledger.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use client::{Client, Feed, Scope};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    Adapter, Fault, Inbox, Place, Settings,
    courier::Couriers,
    ledger::{self, Clock, Ledger},
    router::{Context, Router},
    settings::{Allowed, Person},
    slack::Slack,
    telegram::Telegram,
    webhook,
    whatsapp::WhatsApp,
};

/// File name of the ledger in the gateway's data directory.
const LEDGER: &str = "channels.db";
/// Directory for files from users that do not fit into a prompt.
const FILES: &str = "channels-files";

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
    Channel { channel: &'static str, fault: Fault },
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

impl Gateway {
    /// Opens the ledger in a directory and prepares everything. Makes no call to a chat service yet.
    pub async fn open(
        settings: &Settings,
        client: Client,
        directory: &Path,
        clock: Clock,
    ) -> Result<Self, Error> {
        let adapters = adapters(settings)?;
        if let (None, Some(directory)) = (&settings.server, &settings.directory)
            && !directory.is_dir()
        {
            tracing::warn!(directory = %directory.display(), "`channels.directory` does not exist on this machine");
        }
        let listener = listen(settings, &adapters).await?;
        let ledger = Arc::new(Ledger::open(&ledger_path(directory), clock)?);
        let (inbox, news) = Inbox::new(Arc::clone(&ledger));
        let couriers = Couriers::new(inbox.clone(), &adapters);
        let allow = allowed(settings);
        let has_guests = allow.values().any(|people| !people.is_empty());
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
        Ok(Self { inbox, news, adapters, router, couriers, ledger, listener, has_guests })
    }

    /// Address of the webhook listener, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Names of the configured channels.
    pub fn channels(&self) -> Vec<&'static str> {
        self.adapters.iter().map(|adapter| adapter.channel()).collect()
    }

    /// A pairing code for the first user; `None` if a user already has access.
    pub async fn first_code(&self) -> Result<Option<String>, Error> {
        if self.has_guests || !self.ledger.people().await?.is_empty() {
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
        for place in self.ledger.open_places().await? {
            self.couriers.wake(&place);
            self.router.attend(place);
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    self.router.stop().await;
                    self.couriers.stop().await;
                    return Ok(());
                }
                Some(place) = self.news.recv() => {
                    // Posts that were held until the user wrote are now due.
                    self.couriers.wake(&place);
                    self.router.attend(place);
                }
                Some(ended) = receiving.join_next() => if let Ok((channel, fault)) = ended {
                    tracing::error!(channel, %fault, "the channel failed and is now disabled");
                    if receiving.is_empty() {
                        return Err(Error::Channel { channel, fault });
                    }
                },
            }
        }
    }
}

/// Users named in the settings, by channel.
fn allowed(settings: &Settings) -> BTreeMap<String, Vec<Person>> {
    let Settings { telegram, slack, whatsapp, .. } = settings;
    let lists = [
        ("telegram", telegram.as_ref().map(|it| &it.allow)),
        ("slack", slack.as_ref().map(|it| &it.allow)),
        ("whatsapp", whatsapp.as_ref().map(|it| &it.allow)),
    ];
    let people = |list: &Vec<Allowed>| list.iter().map(Allowed::person).collect();
    lists.into_iter().filter_map(|(channel, list)| Some((channel.to_owned(), people(list?)))).collect()
}

fn adapters(settings: &Settings) -> Result<Vec<Arc<dyn Adapter>>, Error> {
    let mut adapters: Vec<Arc<dyn Adapter>> = Vec::new();
    let unusable = |channel| {
        move |fault| match fault {
            // No service was called yet.
            Fault::Refused(reason) => Error::Settings { channel, reason },
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
