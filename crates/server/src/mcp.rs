//! The MCP servers of a directory, as far as routes need them. Whoever puts the program together knows how to connect.

use std::{collections::BTreeMap, fmt};

use futures::future::BoxFuture;
use protocol::{
    agent::Command,
    mcp::{McpResource, McpStatus, McpTarget},
};

/// The MCP servers of one directory.
pub trait McpServers: Send + Sync + fmt::Debug {
    /// How it is with each, by name.
    fn status(&self) -> BoxFuture<'_, BTreeMap<String, McpStatus>>;

    /// Whether there is one of this name.
    fn has(&self, name: &str) -> bool;

    /// Connects to one, anew if need be.
    fn connect<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), NoServer>>;

    /// Lets go of one until somebody connects to it.
    fn disconnect<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), NoServer>>;

    /// Adds one, in place of one with the same name, and connects to it.
    fn add<'a>(&'a self, name: &'a str, config: McpTarget) -> BoxFuture<'a, ()>;

    /// What all of them have to read.
    fn resources(&self) -> BoxFuture<'_, Vec<McpResource>>;

    /// The prompts of all of them, as slash commands.
    fn commands(&self) -> BoxFuture<'_, Vec<Command>>;
}

/// There is no server of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no MCP server of this name")]
pub struct NoServer;
