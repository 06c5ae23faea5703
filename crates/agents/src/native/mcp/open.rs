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

use super::client::{Connected, lost};
use super::error::{span, without_secrets};
use super::{Error, Settings};
use crate::native::limits;

/// The client name that servers receive.
const NAME: &str = "baton";

/// The kept part of a program's standard error: its beginning and its end.
const KEPT: Bounds = Bounds { head: 2 * 1024, tail: 6 * 1024 };

/// Characters from the end of a program's standard error that a failure message includes.
const LAST_WORDS: usize = 1_000;

/// Time for a silent program to exit, so that a failure message can include its output.
const LAST_BREATH: Duration = Duration::from_millis(200);

/// The most redirects that a connection follows.
const MAX_HOPS: usize = 5;

/// The configuration of a connection.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) name: String,
    pub(super) config: Arc<Mcp>,
    pub(super) settings: Arc<Settings>,
}

/// A connection that lasts until one side closes it.
pub(super) struct Open {
    pub(super) connected: Arc<Connected>,
    /// Notified when the server reports that its tools have changed.
    pub(super) changes: Arc<Notify>,
    closing: RunningServiceCancellationToken,
    closed: BoxFuture<'static, ()>,
    companion: Option<Companion>,
    config: Arc<Mcp>,
}

/// Handles the notifications of a server.
struct Listener {
    changes: Arc<Notify>,
}

impl ClientHandler for Listener {
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
pub(super) async fn open(setup: &Setup) -> Result<Open, McpStatus> {
    match setup.config.as_ref() {
        Mcp::Local(local) => start(setup, local).await,
        Mcp::Remote(remote) => call(setup, remote).await,
        Mcp::Switch(_) => Err(McpStatus::Disabled),
    }
}

impl Setup {
    /// Returns the timeout for answers of the server.
    fn limit(&self) -> Duration {
        let written = match self.config.as_ref() {
            Mcp::Local(local) => local.timeout,
            Mcp::Remote(remote) => remote.timeout,
            Mcp::Switch(_) => None,
        };
        let written = written.map(|millis| Duration::from_millis(millis.get()));
        written.or(self.settings.timeout).unwrap_or(limits::MCP_ANSWER)
    }

    fn failed(&self, error: impl Into<String>) -> McpStatus {
        McpStatus::Failed { error: without_secrets(&self.config, error.into()) }
    }
}

/// Starts the server's program and talks to it through its pipes.
async fn start(setup: &Setup, local: &McpLocal) -> Result<Open, McpStatus> {
    let spec = spec(setup, local).ok_or_else(|| setup.failed("its `command` is empty"))?;
    let (mut companion, Pipes { input, output }) =
        process::start(&spec).map_err(|error| setup.failed(error.to_string()))?;
    let greeted = tokio::select! {
        greeted = greet(setup, AsyncRwTransport::new_client(output, input)) => greeted,
        exit = companion.wait() => Err(setup.failed(ended(exit))),
    };
    match greeted {
        Ok(open) => Ok(Open { companion: Some(companion), ..open }),
        Err(status) => {
            let exit = timeout(LAST_BREATH, companion.wait()).await;
            let status = match (status, exit) {
                (McpStatus::Failed { .. }, Ok(exit)) => setup.failed(last_words(&ended(exit), &companion)),
                (McpStatus::Failed { error }, Err(_)) => setup.failed(last_words(&error, &companion)),
                (status, _) => status,
            };
            companion.stop().await;
            Err(status)
        }
    }
}

fn spec(setup: &Setup, local: &McpLocal) -> Option<Spec> {
    let (program, arguments) = local.command.split_first()?;
    let directory = setup.settings.directory.join(local.cwd.as_deref().map_or(Path::new(""), Path::new));
    let mut spec = Spec::new(program, directory, Duration::MAX).args(arguments).hide(&setup.settings.hidden);
    spec.environment = local.environment.0.iter().map(|(name, value)| (name.into(), value.into())).collect();
    spec.bounds = KEPT;
    Some(spec)
}

/// Connects to a remote server.
async fn call(setup: &Setup, remote: &McpRemote) -> Result<Open, McpStatus> {
    let client = client(setup.limit()).map_err(|error| setup.failed(error))?;
    let headers = headers(remote).map_err(|error| setup.failed(error))?;
    let config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str()).custom_headers(headers);
    greet(setup, StreamableHttpClientTransport::with_client(client, config)).await
}

fn client(limit: Duration) -> Result<reqwest::Client, String> {
    // Requests carry headers with keys, so a redirect must stay on the same origin.
    let same_place = redirect::Policy::custom(|attempt| {
        let first = attempt.previous().first().map(reqwest::Url::origin);
        if attempt.previous().len() > MAX_HOPS {
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
        .redirect(same_place)
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

async fn greet<T, E, A>(setup: &Setup, transport: T) -> Result<Open, McpStatus>
where
    T: IntoTransport<RoleClient, E, A>,
    E: StdError + Send + Sync + 'static,
{
    let (changes, limit) = (Arc::new(Notify::new()), setup.limit());
    let listener = Listener { changes: Arc::clone(&changes) };
    let greeting = async {
        let service = listener.serve(transport).await.map_err(|error| refused(setup, &error))?;
        let connected = Connected::new(&setup.name, &setup.config, service.peer().clone(), limit);
        connected.refresh().await.map_err(|error| setup.failed(error.to_string()))?;
        Ok((service, connected))
    };
    let slow = || Error::Slow { server: setup.name.clone(), limit }.to_string();
    let (service, connected) = timeout(limit, greeting).await.map_err(|_| setup.failed(slow()))??;
    let closing = service.cancellation_token();
    Ok(Open {
        connected: Arc::new(connected),
        changes,
        closing,
        closed: closed(service),
        companion: None,
        config: Arc::clone(&setup.config),
    })
}

fn closed(service: RunningService<RoleClient, Listener>) -> BoxFuture<'static, ()> {
    async move {
        let _ = service.waiting().await;
    }
    .boxed()
}

/// Returns the status for a failed initialisation.
fn refused(setup: &Setup, error: &ClientInitializeError) -> McpStatus {
    let why = match error {
        ClientInitializeError::TransportError { error, .. } => lost(error),
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        other => chain(other),
    };
    if !error.is_authorization_required() && !is_unauthorized(error) {
        return setup.failed(why);
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

impl Open {
    /// Waits for the server to end the connection, and returns the reason as far as it is known.
    pub(super) async fn ended(&mut self) -> String {
        let Some(companion) = &mut self.companion else {
            (&mut self.closed).await;
            return "it closed the connection".to_owned();
        };
        let exit = tokio::select! {
            exit = companion.wait() => Some(exit),
            () = &mut self.closed => timeout(LAST_BREATH, companion.wait()).await.ok(),
        };
        let why = exit.map_or_else(|| "it closed the connection".to_owned(), ended);
        without_secrets(&self.config, last_words(&why, companion))
    }

    /// Closes the connection and ends the program with all its child processes.
    pub(super) async fn close(self) {
        self.closing.cancel();
        let _ = timeout(limits::MCP_GOODBYE, self.closed).await;
        if let Some(companion) = self.companion {
            companion.stop().await;
        }
    }

    /// Ends the program after its connection has ended.
    pub(super) async fn bury(self) {
        if let Some(companion) = self.companion {
            companion.stop().await;
        }
    }
}

fn ended(exit: Result<Exit, process::Error>) -> String {
    match exit {
        Ok(Exit::Code(code)) => format!("its program ended with code {code}"),
        Ok(Exit::Signal(signal)) => format!("its program was killed by signal {signal}"),
        Ok(Exit::DeadlinePassed | Exit::Cancelled) => "its program was stopped".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn last_words(why: &str, companion: &Companion) -> String {
    let words = companion.errors().tail_text(LAST_WORDS);
    let words = words.trim();
    if words.is_empty() { why.to_owned() } else { format!("{why}; it wrote: {words}") }
}

/// Returns the delay before the next reconnect.
pub(super) fn pause(deaths: u32) -> Duration {
    limits::MCP_BACKOFF.saturating_mul(1 << deaths.saturating_sub(1).min(6))
}

/// Returns the status during that delay.
pub(super) fn resting(why: &str, pause: Duration) -> McpStatus {
    McpStatus::Failed { error: format!("{why}; reconnecting in {}", span(pause)) }
}
