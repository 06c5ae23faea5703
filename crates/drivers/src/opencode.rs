//! OpenCode as an external agent, over its HTTP interface: a server that Baton starts, or one that runs already.
//!
//! `wire` makes the bodies of calls, `translate` interprets events, `server` starts and stops the process, and `run` is the
//! loop of one turn, which ends when `ending` decides so. Subagents of OpenCode are child sessions. The parent's loop
//! reads the events of all of them and passes them on through a [`ChildRegistry`].

mod connection;
mod ending;
mod run;
mod server;
mod status_checks;
#[cfg(test)]
pub(crate) mod tests;
mod translate;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine::mint::Mint;
use engine::ports::{Clock, Random};
use engine::session::Turn;
use protocol::agent::Abilities;
use protocol::{MessageError, TurnEnd};

use crate::external::{Agent, ChildRegistry, Condition, Context, Opened, Options, Outcome, Task};
use connection::SessionConnection;
use run::ChildStream;
use server::Server;
pub use server::{Remote, Start};
use status_checks::Pace;

pub const ABILITIES: Abilities = Abilities {
    steer: true,
    resume: true,
    permissions: true,
    questions: true,
    todos: true,
    tokens: true,
    cost: true,
    children: true,
    retries: true,
    attachments: true,
    continuation: true,
    ..Abilities::LEAST
};

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
pub struct OpenCode {
    options: Options,
    mint: Mint,
    server: Server,
    children: ChildRegistry<ChildStream>,
    timeouts: Timeouts,
}

impl OpenCode {
    /// Uses the server that is given, or starts one when it is needed.
    pub fn new(
        options: Options,
        remote: Option<Remote>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        let server = match remote {
            Some(remote) => Server::there(remote),
            None => Server::to_start(Start::new(&options.program, options.pool.clone()), Arc::clone(&random)),
        };
        Self {
            options,
            mint: Mint::new(clock, random),
            server,
            children: ChildRegistry::default(),
            timeouts: Timeouts::default(),
        }
    }
}

impl fmt::Debug for OpenCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OpenCode").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Agent for OpenCode {
    type Process = SessionConnection;

    const NAMES_SESSIONS: bool = true;
    const COMPACTS: bool = false;

    fn options(&self) -> &Options {
        &self.options
    }

    async fn follow(&self, turn: &Turn) -> Option<TurnEnd> {
        let stream = self.children.take(&turn.session).await?;
        Some(run::follow_child(self, turn, stream).await)
    }

    async fn open(
        &self,
        turn: &Turn,
        resume: Option<&str>,
    ) -> Result<Opened<SessionConnection>, MessageError> {
        connection::open(self, turn, resume).await.map_err(MessageError::unknown)
    }

    async fn work(
        &self,
        context: Context<'_>,
        connection: &mut SessionConnection,
        task: Task<'_>,
    ) -> Outcome {
        match task {
            Task::Prompt(_) => run::work(self, context.turn, connection).await,
            // OpenCode never begins a turn by itself.
            Task::Wake => Outcome { end: TurnEnd::Completed, process: Condition::Released },
        }
    }

    async fn close(&self) {
        self.server.close().await;
    }
}
