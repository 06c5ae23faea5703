//! One server and the task that keeps the connection to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::config::Mcp;
use protocol::mcp::McpStatus;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::client::Connected;
use super::open::{Open, Setup, open, pause, resting};
use super::{Settings, limits};

/// A server of the configuration.
pub(super) struct Server {
    pub(super) name: String,
    setup: Setup,
    state: watch::Sender<State>,
    task: Mutex<Option<Task>>,
    /// Held by whoever connects or disconnects by hand, so that they do not meet half-way.
    changing: tokio::sync::Mutex<()>,
}

struct Task {
    stop: CancellationToken,
    done: JoinHandle<()>,
}

#[derive(Clone)]
enum State {
    /// Nobody has needed it yet.
    Unneeded,
    Connecting,
    Connected(Arc<Connected>),
    /// It is not there, and why.
    Gone(McpStatus),
}

impl Server {
    pub(super) fn new(name: &str, config: &Mcp, settings: &Arc<Settings>) -> Self {
        let state = if config.enabled() { State::Unneeded } else { State::Gone(McpStatus::Disabled) };
        let setup =
            Setup { name: name.to_owned(), config: Arc::new(config.clone()), settings: Arc::clone(settings) };
        Self {
            name: name.to_owned(),
            setup,
            state: watch::Sender::new(state),
            task: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Connects in the background if nobody has needed it yet.
    pub(super) fn start(&self) {
        if matches!(*self.state.borrow(), State::Unneeded) {
            self.launch();
        }
    }

    fn launch(&self) {
        let mut task = self.task();
        if task.is_some() {
            return;
        }
        self.state.send_replace(State::Connecting);
        let stop = CancellationToken::new();
        let done = tokio::spawn(keep(self.setup.clone(), self.state.clone(), stop.clone()));
        *task = Some(Task { stop, done });
    }

    /// Connects, anew if it is connected already, and waits until it is clear how that went.
    pub(super) async fn connect(&self) {
        let _changing = self.changing.lock().await;
        self.stop().await;
        self.launch();
        self.settled().await;
    }

    /// Lets go of it.
    pub(super) async fn disconnect(&self) {
        let _changing = self.changing.lock().await;
        self.stop().await;
        self.state.send_replace(State::Gone(McpStatus::Disabled));
    }

    async fn stop(&self) {
        let Some(Task { stop, mut done }) = self.task().take() else { return };
        stop.cancel();
        if timeout(limits::MCP_GOODBYE * 5, &mut done).await.is_err() {
            tracing::warn!(server = self.name, "an MCP server does not let itself be stopped");
            // What it holds is dropped, and so its processes are killed.
            done.abort();
        }
    }

    /// Waits while it is connecting, which has a deadline of its own.
    pub(super) async fn settled(&self) {
        let mut state = self.state.subscribe();
        // The sender is here, so there is nobody who could go away.
        let _ = state.wait_for(|state| !matches!(state, State::Connecting)).await;
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(*self.state.borrow(), State::Connecting)
    }

    pub(super) fn connected(&self) -> Option<Arc<Connected>> {
        match &*self.state.borrow() {
            State::Connected(connected) => Some(Arc::clone(connected)),
            _ => None,
        }
    }

    pub(super) fn status(&self) -> McpStatus {
        match &*self.state.borrow() {
            // OpenCode has no word for a server that is not started yet.
            State::Unneeded => McpStatus::Disabled,
            State::Connecting => McpStatus::Failed { error: "it is still connecting".to_owned() },
            State::Connected(_) => McpStatus::Connected,
            State::Gone(status) => status.clone(),
        }
    }

    fn task(&self) -> MutexGuard<'_, Option<Task>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The task says goodbye by itself.
        if let Some(task) = self.task().take() {
            task.stop.cancel();
        }
    }
}

/// Keeps a connection. A server that cannot be reached at first stays away until somebody connects by hand; one that
/// was there and died is connected to again, a few times.
async fn keep(setup: Setup, state: watch::Sender<State>, stop: CancellationToken) {
    let mut deaths = 0;
    loop {
        state.send_replace(State::Connecting);
        let opened = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            opened = open(&setup) => opened,
        };
        let why = match opened {
            Ok(open) => {
                state.send_replace(State::Connected(Arc::clone(&open.connected)));
                setup.settings.tell(&setup.name);
                let since = Instant::now();
                let Some(why) = attend(&setup, open, &stop).await else { return };
                tracing::warn!(server = setup.name, why, "an MCP server died");
                deaths = if since.elapsed() < limits::MCP_STEADY { deaths + 1 } else { 1 };
                state.send_replace(State::Gone(McpStatus::Failed { error: why.clone() }));
                setup.settings.tell(&setup.name);
                why
            }
            Err(McpStatus::Failed { error }) if deaths > 0 => {
                deaths += 1;
                error
            }
            Err(status) => {
                tracing::warn!(server = setup.name, ?status, "an MCP server cannot be used");
                state.send_replace(State::Gone(status));
                return;
            }
        };
        if deaths > limits::MCP_RECONNECTS {
            state.send_replace(State::Gone(McpStatus::Failed { error: why }));
            return;
        }
        let pause = pause(deaths);
        state.send_replace(State::Gone(resting(&why, pause)));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

/// Watches over a connection until the server dies, which is told why, or somebody stops it.
async fn attend(setup: &Setup, mut open: Open, stop: &CancellationToken) -> Option<String> {
    let changes = Arc::clone(&open.changes);
    loop {
        let connected = Arc::clone(&open.connected);
        let refreshing = async {
            changes.notified().await;
            connected.refresh().await
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                open.close().await;
                return None;
            }
            why = open.ended() => {
                open.bury().await;
                return Some(why);
            }
            refreshed = refreshing => match refreshed {
                Ok(true) => setup.settings.tell(&setup.name),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the tools of an MCP server cannot be asked for"),
            },
        }
    }
}
