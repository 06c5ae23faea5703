//! Connects to a server.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use net::chain;
use protocol::config::{Mcp, McpLocal, McpRemote};
use protocol::mcp::McpStatus;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{
    ClientInitializeError, NotificationContext, RoleClient, RunningService, RunningServiceCancellationToken,
};
use rmcp::transport::IntoTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ClientHandler, ServiceExt};
use tokio::sync::Notify;
use tokio::time::timeout;
use workspace::process::{self, Bounds, Companion, Exit, Pipes, Spec};

use super::connection::{Connection, transport_error};
use super::error::{span, without_secrets};
use super::{Error, Settings};
use crate::limits;

/// The client name that servers receive.
const NAME: &str = "baton";

/// The kept part of a program's standard error: its beginning and its end.
const STDERR_KEPT: Bounds = Bounds { head: 2 * 1024, tail: 6 * 1024 };

/// Characters from the end of a program's standard error that a failure message includes.
const STDERR_SHOWN: usize = 1_000;

/// Time for a silent program to exit, so that a failure message can include its output.
const EXIT_WAIT: Duration = Duration::from_millis(200);

/// The most redirects that a connection follows.
const MAX_REDIRECTS: usize = 5;

/// The configuration of a connection.
#[derive(Debug, Clone)]
pub(super) struct ConnectionConfig {
    pub(super) name: String,
    pub(super) server: Arc<Mcp>,
    pub(super) settings: Arc<Settings>,
}

/// A connection that lasts until one side closes it.
pub(super) struct LiveConnection {
    pub(super) connection: Arc<Connection>,
    /// Notified when the server reports that its tools have changed.
    pub(super) changes: Arc<Notify>,
    closing: RunningServiceCancellationToken,
    closed: BoxFuture<'static, ()>,
    companion: Option<Companion>,
    server: Arc<Mcp>,
}

/// Handles the notifications of a server.
struct NotificationHandler {
    changes: Arc<Notify>,
}

impl ClientHandler for NotificationHandler {
    fn on_tool_list_changed(
        &self,
        _: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.changes.notify_one();
        std::future::ready(())
    }

    fn get_info(&self) -> ClientConfig {
        let who = Implementation::new(NAME, env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), who)
    }
}

/// Connects, initialises and reads the list of tools. Returns the server's status if that fails.
pub(super) async fn connect(config: &ConnectionConfig) -> Result<LiveConnection, McpStatus> {
    match config.server.as_ref() {
        Mcp::Local(local) => connect_local(config, local).await,
        Mcp::Remote(remote) => connect_remote(config, remote).await,
        Mcp::Switch(_) => Err(McpStatus::Disabled),
    }
}

impl ConnectionConfig {
    /// Returns the timeout for answers of the server.
    fn limit(&self) -> Duration {
        let written = match self.server.as_ref() {
            Mcp::Local(local) => local.timeout,
            Mcp::Remote(remote) => remote.timeout,
            Mcp::Switch(_) => None,
        };
        let written = written.map(|millis| Duration::from_millis(millis.get()));
        written.or(self.settings.timeout).unwrap_or(limits::MCP_ANSWER)
    }

    fn failed(&self, error: impl Into<String>) -> McpStatus {
        McpStatus::Failed { error: without_secrets(&self.server, error.into()) }
    }
}

/// Starts the server's program and talks to it through its pipes.
async fn connect_local(config: &ConnectionConfig, local: &McpLocal) -> Result<LiveConnection, McpStatus> {
    let spec = spec(config, local).ok_or_else(|| config.failed("its `command` is empty"))?;
    let (mut companion, Pipes { input, output }) =
        process::start(&spec).map_err(|error| config.failed(error.to_string()))?;
    let result = tokio::select! {
        result = initialise(config, AsyncRwTransport::new_client(output, input)) => result,
        exit = companion.wait() => Err(config.failed(exit_reason(exit))),
    };
    match result {
        Ok(live) => Ok(LiveConnection { companion: Some(companion), ..live }),
        Err(status) => {
            let exit = timeout(EXIT_WAIT, companion.wait()).await;
            let status = match (status, exit) {
                (McpStatus::Failed { .. }, Ok(exit)) => {
                    config.failed(with_stderr(&exit_reason(exit), &companion))
                }
                (McpStatus::Failed { error }, Err(_)) => config.failed(with_stderr(&error, &companion)),
                (status, _) => status,
            };
            companion.stop().await;
            Err(status)
        }
    }
}

fn spec(config: &ConnectionConfig, local: &McpLocal) -> Option<Spec> {
    let (program, arguments) = local.command.split_first()?;
    let directory = config.settings.directory.join(local.cwd.as_deref().map_or(Path::new(""), Path::new));
    let mut spec = Spec::new(program, directory, Duration::MAX).args(arguments).hide(&config.settings.hidden);
    spec.environment = local.environment.0.iter().map(|(name, value)| (name.into(), value.into())).collect();
    spec.bounds = STDERR_KEPT;
    Some(spec)
}

/// Connects to a remote server.
async fn connect_remote(config: &ConnectionConfig, remote: &McpRemote) -> Result<LiveConnection, McpStatus> {
    let client = client(config.limit()).map_err(|error| config.failed(error))?;
    let headers = headers(remote).map_err(|error| config.failed(error))?;
    let http = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str()).custom_headers(headers);
    initialise(config, StreamableHttpClientTransport::with_client(client, http)).await
}

fn client(limit: Duration) -> Result<reqwest::Client, String> {
    // Requests carry headers with keys, so a redirect must stay on the same origin.
    let same_origin = redirect::Policy::custom(|attempt| {
        let first = attempt.previous().first().map(reqwest::Url::origin);
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else if first == Some(attempt.url().origin()) {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    reqwest::Client::builder()
        .tls_backend_preconfigured(net::tls::config().map_err(|error| error.to_string())?)
        .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
        .redirect(same_origin)
        .connect_timeout(limit)
        .build()
        .map_err(|error| chain(&error))
}

fn headers(remote: &McpRemote) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): (&String, &String)| {
        let wrong = |what| format!("its header {name:?} has {what} that is not valid in HTTP");
        let parsed = HeaderName::try_from(name).map_err(|_| wrong("a name"))?;
        let mut value = HeaderValue::try_from(value).map_err(|_| wrong("a value"))?;
        value.set_sensitive(true);
        Ok((parsed, value))
    };
    remote.headers.0.iter().map(header).collect()
}

async fn initialise<T, E, A>(config: &ConnectionConfig, transport: T) -> Result<LiveConnection, McpStatus>
where
    T: IntoTransport<RoleClient, E, A>,
    E: StdError + Send + Sync + 'static,
{
    let (changes, limit) = (Arc::new(Notify::new()), config.limit());
    let handler = NotificationHandler { changes: Arc::clone(&changes) };
    let initialising = async {
        let service = handler.serve(transport).await.map_err(|error| initialise_error(config, &error))?;
        let connection = Connection::new(&config.name, &config.server, service.peer().clone(), limit);
        connection.refresh().await.map_err(|error| config.failed(error.to_string()))?;
        Ok((service, connection))
    };
    let slow = || Error::Slow { server: config.name.clone(), limit }.to_string();
    let (service, connection) = timeout(limit, initialising).await.map_err(|_| config.failed(slow()))??;
    let closing = service.cancellation_token();
    Ok(LiveConnection {
        connection: Arc::new(connection),
        changes,
        closing,
        closed: closed(service),
        companion: None,
        server: Arc::clone(&config.server),
    })
}

fn closed(service: RunningService<RoleClient, NotificationHandler>) -> BoxFuture<'static, ()> {
    async move {
        let _ = service.waiting().await;
    }
    .boxed()
}

/// Returns the status for a failed initialisation.
fn initialise_error(config: &ConnectionConfig, error: &ClientInitializeError) -> McpStatus {
    let why = match error {
        ClientInitializeError::TransportError { error, .. } => transport_error(error),
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        other => chain(other),
    };
    if !error.is_authorization_required() && !is_unauthorized(error) {
        return config.failed(why);
    }
    let hint = "it requires a login, which Baton does not support yet; put a token into its `headers`";
    McpStatus::NeedsAuth { error: Some(hint.to_owned()) }
}

/// Returns true if the server answered with 401 and did not say how to log in.
fn is_unauthorized(error: &ClientInitializeError) -> bool {
    let ClientInitializeError::TransportError { error, .. } = error else { return false };
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::UnexpectedServerResponse(text)) => text.starts_with("HTTP 401"),
        _ => false,
    }
}

impl LiveConnection {
    /// Waits for the server to end the connection, and returns the reason as far as it is known.
    pub(super) async fn wait_closed(&mut self) -> String {
        let Some(companion) = &mut self.companion else {
            (&mut self.closed).await;
            return "it closed the connection".to_owned();
        };
        let exit = tokio::select! {
            exit = companion.wait() => Some(exit),
            () = &mut self.closed => timeout(EXIT_WAIT, companion.wait()).await.ok(),
        };
        let why = exit.map_or_else(|| "it closed the connection".to_owned(), exit_reason);
        without_secrets(&self.server, with_stderr(&why, companion))
    }

    /// Closes the connection and ends the program with all its child processes.
    pub(super) async fn close(self) {
        self.closing.cancel();
        let _ = timeout(limits::MCP_CLOSE, self.closed).await;
        if let Some(companion) = self.companion {
            companion.stop().await;
        }
    }

    /// Ends the program after its connection has ended.
    pub(super) async fn stop_program(self) {
        if let Some(companion) = self.companion {
            companion.stop().await;
        }
    }
}

fn exit_reason(exit: Result<Exit, process::Error>) -> String {
    match exit {
        Ok(Exit::Code(code)) => format!("its program ended with code {code}"),
        Ok(Exit::Signal(signal)) => format!("its program was killed by signal {signal}"),
        Ok(Exit::DeadlinePassed | Exit::Cancelled) => "its program was stopped".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn with_stderr(why: &str, companion: &Companion) -> String {
    let words = companion.errors().tail_text(STDERR_SHOWN);
    let words = words.trim();
    if words.is_empty() { why.to_owned() } else { format!("{why}; it wrote: {words}") }
}

/// Returns the delay before the next reconnect.
pub(super) fn reconnect_delay(losses: u32) -> Duration {
    limits::MCP_BACKOFF.saturating_mul(1 << losses.saturating_sub(1).min(6))
}

/// Returns the status during that delay.
pub(super) fn reconnecting(why: &str, pause: Duration) -> McpStatus {
    McpStatus::Failed { error: format!("{why}; reconnecting in {}", span(pause)) }
}
