//! `baton channels`: the chat gateway for a running server, and the management of its users.

use std::path::Path;

use channels::{
    AdapterError, Settings,
    gateway::{self, Gateway, ledger_path},
    health,
    ledger::{CODE_LIFE, Ledger, Roles},
};
use client::{Client, Password};
use store::files::{self, Environment, Loaded, Places};
use tokio_util::sync::CancellationToken;

use crate::{
    args::{Channels, ChannelsAction, ChannelsStatus, Pair, Unpair},
    environment,
    exit::{Exit, Failure},
    logging,
    signals::Signals,
    terminal, wiring,
};

/// Hint to errors about the settings.
const SETUP: &str = "`baton channels --help` shows an example";

/// Runs the gateway or one of the management commands.
pub(crate) async fn channels(options: Channels) -> Result<Exit, Failure> {
    let places = wiring::places_in(options.data_dir.as_deref())?;
    match &options.action {
        None => run(&options, &places).await,
        Some(ChannelsAction::Status(status)) => self::status(&places, *status).await,
        Some(ChannelsAction::Pair(pair)) => self::pair(&places, pair).await,
        Some(ChannelsAction::People) => users(&places).await,
        Some(ChannelsAction::Unpair(unpair)) => self::unpair(&places, unpair).await,
        Some(ChannelsAction::Aside) => aside(&places).await,
    }
}

async fn run(options: &Channels, places: &Places) -> Result<Exit, Failure> {
    let mut signals = Signals::catch();
    logging::start(&logging::Target::Terminal, options.log_level);
    let configured = configured()?;
    for warning in &configured.loaded.warnings {
        tracing::warn!("{warning}");
    }
    let named = options.attach.as_deref().or(configured.server());
    let address = named.map(str::to_owned).or_else(|| wiring::address(places)).ok_or_else(|| {
        Failure::usage("there is no server to talk to")
            .hint("start one with `baton serve`, or both in one process with `baton serve --channels`")
            .hint("or name a server with --attach URL or `channels.server` in the configuration")
    })?;
    let gateway = open(&configured, &address, places, named.is_none()).await?;
    tell(&gateway, &address);
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move {
        signals.next().await;
        stopping.cancel();
    });
    gateway.run(stop).await.map_err(unusable)?;
    Ok(Exit::Completed)
}

/// A service that refuses the token refuses it again, so the user has to correct the configuration.
fn unusable(error: gateway::Error) -> Failure {
    match error {
        gateway::Error::Channel { fault: AdapterError::Refused(_), .. } => {
            Failure::usage(error.to_string()).hint(SETUP)
        }
        error => Failure::error(error.to_string()),
    }
}

/// Opens a gateway for the server at `address`. If the server is on this machine, the directory must exist.
pub(crate) async fn open(
    configured: &Configured,
    address: &str,
    places: &Places,
    is_local: bool,
) -> Result<Gateway, Failure> {
    let settings = &configured.settings;
    if let Some(directory) = settings.directory.as_deref().filter(|directory| !directory.is_dir()) {
        let message = format!("there is no directory {} on this machine", directory.display());
        let failure = configured.refuse("/directory", &message);
        if is_local {
            return Err(failure);
        }
        tracing::warn!("{failure}");
    }
    let client = client(settings, address)?;
    let gateway = Gateway::open(settings, client, &places.data, wiring::clock()).await;
    let gateway = gateway.map_err(|error| match error {
        gateway::Error::Settings { channel, reason } => configured.refuse(&format!("/{channel}"), &reason),
        error => Failure::usage(error.to_string()).hint(SETUP),
    })?;
    if let Some(code) = gateway.first_code().await.map_err(|error| Failure::error(error.to_string()))? {
        terminal::note(&format!(
            "No chat user is paired yet. To pair yourself, send `/pair {code}` to the bot within the hour."
        ));
    }
    Ok(gateway)
}

/// Runs a gateway beside the server. Its failure is logged and does not end the server.
pub(crate) async fn attend(gateway: Gateway, stop: CancellationToken) {
    if let Err(error) = gateway.run(stop).await {
        tracing::error!(%error, "the chat gateway stopped");
    }
}

/// Prints the channels and their webhook address to standard output.
pub(crate) fn tell(gateway: &Gateway, address: &str) {
    let channels = gateway.channels().join(", ");
    let webhooks =
        gateway.address().map(|address| format!(", webhooks on http://{address}")).unwrap_or_default();
    let line = format!("baton channels: {channels} for {address}{webhooks}");
    if let Err(error) = terminal::line(&line) {
        tracing::warn!(%error, "cannot print the list of channels");
    }
}

/// The channel settings of the user, and the files that they come from.
pub(crate) struct Configured {
    settings: Settings,
    environment: Environment,
    loaded: Loaded,
}

impl Configured {
    /// Address of the configured server.
    pub(crate) fn server(&self) -> Option<&str> {
        self.settings.server.as_deref()
    }

    /// Refuses a setting. `pointer` is a JSON pointer below `channels`.
    fn refuse(&self, pointer: &str, message: &str) -> Failure {
        refuse(&self.environment, &self.loaded, pointer, message)
    }
}

fn refuse(environment: &Environment, loaded: &Loaded, pointer: &str, message: &str) -> Failure {
    let problem = files::locate(environment, loaded, &format!("/channels{pointer}"), message);
    Failure::usage(problem.to_string()).hint(SETUP)
}

/// Reads the channel settings of the user's own configuration. Those of a project are ignored, because a project is not
/// trusted to open chats.
pub(crate) fn configured() -> Result<Configured, Failure> {
    let environment = Environment::capture();
    let loaded = files::load_user(&environment).map_err(|invalid| Failure::usage(invalid.to_string()))?;
    let Some(channels) = &loaded.config.channels else {
        return Err(Failure::usage("no channel is configured")
            .hint("add one under `channels` in the user's own baton.json")
            .hint(SETUP));
    };
    let channels = channels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let settings = Settings::parse(&channels)
        .map_err(|mistake| refuse(&environment, &loaded, &mistake.pointer, &mistake.message))?;
    Ok(Configured { settings, environment, loaded })
}

fn client(settings: &Settings, address: &str) -> Result<Client, Failure> {
    let client = match &settings.password {
        None => environment::client(address)?,
        Some(password) => {
            let client = Client::new(address).map_err(|error| Failure::usage(error.to_string()))?;
            let user = settings.username.clone().unwrap_or_else(|| environment::DEFAULT_USER.to_owned());
            client.with_login(user, Password::new(password.reveal()))
        }
    };
    let directory = match &settings.directory {
        Some(directory) => directory.clone(),
        None => std::env::current_dir()
            .map_err(|error| Failure::usage(format!("cannot use the current directory: {error}")))?,
    };
    let shown = directory.to_str().ok_or_else(|| Failure::usage("the directory's name is not UTF-8"))?;
    Ok(client.in_directory(shown))
}

fn visit(data: &Path) -> Result<Ledger, Failure> {
    let path = ledger_path(data);
    std::fs::create_dir_all(data)
        .map_err(|error| Failure::usage(format!("cannot use {}: {error}", data.display())))?;
    Ledger::visit(&path, wiring::clock()).map_err(|error| broken(&error))
}

fn broken(error: &channels::ledger::Error) -> Failure {
    Failure::error(error.to_string())
}

fn say(text: &str) -> Result<Exit, Failure> {
    terminal::line(text).map_err(|error| Failure::error(error.to_string()))?;
    Ok(Exit::Completed)
}

async fn status(places: &Places, options: ChannelsStatus) -> Result<Exit, Failure> {
    let channels = gateway::channels(&places.data, wiring::clock()).await;
    let channels = channels.map_err(|error| Failure::error(error.to_string()))?;
    if channels.is_empty() {
        terminal::note(
            "No gateway has run with this data directory yet. `baton channels` or `baton serve --channels` starts one.",
        );
    }
    let now = wiring::clock()();
    for channel in &channels {
        if options.json {
            say(&serde_json::json!(channel).to_string())?;
        } else {
            say(&format!("{}\t{}", channel.name, health::describe(channel, now)))?;
        }
    }
    Ok(Exit::Completed)
}

async fn pair(places: &Places, options: &Pair) -> Result<Exit, Failure> {
    let code = visit(&places.data)?.new_code(!options.no_approve).await.map_err(|error| broken(&error))?;
    let minutes = CODE_LIFE / 60_000;
    terminal::note(&format!("Send `/pair {code}` to the bot within {minutes} minutes. It works once."));
    say(&code)
}

async fn users(places: &Places) -> Result<Exit, Failure> {
    let users = visit(&places.data)?.users().await.map_err(|error| broken(&error))?;
    if users.is_empty() {
        terminal::note("No chat user was paired with a code. `baton channels pair` creates one.");
    }
    for (channel, person, roles) in users {
        let may = match roles {
            Roles { approve: true, .. } => "may prompt and approve",
            Roles { .. } => "may prompt",
        };
        say(&format!("{channel}\t{}\t{}\t{may}", person.id, person.name))?;
    }
    Ok(Exit::Completed)
}

async fn unpair(places: &Places, options: &Unpair) -> Result<Exit, Failure> {
    let Unpair { channel, id } = options;
    if visit(&places.data)?.unpair(channel, id).await.map_err(|error| broken(&error))? {
        say(&format!("removed {id} from {channel}"))
    } else {
        Err(Failure::usage(format!("{id} was not paired through {channel}")).hint(
            "`baton channels people` lists paired users; remove users named in the configuration there",
        ))
    }
}

async fn aside(places: &Places) -> Result<Exit, Failure> {
    for kept in visit(&places.data)?.aside().await.map_err(|error| broken(&error))? {
        let said = match kept.update.content {
            channels::Content::Message { text, .. } => text,
            _ => String::new(),
        };
        let line = serde_json::json!({
            "place": kept.update.place.to_string(), "received": kept.received, "text": said,
        });
        say(&line.to_string())?;
    }
    Ok(Exit::Completed)
}
