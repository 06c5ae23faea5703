//! Codex, through `codex app-server`: threads, turns and items as JSON-RPC on its standard input and output.
//!
//! - `wire` has the types of its messages, read leniently; `translate` turns them into agent events without I/O; `ask` and
//!   `input` translate requests and prompts.
//! - `process` starts the program and resumes the session's thread. One process serves a session and is kept between its
//!   turns. The id of the thread is noted in the session.
//! - `turn` interprets one turn. It ends with the `turn/completed` of that turn and with nothing else. A message that
//!   usually precedes the end (a thread that is idle or has failed, an error without a retry) only starts a timeout.
//!   `threads` interprets the threads of subagents.
//!
//! While a thread has a goal, Codex begins one turn after the other by itself; they are one turn here. A turn that it
//! begins between turns is a wake-up, for which the session's actor opens a turn.
//!
//! A prompt that arrives meanwhile waits, because Codex cuts its answer short for one that joins. It joins the running turn
//! (`turn/steer`) if its delivery says so.

mod ask;
mod failure;
mod input;
mod policy;
mod process;
#[cfg(test)]
mod tests;
mod threads;
mod translate;
mod turn;
mod wire;

use engine::session::Turn;
use protocol::MessageError;
use protocol::agent::Abilities;
use protocol::prompt::Delivery;

use crate::external::{Agent, Opened, Options};
use crate::roster;
use process::CodexProcess;

/// The name of Codex as a provider of models and as an agent.
pub const NAME: &str = "codex";

/// The abilities of Codex. It does not report costs.
pub const ABILITIES: Abilities = roster::ABILITIES;

/// Codex as an external agent.
#[derive(Debug)]
pub struct Codex {
    options: Options,
}

impl Codex {
    pub fn new(options: Options) -> Self {
        Self { options }
    }
}

impl Agent for Codex {
    type Process = CodexProcess;

    const DELIVERY: Delivery = Delivery::Queue;

    fn options(&self) -> &Options {
        &self.options
    }

    async fn open(&self, turn: &Turn, resume: Option<&str>) -> Result<Opened<CodexProcess>, MessageError> {
        CodexProcess::open(&self.options, turn, resume).await.map_err(MessageError::unknown)
    }
}
