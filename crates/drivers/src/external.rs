//! External agents: programs of other vendors that take turns in a session.
//!
//! - [`driver`]: the [`Driver`] is the runner for every external agent. It refuses unsupported prompts, starts, resumes,
//!   keeps and ends processes, and names sessions. [`exchange`](mod@exchange) is the loop of one turn.
//! - [`agent`]: the traits [`Agent`] and [`Process`], which hold everything that differs between agents, and the [`Signal`]s
//!   into which an agent translates its frames.
//! - [`child`]: one program that exchanges lines of JSON. [`Child::start`] starts it from a [`Launch`], [`Child::say`]
//!   and [`Input`] write to it, and [`Child::next`] reads from it until a [`ProgramFailure`] describes its end, with the end of
//!   its error output. Dropping a child kills its whole process tree, [`Child::stop`] sends `SIGTERM` first, and the
//!   children of a server that crashes end too.
//! - [`keeper`]: processes that are kept between the turns of a session. A turn takes one with [`IdleProcesses::take`] and returns
//!   it with [`IdleProcesses::keep`]; [`IdleProcesses::failed`] delays the next start. Kept processes are watched ([`KeptProcess::rest`]), ended
//!   after a while without a turn, and all ended by [`IdleProcesses::close`]. The [`IdlePool`] limits the idle processes of all
//!   agents together.
//! - [`children`]: subagents as child sessions; the turns of parents and children meet in a [`ChildRegistry`].
//! - [`permission`]: the rules that answer a request of an agent before the user is asked.
//! - `shell`: command lines that the user runs in a session.
//!
//! An abort escalates: the agent is told to interrupt and given [`Timeouts::interrupt`]; then its process tree gets
//! `SIGTERM` and, after `workspace::process::GRACE`, `SIGKILL`.

pub mod agent;
pub mod child;
pub mod children;
pub mod driver;
#[cfg(test)]
mod example;
pub mod exchange;
#[cfg(test)]
pub(crate) mod harness;
pub mod keeper;
mod lines;
pub mod permission;
pub mod pool;
pub mod registry;
mod shell;

pub use agent::{
    Agent, Broken, Condition, Context, Joining, Opened, Options, Outcome, Phase, Process, Signal, Task,
};
pub use child::{Bounds, Child, Input, Launch, OutputLine, ProgramFailure};
pub use children::{ChildLink, Children, Subagent};
pub use driver::Driver;
pub use exchange::exchange;
pub use keeper::{IdleEvent, IdleLimits, IdleProcesses, KeptProcess};
pub use pool::IdlePool;
pub use registry::ChildRegistry;

use std::time::Duration;

/// Timeouts for an external agent.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until a process answers its first request, or begins to work on a prompt.
    pub start: Duration,
    /// Until a process answers a request that needs no model.
    pub answer: Duration,
    /// Until a turn stops after it was interrupted. Less than the grace that the engine gives a runner, so that time is
    /// left to end the process.
    pub interrupt: Duration,
    /// Until the end of a turn whose end the agent has announced, or in which the user has refused a request.
    pub settle: Duration,
    /// Silence after which a turn has ended whose end the agent does not report for certain.
    pub quiet: Duration,
    /// The longest silence of an agent at work; the only bound on an agent that hangs.
    pub silence: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_mins(1),
            answer: Duration::from_secs(30),
            interrupt: Duration::from_millis(350),
            settle: Duration::from_secs(5),
            quiet: Duration::from_secs(1),
            silence: Duration::from_mins(30),
        }
    }
}
