//! MCP servers: local programs and remote servers that provide tools, resources and prompts.
//!
//! [`Servers`] is a handle for one directory. A turn, a command or [`Servers::start`] connects to the servers.
//! Reading their state does not, so that no call which only reads can start a program. Each connected server has a
//! task of its own, which connects, notices when the server dies or its tools change, and reconnects. No caller
//! waits longer for it than [`limits::MCP_WAIT`]: a turn goes on without the tools of a server that is not
//! connected.
//!
//! A server's program is started through [`workspace::process`], which ends it with all its child processes. It
//! does not inherit the keys of providers. Its output is untrusted: names, schemas and results are bounded, and
//! configured secrets are kept out of errors.

mod connect;
mod connection;
mod content;
mod error;
mod listing;
mod names;
mod server;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all};
use parking_lot::Mutex;
use protocol::config::Mcp;
use protocol::mcp::{McpResource, McpStatus, McpTarget};
use tokio::time::timeout;

use super::limits;

pub use connection::{Connection, ToolDescription};
pub use content::{Argument, CallOutput, Content, Prompt, Template};
pub use error::Error;
pub use names::id;

use server::Server;

/// The MCP servers of one directory. Cheap to clone; dropping the last clone disconnects them.
#[derive(Clone, Default)]
pub struct Servers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    settings: Arc<Settings>,
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
}

/// A callback that receives the name of a server.
pub type Changed = Arc<dyn Fn(&str) + Send + Sync>;

/// A callback that receives the name of a server and the reason why it is not available.
pub type Failed = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Settings for connecting to servers.
#[derive(Clone, Default)]
pub struct Settings {
    /// The working directory of their programs.
    pub directory: PathBuf,
    /// Environment variables they do not inherit, such as the keys of providers.
    pub hidden: Vec<String>,
    /// The timeout for answers of servers that configure none.
    pub timeout: Option<Duration>,
    /// Called with the name of a server whose tools have changed.
    pub changed: Option<Changed>,
    /// Called when connecting to a server has failed and is not tried again.
    pub failed: Option<Failed>,
}

impl Settings {
    fn notify_changed(&self, server: &str) {
        if let Some(changed) = &self.changed {
            changed(server);
        }
    }

    fn notify_failed(&self, server: &str, status: &McpStatus) {
        if let (Some(failed), Some(why)) = (&self.failed, status.failure()) {
            failed(server, why);
        }
    }
}

impl Servers {
    /// Creates the servers of a configuration without connecting to them.
    pub fn new(configured: &BTreeMap<String, Mcp>, settings: Settings) -> Self {
        let settings = Arc::new(settings);
        // A switch without a server is meant for a server of another directory.
        let servers = configured.iter().filter(|(_, config)| !matches!(config, Mcp::Switch(_)));
        let server = |(name, config)| (String::clone(name), Arc::new(Server::new(name, config, &settings)));
        let servers = Mutex::new(servers.map(server).collect());
        Self(Arc::new(Inner { settings, servers }))
    }

    /// Starts to connect to every enabled server, in the background.
    pub fn start(&self) {
        for server in self.all() {
            server.start();
        }
    }

    /// Connects to every enabled server, and waits for up to [`limits::MCP_WAIT`].
    pub async fn ready(&self) {
        self.connect_within(limits::MCP_WAIT).await;
    }

    /// Returns the status of each server. Waits briefly for those that are connecting, and connects to none.
    pub async fn status(&self) -> BTreeMap<String, McpStatus> {
        self.wait(limits::MCP_WAIT).await;
        self.all().iter().map(|server| (server.name.clone(), server.status())).collect()
    }

    /// Returns the reason for each enabled server that is not available, without waiting for those that are
    /// connecting.
    pub fn failures(&self) -> BTreeMap<String, String> {
        let servers = self.all();
        let settled = servers.iter().filter(|server| !server.is_connecting());
        let failed = settled.filter_map(|server| {
            let status = server.status();
            Some((server.name.clone(), status.failure()?.to_owned()))
        });
        failed.collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.servers.lock().contains_key(name)
    }

    /// Connects to a server, or reconnects if it is connected. Its status tells the result.
    pub async fn connect(&self, name: &str) -> Result<(), Error> {
        self.find(name)?.connect().await;
        Ok(())
    }

    /// Disconnects a server until a client connects it again.
    pub async fn disconnect(&self, name: &str) -> Result<(), Error> {
        self.find(name)?.disconnect().await;
        Ok(())
    }

    /// Adds a server, or replaces the one with the same name, and connects to it if it is enabled.
    pub async fn add(&self, name: &str, config: McpTarget) {
        let config = Mcp::from(config);
        let server = Arc::new(Server::new(name, &config, &self.0.settings));
        let before = self.0.servers.lock().insert(name.to_owned(), Arc::clone(&server));
        if let Some(before) = before {
            before.disconnect().await;
        }
        if config.enabled() {
            server.connect().await;
        }
    }

    /// Lists the resources of all connected servers.
    pub async fn resources(&self) -> Vec<McpResource> {
        self.wait(limits::MCP_WAIT).await;
        self.gather(|connection| async move { connection.resources().await }.boxed()).await
    }

    /// Lists the resource templates of all servers.
    pub async fn templates(&self) -> Vec<Template> {
        self.connect_within(limits::MCP_WAIT).await;
        self.gather(|connection| async move { connection.templates().await }.boxed()).await
    }

    /// Reads a resource of a server.
    pub async fn read(&self, server: &str, uri: &str) -> Result<Vec<Content>, Error> {
        self.connection(server).await?.read(uri).await
    }

    /// Lists the prompts of all connected servers.
    pub async fn prompts(&self) -> Vec<Prompt> {
        self.wait(limits::MCP_WAIT).await;
        self.gather(|connection| async move { connection.prompts().await }.boxed()).await
    }

    /// Gets the contents of a prompt.
    pub async fn prompt(
        &self,
        prompt: &Prompt,
        arguments: &BTreeMap<String, String>,
    ) -> Result<Vec<Content>, Error> {
        self.connection(&prompt.server).await?.prompt(prompt, arguments).await
    }

    /// Disconnects every server and waits until its program has exited.
    pub async fn close(&self) {
        join_all(self.all().iter().map(|server| server.disconnect())).await;
    }

    /// Connects to servers that are not connected yet and waits for those that are connecting. Returns the names of
    /// the servers that are still connecting after `limit`.
    pub async fn connect_within(&self, limit: Duration) -> Vec<String> {
        self.start();
        self.wait(limit).await;
        let servers = self.all();
        let late = servers.iter().filter(|server| server.is_connecting());
        late.map(|server| server.name.clone()).collect()
    }

    /// Waits for servers that are connecting.
    async fn wait(&self, limit: Duration) {
        let servers = self.all();
        let settled = join_all(servers.iter().map(|server| server.settled()));
        // The caller goes on without the servers that are late.
        let _ = timeout(limit, settled).await;
    }

    /// Returns the instructions of connected servers for models, by server name.
    pub fn instructions(&self) -> Vec<(String, String)> {
        let wanted =
            |connection: &Arc<Connection>| Some((connection.server.clone(), connection.instructions()?));
        self.connections().iter().filter_map(wanted).collect()
    }

    /// Collects a list from every connected server. A server that fails contributes nothing.
    async fn gather<T>(
        &self,
        list: impl Fn(Arc<Connection>) -> BoxFuture<'static, Result<Vec<T>, Error>>,
    ) -> Vec<T> {
        let lists = self.connections().into_iter().map(list);
        let log = |error: Error| tracing::warn!(%error, "an MCP server failed to answer");
        let lists = join_all(lists).await.into_iter();
        lists.filter_map(|list| list.map_err(log).ok()).flatten().collect()
    }

    /// Returns the servers that are connected now.
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        self.all().iter().filter_map(|server| server.connection()).collect()
    }

    /// Connects to a server if necessary. Fails if it is not connected in time.
    pub async fn connection(&self, name: &str) -> Result<Arc<Connection>, Error> {
        let server = self.find(name)?;
        server.start();
        let _ = timeout(limits::MCP_WAIT, server.settled()).await;
        server.connection().ok_or_else(|| Error::absent(name, &server.status()))
    }

    fn find(&self, name: &str) -> Result<Arc<Server>, Error> {
        self.0.servers.lock().get(name).cloned().ok_or_else(|| Error::Unknown(name.to_owned()))
    }

    fn all(&self) -> Vec<Arc<Server>> {
        self.0.servers.lock().values().cloned().collect()
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Servers").field(&self.0.servers.lock().keys().collect::<Vec<_>>()).finish()
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
