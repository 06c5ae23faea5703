//! Signals that ask the program to end.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that ask the program to end. They are caught from the moment this is made.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hang_up: Option<Signal>,
}

/// Who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A person, at the keyboard.
    Person,
    /// The system, or whoever started the program.
    System,
}

impl Signals {
    /// Catches them from now on.
    pub(crate) fn catch() -> Self {
        // A signal that cannot be caught keeps its usual effect, which is to end the program.
        let catch = |kind| signal(kind).ok();
        Self {
            interrupt: catch(SignalKind::interrupt()),
            terminate: catch(SignalKind::terminate()),
            hang_up: catch(SignalKind::hangup()),
        }
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            () = received(&mut self.interrupt) => Asked::Person,
            () = received(&mut self.terminate) => Asked::System,
            () = received(&mut self.hang_up) => Asked::System,
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
