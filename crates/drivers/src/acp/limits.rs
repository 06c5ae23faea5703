//! The limits for agents that speak the Agent Client Protocol. Every wait and every amount has one.

use std::time::Duration;

/// Largest tool output that Baton keeps, in bytes. The rest is cut off.
pub(super) const OUTPUT: usize = 256 * 1024;

/// Largest image a tool may show, in characters of its text form.
pub(super) const IMAGE: usize = 5 * 1024 * 1024;

/// Tool calls in one turn.
pub(super) const TOOLS: usize = 10_000;

/// Longest wait for the answer to a prompt. Budgets and aborts end a turn earlier; the protocol has no heartbeat.
pub(super) const PROMPT: Duration = Duration::from_hours(24);

/// Commands of an agent that may run at once.
pub(super) const TERMINALS: usize = 16;

/// Longest command of an agent, unless the configuration sets another time.
pub(super) const COMMAND: Duration = Duration::from_hours(1);

/// Largest part of a file that the agent may read at once, in bytes.
pub(super) const FILE: usize = 10 * 1024 * 1024;

/// Requests of an agent that may wait at once.
pub(super) const REQUESTS: usize = 64;

/// Silence after which a turn that the agent began by itself has ended. The protocol does not report that end; agents
/// that report it with an extension end their turn at once.
pub(super) const QUIET: Duration = Duration::from_secs(30);

/// Models that a message lists.
pub(super) const SHOWN_MODELS: usize = 20;
