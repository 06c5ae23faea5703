//! Interface to the MCP servers of a directory. The composition root implements it.

use std::{collections::BTreeMap, fmt};

use futures::future::BoxFuture;
use protocol::{
    agent::Command,
    mcp::{McpResource, McpStatus, McpTarget},
};

pub trait McpServers: Send + Sync + fmt::Debug {
    /// Status of each server by name.
    fn status(&self) -> BoxFuture<'_, BTreeMap<String, McpStatus>>;

    /// Returns true if a server of this name is configured.
    fn has(&self, name: &str) -> bool;

    /// Connects to a server, or reconnects.
    fn connect<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), NoServer>>;

    /// Disconnects a server until `connect` is called for it.
    fn disconnect<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), NoServer>>;

    /// Adds a server, or replaces the one with the same name, and connects to it.
    fn add<'a>(&'a self, name: &'a str, config: McpTarget) -> BoxFuture<'a, ()>;

    /// Resources of all servers.
    fn resources(&self) -> BoxFuture<'_, Vec<McpResource>>;

    /// Prompts of all servers, as slash commands.
    fn commands(&self) -> BoxFuture<'_, Vec<Command>>;
}

/// No server has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no MCP server of this name")]
pub struct NoServer;
