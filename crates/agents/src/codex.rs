//! Codex as a runner, through `codex app-server`: threads, turns and items as JSON-RPC on its standard input and output.
//!
//! - `wire` is what Codex says, read leniently; `translate` makes agent events of it and is pure; `ask` and `input` are
//!   the words for what goes the other way.
//! - `process` starts the program and takes up the session's thread; one process per session, kept between turns and
//!   ended when it has had nothing to do for a while. Which thread a session is survives both.
//! - `run` follows one turn: it ends with the `turn/completed` of that turn and with nothing else that Codex says. What
//!   looks like an end (a thread that is idle or in error, an error that will not be retried) starts the clock of
//!   [`FAREWELL`] and no more, and a thread of a subagent ends nothing. `talk` is what goes the other way meanwhile.
//!
//! While a thread has a goal, Codex begins one turn after the other by itself: they are one turn here. What it begins while
//! nobody waits for it is a wake-up, for which the session's actor opens a turn.
//!
//! A prompt that arrives meanwhile joins the running turn (`turn/steer`). A turn that is stopped is interrupted in
//! Codex's own words; if that does not help, its process is ended.

mod ask;
mod failure;
mod input;
mod options;
mod process;
mod run;
mod talk;
#[cfg(test)]
mod tests;
mod threads;
mod translate;
mod wire;

use std::fmt;
use std::sync::Arc;

use engine::ports::{Clock, Runner};
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use protocol::agent::Abilities;
use protocol::{SessionId, TurnEnd};

use crate::external::family::Adopted;
use crate::external::{Keeper, Keeping, Nursery, keeper::Wake};
use crate::roster::{About, External};
use process::Process;

pub use options::{ANSWER, FAREWELL, Options};

/// Its name as a provider of models, and as an agent.
pub const NAME: &str = "codex";

/// Codex as a runner. Cheap to clone.
#[derive(Clone)]
pub struct Codex(Arc<Inner>);

struct Inner {
    about: About,
    options: Options,
    clock: Arc<dyn Clock>,
    keeper: Keeper<Process>,
    nursery: Nursery<Adopted>,
}

impl Codex {
    /// A runner that starts a program like this, and has these models. `wake` is told when it begins to work by itself.
    pub fn new(options: Options, models: Vec<String>, clock: Arc<dyn Clock>, wake: Wake) -> Self {
        let about = About {
            id: NAME.into(),
            name: "Codex".into(),
            description: "OpenAI's Codex, with the settings and the login it has on this machine.".into(),
            models,
            has_providers: false,
            abilities: ABILITIES,
        };
        let keeping = Keeping { idle: options.idle, ..Keeping::default() };
        let keeper = Keeper::new(keeping, wake);
        Self(Arc::new(Inner { about, options, clock, keeper, nursery: Nursery::default() }))
    }
}

/// What works with it. What it costs nobody knows.
pub const ABILITIES: Abilities = Abilities {
    steer: true,
    resume: true,
    permissions: true,
    questions: true,
    todos: true,
    tokens: true,
    children: true,
    retries: true,
    attachments: true,
    continuation: true,
    ..Abilities::LEAST
};

impl External for Codex {
    fn about(&self) -> &About {
        &self.0.about
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.keeper.close().boxed()
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        self.0.keeper.forget(session).boxed()
    }
}

impl Runner for Codex {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let inner = Arc::clone(&self.0);
        async move { run::run(&inner, &turn).await }.boxed()
    }
}

impl fmt::Debug for Codex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Codex").field("command", &self.0.options.command).finish_non_exhaustive()
    }
}
