//! OpenCode as an external agent, over its HTTP interface: a server that Baton starts, or one that runs already.
//!
//! `server` starts and stops the process, `connection` is the transport of a turn, and `wire` makes the bodies of calls.
//! `tree` decides when the turn and its subagents have ended; `translate` interprets the events of one session.

mod connection;
mod server;
mod status_checks;
#[cfg(test)]
pub(crate) mod tests;
mod translate;
mod tree;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use engine::mint::Mint;
use engine::ports::{Clock, Random};
use engine::session::Turn;
use protocol::MessageError;
use protocol::agent::Abilities;

use crate::external::{Agent, Opened, Options};
use crate::roster;
use connection::SessionConnection;
use server::Server;
pub use server::{Remote, Start};
use status_checks::Pace;

pub const ABILITIES: Abilities = Abilities { cost: true, ..roster::ABILITIES };

/// Time to follow the events of an aborted turn. It is shorter than the engine's grace period.
const ABORT: Duration = Duration::from_millis(500);

/// Timeouts for OpenCode.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    /// Timeout of a call that OpenCode must answer before the turn has begun.
    call: Duration,
    /// Timeout for the reconnection of a broken event stream. A server that restarts needs a few seconds.
    lost: Duration,
    /// Delays before Baton asks OpenCode for its status.
    pace: Pace,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { call: Duration::from_secs(30), lost: Duration::from_secs(30), pace: Pace::default() }
    }
}

/// OpenCode as an external agent.
#[derive(Debug)]
pub struct OpenCode {
    options: Options,
    mint: Arc<Mint>,
    server: Server,
    timeouts: Timeouts,
}

impl OpenCode {
    /// Uses the server that is given, or starts one when it is needed.
    pub fn new(
        mut options: Options,
        remote: Option<Remote>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        let server = match remote {
            Some(remote) => Server::There(remote),
            None => Server::to_start(Start::new(&options.program, options.pool.clone()), Arc::clone(&random)),
        };
        options.timeouts.interrupt = ABORT;
        Self { options, mint: Arc::new(Mint::new(clock, random)), server, timeouts: Timeouts::default() }
    }
}

impl Agent for OpenCode {
    type Process = SessionConnection;

    const NAMES_SESSIONS: bool = true;
    const COMPACTS: bool = false;

    fn options(&self) -> &Options {
        &self.options
    }

    async fn open(
        &self,
        turn: &Turn,
        resume: Option<&str>,
    ) -> Result<Opened<SessionConnection>, MessageError> {
        connection::open(self, turn, resume).await.map_err(MessageError::unknown)
    }

    async fn close(&self) {
        self.server.close().await;
    }
}
