//! Claude Code, driven over its standard input and output.
//!
//! `wire` has the types of its lines, `translate` turns them into events and signals without I/O, and `process` is one
//! running Claude Code. One process serves the turns of a session and is kept between them; after a while, or after a
//! restart of the server, a new process resumes the conversation under the id that is noted in the session.
//!
//! A turn ends when the program reports that it is idle and has taken up every prompt of the turn ([`waiting`]). Its
//! `result` line only ends a segment: another one follows if a prompt was queued meanwhile. A version that does not
//! report its state ends a turn with a result that nothing follows for a second. Work that it begins by itself, because
//! a background task has ended, is a wake-up: the session's actor opens a turn for it.
//!
//! A subagent is a child session. A subagent in the background keeps the turn open: the session is not idle before
//! everything that was started in it has ended.
//!
//! | limitation | consequence |
//! |---|---|
//! | it cannot fork a conversation | a fork begins a new conversation and gets the history as text |
//! | it takes no prompts for a subagent | a prompt in a child session is refused |

mod content;
mod permit;
mod process;
mod todos;
mod tools;
mod translate;
mod waiting;
mod wire;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::session::Turn;
use protocol::MessageError;
use protocol::agent::Abilities;

use crate::external::{Agent, Opened, Options, Task};
use crate::roster;
use process::ClaudeProcess;

/// The name under which Claude Code's notes are stored in sessions.
pub const NAME: &str = "claude-code";

pub const ABILITIES: Abilities = Abilities { cost: true, ..roster::ABILITIES };

/// Claude Code as an external agent.
#[derive(Debug)]
pub struct Claude {
    options: Options,
}

impl Claude {
    pub fn new(options: Options) -> Self {
        Self { options }
    }
}

impl Agent for Claude {
    type Process = ClaudeProcess;

    const CONFIRMS_RESUME: bool = false;

    fn options(&self) -> &Options {
        &self.options
    }

    async fn open(&self, turn: &Turn, resume: Option<&str>) -> Result<Opened<ClaudeProcess>, MessageError> {
        let mut process = ClaudeProcess::start(&self.options, turn, resume)
            .map_err(|failure| MessageError::unknown(failure.to_string()))?;
        if resume.is_some() {
            process.remember(turn.todos().await.unwrap_or_default());
        }
        Ok(Opened { process, lost: None })
    }

    async fn prepare(
        &self,
        turn: &Arc<Turn>,
        process: &mut ClaudeProcess,
        _: Task<'_>,
    ) -> Result<(), MessageError> {
        process.configure(&self.options, turn);
        Ok(())
    }
}
