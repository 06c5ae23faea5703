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
//! A subagent is a child session. One that works in the background keeps the turn going: the session is not idle before
//! all that was started in it is.
//!
//! | it cannot | so |
//! |---|---|
//! | go on in a fork | a fork begins a conversation of its own, and is told what was said |
//! | be told something in a subagent's conversation | a prompt in a child session is refused |

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
use protocol::agent::Abilities;
use protocol::config::PermissionMode;
use protocol::request::Rule;
use protocol::{SessionId, TurnEnd};

use crate::external::family::Adopted;
use crate::external::{Bounds, Keeper, Keeping, Nursery, Patience, keeper};
use crate::roster::{About, External, Program};
use live::Live;

/// What its notes in sessions are called.
pub const NAME: &str = "claude-code";

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
    /// What it does without asking.
    pub mode: PermissionMode,
    /// What decides before a person is asked.
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
            mode: PermissionMode::default(),
            rules: Vec::new(),
            patience: Patience::default(),
            bounds: Bounds::default(),
            keeping: Keeping::default(),
        }
    }
}

impl Options {
    /// What was configured.
    pub fn of(program: &Program) -> Self {
        let usual = Self::default();
        let mut command = program.command.iter().map(OsString::from);
        Self {
            program: command.next().unwrap_or(usual.program),
            args: command.collect(),
            environment: program
                .environment
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            hidden: program.hidden.iter().map(OsString::from).collect(),
            mode: program.mode,
            rules: program.rules.clone(),
            keeping: Keeping { idle: program.idle, ..usual.keeping },
            ..usual
        }
    }
}

/// Claude Code. Cheap to clone.
#[derive(Clone)]
pub struct Claude(Arc<Inner>);

struct Inner {
    about: About,
    options: Options,
    clock: Arc<dyn Clock>,
    keeper: Keeper<Live>,
    nursery: Nursery<Adopted>,
}

impl Claude {
    /// Not started yet. `wake` is told when it begins to work by itself.
    pub fn new(about: About, options: Options, clock: Arc<dyn Clock>, wake: keeper::Wake) -> Self {
        let keeper = Keeper::new(options.keeping, wake);
        Self(Arc::new(Inner { about, options, clock, keeper, nursery: Nursery::default() }))
    }
}

impl External for Claude {
    fn about(&self) -> &About {
        &self.0.about
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        self.0.keeper.forget(session).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.keeper.close().boxed()
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
