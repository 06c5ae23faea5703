//! OpenCode itself as an agent, over its HTTP interface: a server that Baton starts, or one that runs already.
//!
//! [`wire`] makes what is sent, [`translate`] makes sense of what is heard, [`server`] starts and stops the process and
//! [`run`] is the loop of one turn, which is over when [`ending`] says so. Subagents of OpenCode's are child sessions
//! here; the parent's loop hears for all of them and passes on to each what is its own ([`ChildRegistry`]).

mod ending;
mod pulse;
mod run;
mod server;
#[cfg(test)]
pub(crate) mod tests;
mod translate;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use engine::mint::Mint;
use engine::ports::{Clock, Random, Runner};
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use protocol::TurnEnd;
use protocol::agent::Abilities;
use protocol::config::PermissionMode;
use protocol::request::Rule;

use crate::external::ChildRegistry;
use crate::roster::{About, External, Program};
use pulse::Pace;
use run::Adopted;
use server::Server;
pub use server::{Remote, Start};

/// What works with it.
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

/// How long OpenCode may take.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// To answer a call before the turn has begun.
    call: Duration,
    /// To be heard of again once its events have broken off. A server that is started anew needs a few seconds.
    lost: Duration,
    /// Before it is asked whether it is at work.
    pace: Pace,
}

impl Default for Patience {
    fn default() -> Self {
        Self { call: Duration::from_secs(30), lost: Duration::from_secs(30), pace: Pace::default() }
    }
}

/// OpenCode as a runner. Cheap to clone.
#[derive(Clone)]
pub struct OpenCode(Arc<Inner>);

struct Inner {
    about: About,
    mode: PermissionMode,
    rules: Vec<Rule>,
    mint: Mint,
    server: Server,
    registry: ChildRegistry<Adopted>,
    patience: Patience,
}

impl OpenCode {
    /// A runner that starts a server when it is needed, or calls the one that is given.
    pub fn new(
        about: About,
        program: &Program,
        remote: Option<Remote>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        let server = match remote {
            Some(remote) => Server::there(remote),
            None => Server::to_start(Start::new(program), Arc::clone(&random)),
        };
        Self(Arc::new(Inner {
            about,
            mode: program.mode,
            rules: program.rules.clone(),
            mint: Mint::new(clock, random),
            server,
            registry: ChildRegistry::default(),
            patience: Patience::default(),
        }))
    }
}

impl Runner for OpenCode {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let inner = Arc::clone(&self.0);
        async move { run::run(&inner, &turn).await }.boxed()
    }
}

impl External for OpenCode {
    fn about(&self) -> &About {
        &self.0.about
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.server.close().boxed()
    }
}

impl fmt::Debug for OpenCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OpenCode").field("about", &self.0.about).finish_non_exhaustive()
    }
}
