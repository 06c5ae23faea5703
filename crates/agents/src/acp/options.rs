//! What is known about an agent before it is started.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::ports::Clock;
use protocol::agent::Abilities;
use protocol::config::{Mcp, PermissionMode};
use protocol::request::Rule;
use workspace::files::Closed;

use crate::external::{Bounds, Keeping, Patience};
use crate::native::SandboxOptions;
use crate::roster::About;

/// How to start an agent, and what it may do.
#[derive(Clone)]
pub struct Options {
    /// What it is called here, and what it offers.
    pub about: About,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables it gets.
    pub environment: BTreeMap<String, String>,
    /// Variables that neither it nor its commands inherit.
    pub hidden: Vec<String>,
    /// What it does without asking.
    pub mode: PermissionMode,
    /// What it may do; later rules win.
    pub rules: Vec<Rule>,
    /// Servers whose tools it may use.
    pub servers: BTreeMap<String, Mcp>,
    /// What its commands may touch, as far as it lets us run them.
    pub sandbox: Option<SandboxOptions>,
    /// What it may neither read nor change through us.
    pub closed: Closed,
    /// How much of its program is put up with.
    pub bounds: Bounds,
    /// How long it is waited for.
    pub patience: Patience,
    /// How long its program is kept between turns.
    pub keeping: Keeping,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Options {
    /// What works with an agent of this protocol.
    pub const ABILITIES: Abilities = Abilities {
        resume: true,
        permissions: true,
        questions: true,
        todos: true,
        tokens: true,
        cost: true,
        attachments: true,
        continuation: true,
        ..Abilities::LEAST
    };

    /// What it is called here.
    pub(super) fn id(&self) -> &str {
        &self.about.id
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options")
            .field("about", &self.about)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}
