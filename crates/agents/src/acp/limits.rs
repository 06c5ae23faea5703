//! The bounds of agents that speak the Agent Client Protocol. Every wait and every amount has one.

use std::time::Duration;

/// Most of a tool's output that is kept, in bytes.
pub(super) const OUTPUT: usize = 256 * 1024;

/// Largest image a tool may show, in characters of its text form.
pub(super) const IMAGE: usize = 5 * 1024 * 1024;

/// Tool calls in one turn.
pub(super) const TOOLS: usize = 10_000;

/// Longest answer to one prompt. Budgets and people end it earlier; the protocol knows no sign of life.
pub(super) const PROMPT: Duration = Duration::from_hours(24);

/// Commands of an agent that may run at once.
pub(super) const TERMINALS: usize = 16;

/// Longest command of an agent.
pub(super) const COMMAND: Duration = Duration::from_hours(1);

/// Largest piece of a file that is handed out, in bytes.
pub(super) const FILE: usize = 10 * 1024 * 1024;

/// Requests of an agent that may wait at once.
pub(super) const ERRANDS: usize = 64;

/// How long an agent that woke by itself may say nothing before its turn is over. The protocol has no word for that
/// end, and agents that do say it in their own way are not waited for.
pub(super) const QUIET: Duration = Duration::from_secs(30);

/// Models that a message lists.
pub(super) const SHOWN_MODELS: usize = 20;
