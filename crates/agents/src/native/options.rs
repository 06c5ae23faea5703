//! The settings of the native loop.

use std::fmt;
use std::sync::Arc;

use protocol::agent::Agent;
use protocol::config::{Budget, Compaction, Limits};
use protocol::message::ModelRef;
use protocol::provider::Provider;

use super::agent::built_in;
use super::instructions::Instructions;
use super::limits;
use super::mcp::Servers;
use super::tools::ToolOptions;
use crate::Snapshots;

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
    pub compaction: Compaction,
    pub budget: Budget,
    /// Limits that differ from the defaults in [`limits`](super::limits).
    pub limits: Limits,
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

impl Default for Options {
    fn default() -> Self {
        Self {
            agents: built_in(&[]),
            small_model: None,
            instructions: Arc::new(Vec::new()),
            compaction: Compaction::default(),
            budget: Budget::default(),
            limits: Limits::default(),
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
            .field("limits", &self.limits)
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
