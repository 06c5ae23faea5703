//! The settings of an agent.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::agent::Abilities;
use protocol::config::Mcp;
use supervision::SandboxOptions;
use workspace::files::Closed;

use super::limits;
use crate::{external, roster};

/// The settings of an agent.
#[derive(Debug, Clone)]
pub struct Options {
    /// The settings that every external agent has.
    pub agent: external::Options,
    /// MCP servers whose tools the agent may use.
    pub servers: BTreeMap<String, Mcp>,
    /// The sandbox for commands that Baton runs for the agent.
    pub sandbox: Option<SandboxOptions>,
    /// The longest time that such a command may run; none for the default.
    pub command: Option<Duration>,
    /// Places that the agent can neither read nor change through Baton.
    pub closed: Closed,
}

impl Options {
    /// The abilities of an agent that speaks this protocol.
    pub const ABILITIES: Abilities =
        Abilities { cost: true, steer: false, children: false, retries: false, ..roster::ABILITIES };

    /// The longest time that a command of the agent may run.
    pub(super) fn command_time(&self) -> Duration {
        self.command.unwrap_or(limits::COMMAND)
    }

    /// The agent's name as a provider.
    pub(super) fn id(&self) -> &str {
        &self.agent.about.id
    }
}
