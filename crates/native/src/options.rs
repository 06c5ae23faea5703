//! The settings of the native loop.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use protocol::agent::Agent;
use protocol::config::Budget;
use protocol::message::ModelRef;
use protocol::provider::Provider;
use supervision::Snapshots;
use supervision::mcp::Servers;

use super::agent::built_in;
use super::instructions::Instructions;
use super::limits;
use super::tools::ToolOptions;

/// The settings of the native loop.
#[derive(Clone)]
pub struct Options {
    /// The available agents, with their rules. See [`built_in`].
    pub agents: Vec<Agent>,
    /// The model for titles, if not the model of the turn.
    pub small_model: Option<ModelRef>,
    /// The user's instructions for all agents.
    pub instructions: Arc<dyn Instructions>,
    /// Settings for summarising long conversations.
    pub compaction: CompactionOptions,
    pub budget: Budget,
    /// Retries of a step after transient failures; the default is [`RETRIES`](super::limits::RETRIES).
    pub retries: u32,
    /// Time for which a step keeps retrying while the provider limits the rate of calls; the default is
    /// [`RATE_LIMIT`](super::limits::RATE_LIMIT).
    pub rate_limit: Duration,
    /// Steps of one turn, for agents without a limit of their own; the default is [`STEPS`](super::limits::STEPS).
    pub steps: u32,
    /// Maximum size of an attachment that is not text, in characters of base64; at most
    /// [`ATTACHMENT`](super::limits::ATTACHMENT).
    pub attachment: usize,
    /// The nesting depth of subagents; 0 for none at all.
    pub subagent_depth: u32,
    /// True if a turn goes on after the user has refused a request.
    pub continue_on_deny: bool,
    /// Environment variables that are hidden from commands, such as the keys of providers.
    pub hidden: Vec<String>,
    pub tools: ToolOptions,
    /// Snapshots of worktrees, so that file changes can be reverted.
    pub snapshots: Option<Arc<Snapshots>>,
    /// MCP servers that provide further tools.
    pub mcp: Servers,
    /// The providers as clients see them, for hooks that receive a model.
    pub providers: Vec<Provider>,
}

/// Settings for summarising long conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionOptions {
    /// Summarise when the context is full, without a request of the user.
    pub auto: bool,
    /// Drop old tool outputs after each turn.
    pub prune: bool,
    /// Keep at most this many turns at the end; without it, only tokens limit them.
    pub tail_turns: Option<u32>,
    /// Keep this many tokens at the end; without it, the model's context decides.
    pub preserve_recent_tokens: Option<u64>,
    /// Leave this many tokens free; without it, the model's limits decide.
    pub reserved: Option<u64>,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self { auto: true, prune: false, tail_turns: None, preserve_recent_tokens: None, reserved: None }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            agents: built_in(&[]),
            small_model: None,
            instructions: Arc::new(Vec::new()),
            compaction: CompactionOptions::default(),
            budget: Budget::default(),
            retries: limits::RETRIES,
            rate_limit: limits::RATE_LIMIT,
            steps: limits::STEPS,
            attachment: limits::ATTACHMENT,
            subagent_depth: 1,
            continue_on_deny: false,
            hidden: Vec::new(),
            tools: ToolOptions::default(),
            snapshots: None,
            mcp: Servers::default(),
            providers: Vec::new(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Options")
            .field("agents", &self.agents.iter().map(|agent| &agent.name).collect::<Vec<_>>())
            .field("small_model", &self.small_model)
            .field("compaction", &self.compaction)
            .field("budget", &self.budget)
            .field("retries", &self.retries)
            .field("rate_limit", &self.rate_limit)
            .field("steps", &self.steps)
            .field("attachment", &self.attachment)
            .field("subagent_depth", &self.subagent_depth)
            .field("continue_on_deny", &self.continue_on_deny)
            .field("hidden", &self.hidden)
            .field("tools", &self.tools)
            .field("snapshots", &self.snapshots)
            .field("mcp", &self.mcp)
            .finish_non_exhaustive()
    }
}
