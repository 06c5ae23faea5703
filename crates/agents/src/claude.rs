//! Claude Code as a runner: somebody else's program, driven over its standard input and output.
//!
//! `wire` has its words, `translate` turns them into those of a runner without knowing of processes or turns, and
//! `run` drives a turn. One process serves the turns of a session and is kept between them; after a while, or after a
//! restart of the server, the conversation goes on in a new one under the id that was noted in the session.
//!
//! A turn ends when the program says that it is idle. Its `result` line is only the end of a segment: another follows
//! when a prompt was queued meanwhile. Programs that do not tell their state end a turn with a result. What it begins
//! by itself, because something in the background has ended, is a wake-up: the session's actor opens a turn for it.
//!
//! | it cannot | so |
//! |---|---|
//! | show a subagent as a child session | a subagent is a `task` call with its progress and its report |
//! | be taken back | its steps have no snapshots, and a revert leaves files as they are |
//! | go on in a fork | a fork begins a conversation of its own |

mod content;
mod live;
mod permit;
mod run;
mod todos;
mod tools;
mod translate;
mod wire;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

use engine::ports::{Clock, Runner};
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use protocol::request::Rule;
use protocol::{SessionId, TurnEnd};

use crate::external::{Bounds, Keeper, Keeping, Patience, keeper};
use live::Live;

/// What its notes in sessions are called.
pub const NAME: &str = "claude-code";

/// How it is started and what it may do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program.
    pub program: OsString,
    /// Arguments before those that Baton needs.
    pub args: Vec<OsString>,
    /// Variables added to its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Variables it does not inherit.
    pub hidden: Vec<OsString>,
    /// What it may do without asking, or not at all. Where they say nothing, a person is asked.
    pub rules: Vec<Rule>,
    /// How long it is waited for.
    pub patience: Patience,
    /// How much of it is put up with.
    pub bounds: Bounds,
    /// How much of it is kept, and for how long.
    pub keeping: Keeping,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            program: "claude".into(),
            args: Vec::new(),
            environment: Vec::new(),
            hidden: Vec::new(),
            rules: Vec::new(),
            patience: Patience::default(),
            bounds: Bounds::default(),
            keeping: Keeping::default(),
        }
    }
}

/// Claude Code. Cheap to clone.
#[derive(Clone)]
pub struct Claude(Arc<Inner>);

struct Inner {
    options: Options,
    clock: Arc<dyn Clock>,
    keeper: Keeper<Live>,
}

impl Claude {
    /// Not started yet. `wake` is told when it begins to work by itself.
    pub fn new(options: Options, clock: Arc<dyn Clock>, wake: keeper::Wake) -> Self {
        let keeper = Keeper::new(options.keeping, wake);
        Self(Arc::new(Inner { options, clock, keeper }))
    }

    /// Ends what is kept for a session that is gone.
    pub async fn forget(&self, session: &SessionId) {
        self.0.keeper.forget(session).await;
    }

    /// Ends everything that is kept.
    pub async fn close(&self) {
        self.0.keeper.close().await;
    }
}

impl Runner for Claude {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let inner = Arc::clone(&self.0);
        async move { run::run(&inner, &turn).await }.boxed()
    }
}

impl fmt::Debug for Claude {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Claude").field("options", &self.0.options).finish_non_exhaustive()
    }
}
