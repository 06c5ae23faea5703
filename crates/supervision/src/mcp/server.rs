//! One server, and the task that maintains the connection to it.

use std::sync::Arc;

use parking_lot::Mutex;
use protocol::config::Mcp;
use protocol::mcp::McpStatus;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::connect::{ConnectionConfig, LiveConnection, connect, reconnect_delay, reconnecting};
use super::connection::Connection;
use super::{Settings, limits};

/// A server of the configuration.
pub(super) struct Server {
    pub(super) name: String,
    config: ConnectionConfig,
    state: watch::Sender<State>,
    task: Mutex<Option<Task>>,
    /// Serialises connect and disconnect calls.
    changing: tokio::sync::Mutex<()>,
}

struct Task {
    stop: CancellationToken,
    done: JoinHandle<()>,
}

#[derive(Clone)]
enum State {
    /// No caller has needed the server yet.
    NotStarted,
    Connecting,
    Connected(Arc<Connection>),
    /// The server is not connected, with the reason.
    Disconnected(McpStatus),
}

impl Server {
    pub(super) fn new(name: &str, config: &Mcp, settings: &Arc<Settings>) -> Self {
        let state =
            if config.enabled() { State::NotStarted } else { State::Disconnected(McpStatus::Disabled) };
        let config = ConnectionConfig {
            name: name.to_owned(),
            server: Arc::new(config.clone()),
            settings: Arc::clone(settings),
        };
        Self {
            name: name.to_owned(),
            config,
            state: watch::Sender::new(state),
            task: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Connects in the background, unless that has happened before.
    pub(super) fn start(&self) {
        if matches!(*self.state.borrow(), State::NotStarted) {
            self.launch();
        }
    }

    fn launch(&self) {
        let mut task = self.task.lock();
        if task.is_some() {
            return;
        }
        self.state.send_replace(State::Connecting);
        let stop = CancellationToken::new();
        let done = tokio::spawn(maintain(self.config.clone(), self.state.clone(), stop.clone()));
        *task = Some(Task { stop, done });
    }

    /// Connects, or reconnects if it is connected, and waits for the result.
    pub(super) async fn connect(&self) {
        let _changing = self.changing.lock().await;
        self.stop().await;
        self.launch();
        self.settled().await;
    }

    pub(super) async fn disconnect(&self) {
        let _changing = self.changing.lock().await;
        self.stop().await;
        self.state.send_replace(State::Disconnected(McpStatus::Disabled));
    }

    async fn stop(&self) {
        let Some(Task { stop, mut done }) = self.task.lock().take() else { return };
        stop.cancel();
        if timeout(limits::MCP_CLOSE * 5, &mut done).await.is_err() {
            tracing::warn!(server = self.name, "timed out disconnecting an MCP server; killing it");
            // Dropping its state kills its processes.
            done.abort();
        }
    }

    /// Waits while the server is connecting. Connecting has a timeout of its own.
    pub(super) async fn settled(&self) {
        let mut state = self.state.subscribe();
        // `self` holds the sender, so the channel cannot be closed.
        let _ = state.wait_for(|state| !matches!(state, State::Connecting)).await;
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(*self.state.borrow(), State::Connecting)
    }

    pub(super) fn connection(&self) -> Option<Arc<Connection>> {
        match &*self.state.borrow() {
            State::Connected(connection) => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    pub(super) fn status(&self) -> McpStatus {
        match &*self.state.borrow() {
            // OpenCode has no status for a server that has not been started yet.
            State::NotStarted => McpStatus::Disabled,
            State::Connecting => McpStatus::Failed { error: "it is still connecting".to_owned() },
            State::Connected(_) => McpStatus::Connected,
            State::Disconnected(status) => status.clone(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The task closes the connection by itself.
        if let Some(task) = self.task.lock().take() {
            task.stop.cancel();
        }
    }
}

/// Maintains a connection. A server that fails to connect at first stays disconnected until a client connects it. A
/// server that was connected and died is reconnected, up to [`limits::MCP_RECONNECTS`] times in a row.
async fn maintain(config: ConnectionConfig, state: watch::Sender<State>, stop: CancellationToken) {
    let mut losses = 0;
    loop {
        state.send_replace(State::Connecting);
        let result = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            result = connect(&config) => result,
        };
        let why = match result {
            Ok(live) => {
                state.send_replace(State::Connected(Arc::clone(&live.connection)));
                config.settings.notify_changed(&config.name);
                let since = Instant::now();
                let Some(why) = supervise(&config, live, &stop).await else { return };
                tracing::warn!(server = config.name, why, "lost the connection to an MCP server");
                losses = if since.elapsed() < limits::MCP_STABLE { losses + 1 } else { 1 };
                state.send_replace(State::Disconnected(McpStatus::Failed { error: why.clone() }));
                config.settings.notify_changed(&config.name);
                why
            }
            Err(McpStatus::Failed { error }) if losses > 0 => {
                losses += 1;
                error
            }
            Err(status) => {
                config.settings.notify_failed(&config.name, &status);
                state.send_replace(State::Disconnected(status));
                return;
            }
        };
        if losses > limits::MCP_RECONNECTS {
            let status = McpStatus::Failed { error: why };
            config.settings.notify_failed(&config.name, &status);
            state.send_replace(State::Disconnected(status));
            return;
        }
        let pause = reconnect_delay(losses);
        state.send_replace(State::Disconnected(reconnecting(&why, pause)));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

/// Watches a connection until the server dies or `stop` is cancelled. Returns the reason if the server died.
async fn supervise(
    config: &ConnectionConfig,
    mut live: LiveConnection,
    stop: &CancellationToken,
) -> Option<String> {
    let changes = Arc::clone(&live.changes);
    loop {
        let connection = Arc::clone(&live.connection);
        let refreshing = async {
            changes.notified().await;
            connection.refresh().await
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                live.close().await;
                return None;
            }
            why = live.wait_closed() => {
                live.stop_program().await;
                return Some(why);
            }
            refreshed = refreshing => match refreshed {
                Ok(true) => config.settings.notify_changed(&config.name),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "failed to list the tools of an MCP server"),
            },
        }
    }
}
