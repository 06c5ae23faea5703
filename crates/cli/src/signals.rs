//! Signals that ask the program to end.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receiver of the signals that ask the program to end. It catches them from its creation on.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hang_up: Option<Signal>,
}

/// Origin of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalOrigin {
    /// The user, at the keyboard (SIGINT).
    User,
    /// The system or the parent process (SIGTERM, SIGHUP).
    System,
}

impl Signals {
    /// Starts to catch the signals.
    pub(crate) fn catch() -> Self {
        // A signal that cannot be caught keeps its default effect, which ends the program.
        let catch = |kind| signal(kind).ok();
        Self {
            interrupt: catch(SignalKind::interrupt()),
            terminate: catch(SignalKind::terminate()),
            hang_up: catch(SignalKind::hangup()),
        }
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> SignalOrigin {
        tokio::select! {
            () = received(&mut self.interrupt) => SignalOrigin::User,
            () = received(&mut self.terminate) => SignalOrigin::System,
            () = received(&mut self.hang_up) => SignalOrigin::System,
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        pending::<()>().await;
    }
}
