//! MCP servers: programs and addresses that bring tools, resources and prompts along.
//!
//! [`Servers`] is a handle for one directory. A turn, a command or [`Servers::start`] connects to the servers; looking at
//! them does not, so that no call which only reads can start a program. Each connected server gets a task of its own, which connects, notices when the server dies or its tools change, and connects again. Nobody waits
//! for it longer than [`limits::MCP_PATIENCE`]: a turn goes on without the tools of a server that is not there.
//!
//! A server's program is started through [`workspace::process`], which ends it with everything it has started. It does
//! not inherit the keys of providers. What it says is material like any other: names, schemas and results are bounded,
//! and what is configured as its secret is kept out of errors.

mod client;
mod content;
mod error;
mod listing;
mod names;
mod open;
mod resources;
mod server;
mod tool;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all};
use protocol::config::Mcp;
use protocol::mcp::{McpResource, McpStatus, McpTarget};
use tokio::time::timeout;

use super::limits;
use super::tools::Tool;

use content::Template;
pub use content::{Argument, Content, Prompt};
pub use error::Error;

use client::Connected;
use server::Server;

/// The MCP servers of one directory. Cheap to clone; when the last clone is gone, so are the servers.
#[derive(Clone, Default)]
pub struct Servers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    settings: Arc<Settings>,
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
}

/// Is told the name of a server.
pub type Changed = Arc<dyn Fn(&str) + Send + Sync>;

/// What servers are connected with.
#[derive(Clone, Default)]
pub struct Settings {
    /// Where their programs are started.
    pub directory: PathBuf,
    /// Environment variables they do not inherit, such as the keys of providers.
    pub hidden: Vec<String>,
    /// How long they may take to answer, unless theirs say otherwise.
    pub timeout: Option<Duration>,
    /// Told the name of a server whose tools have changed.
    pub changed: Option<Changed>,
}

impl Settings {
    fn tell(&self, server: &str) {
        if let Some(changed) = &self.changed {
            changed(server);
        }
    }
}

impl Servers {
    /// The servers of a configuration. None is connected to yet.
    pub fn new(configured: &BTreeMap<String, Mcp>, settings: Settings) -> Self {
        let settings = Arc::new(settings);
        // A switch without a server comes from a layer that switches one of another directory.
        let servers = configured.iter().filter(|(_, config)| !matches!(config, Mcp::Switch(_)));
        let server = |(name, config)| (String::clone(name), Arc::new(Server::new(name, config, &settings)));
        let servers = Mutex::new(servers.map(server).collect());
        Self(Arc::new(Inner { settings, servers }))
    }

    /// Begins to connect to every server that is not switched off, in the background.
    pub fn start(&self) {
        for server in self.all() {
            server.start();
        }
    }

    /// Connects to every server that is not switched off, and waits a little for them.
    pub async fn ready(&self) {
        self.settle(limits::MCP_PATIENCE).await;
    }

    /// How it is with each. Waits a little for those that are connecting, and connects to none.
    pub async fn status(&self) -> BTreeMap<String, McpStatus> {
        self.wait(limits::MCP_PATIENCE).await;
        self.all().iter().map(|server| (server.name.clone(), server.status())).collect()
    }

    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.lock().contains_key(name)
    }

    /// Connects to a server, anew if it is connected already. How that went is its status.
    pub async fn connect(&self, name: &str) -> Result<(), Error> {
        self.find(name)?.connect().await;
        Ok(())
    }

    /// Lets go of a server until somebody connects to it by hand.
    pub async fn disconnect(&self, name: &str) -> Result<(), Error> {
        self.find(name)?.disconnect().await;
        Ok(())
    }

    /// Adds a server, in place of one with the same name, and connects to it unless it is switched off.
    pub async fn add(&self, name: &str, config: McpTarget) {
        let config = Mcp::from(config);
        let server = Arc::new(Server::new(name, &config, &self.0.settings));
        let before = self.lock().insert(name.to_owned(), Arc::clone(&server));
        if let Some(before) = before {
            before.disconnect().await;
        }
        if config.enabled() {
            server.connect().await;
        }
    }

    /// What there is to read, from every server that is connected.
    pub async fn resources(&self) -> Vec<McpResource> {
        self.wait(limits::MCP_PATIENCE).await;
        self.gather(|connected| async move { connected.resources().await }.boxed()).await
    }

    /// Patterns of addresses that can be read, from every server.
    async fn templates(&self) -> Vec<Template> {
        self.settle(limits::MCP_PATIENCE).await;
        self.gather(|connected| async move { connected.templates().await }.boxed()).await
    }

    /// Reads a resource of a server.
    pub async fn read(&self, server: &str, uri: &str) -> Result<Vec<Content>, Error> {
        self.connected(server).await?.read(uri).await
    }

    /// The prompts there are, from every server that is connected.
    pub async fn prompts(&self) -> Vec<Prompt> {
        self.wait(limits::MCP_PATIENCE).await;
        self.gather(|connected| async move { connected.prompts().await }.boxed()).await
    }

    /// What a prompt says.
    pub async fn prompt(
        &self,
        prompt: &Prompt,
        arguments: &BTreeMap<String, String>,
    ) -> Result<Vec<Content>, Error> {
        self.connected(&prompt.server).await?.prompt(prompt, arguments).await
    }

    /// Lets go of every server and waits until its program is gone.
    pub async fn close(&self) {
        join_all(self.all().iter().map(|server| server.disconnect())).await;
    }

    /// Connects to servers that nobody has needed yet and waits for those that are connecting. Who is not done by then?
    pub(super) async fn settle(&self, patience: Duration) -> Vec<String> {
        self.start();
        self.wait(patience).await;
        let servers = self.all();
        let late = servers.iter().filter(|server| server.is_connecting());
        late.map(|server| server.name.clone()).collect()
    }

    /// Waits for servers that are connecting.
    async fn wait(&self, patience: Duration) {
        let servers = self.all();
        let settled = join_all(servers.iter().map(|server| server.settled()));
        // A server that is late is left out.
        let _ = timeout(patience, settled).await;
    }

    /// The tools of the servers that are connected, those for resources included.
    pub(super) fn tools(&self) -> Vec<Box<dyn Tool>> {
        let connected = self.present();
        let mut tools = tool::all(&connected);
        if connected.iter().any(|connected| connected.has_resources()) {
            tools.extend(resources::all(self));
        }
        tools
    }

    /// What connected servers want models to know, by server.
    pub(super) fn instructions(&self) -> Vec<(String, String)> {
        let wanted = |connected: &Arc<Connected>| Some((connected.server.clone(), connected.instructions()?));
        self.present().iter().filter_map(wanted).collect()
    }

    /// Everything of one kind, server by server. One that does not answer has nothing.
    async fn gather<T>(
        &self,
        list: impl Fn(Arc<Connected>) -> BoxFuture<'static, Result<Vec<T>, Error>>,
    ) -> Vec<T> {
        let lists = self.present().into_iter().map(list);
        let told = |error: Error| tracing::warn!(%error, "an MCP server cannot be asked");
        let lists = join_all(lists).await.into_iter();
        lists.filter_map(|list| list.map_err(told).ok()).flatten().collect()
    }

    /// The servers that are connected.
    fn present(&self) -> Vec<Arc<Connected>> {
        self.all().iter().filter_map(|server| server.connected()).collect()
    }

    /// A server that can be asked something now.
    pub(super) async fn connected(&self, name: &str) -> Result<Arc<Connected>, Error> {
        let server = self.find(name)?;
        server.start();
        let _ = timeout(limits::MCP_PATIENCE, server.settled()).await;
        server.connected().ok_or_else(|| Error::absent(name, &server.status()))
    }

    fn find(&self, name: &str) -> Result<Arc<Server>, Error> {
        self.lock().get(name).cloned().ok_or_else(|| Error::Unknown(name.to_owned()))
    }

    fn all(&self) -> Vec<Arc<Server>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Server>>> {
        self.0.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Servers").field(&self.lock().keys().collect::<Vec<_>>()).finish()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Settings")
            .field("directory", &self.directory)
            .field("hidden", &self.hidden)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
