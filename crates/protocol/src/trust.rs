//! Trust in a directory, and the parts of its configuration that have no effect without it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::Rest;

/// Trust of the user in a directory. The answer of `GET`, `POST` and `DELETE /trust`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trust {
    pub directory: String,
    pub trusted: bool,
    /// The trusted directory that covers it: the directory itself or a parent. Absent if it is not trusted.
    pub by: Option<String>,
    /// Shell command that trusts the directory.
    pub command: String,
    /// The parts of the project's configuration that have no effect.
    pub withheld: Vec<Withheld>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// A part of a project's configuration that has no effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Withheld {
    /// File that contains the part.
    pub file: String,
    /// Key as a path such as `mcp.db`. For a plugin or tool, its specifier or file name.
    pub key: String,
    /// Reason why the part needs trust.
    pub kind: WithheldKind,
    /// Reason why the part has no effect.
    pub reason: WithheldReason,
}

/// Reason why a part of a configuration needs trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WithheldKind {
    /// A plugin runs with the user's rights.
    Plugin,
    /// A custom tool runs with the user's rights.
    Tool,
    /// An MCP server is a program to start or a URL to call.
    Mcp,
    /// A placeholder such as `{env:NAME}` or `{file:path}` reads a variable or a file.
    Placeholder,
    /// A provider's URL, headers or key variables decide which host receives a key.
    Provider,
    /// An external agent is a program to start or a URL to call.
    Agent,
    /// A formatter, a language server, a shell or a git hook is a program.
    Program,
    /// A slash command contains shell commands.
    Command,
    /// A rule allows an action without asking the user.
    Permission,
    /// Baton calls a URL.
    Address,
    /// Baton reads a file outside of the project.
    File,
}

impl fmt::Display for WithheldKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Plugin => "a plugin",
            Self::Tool => "a custom tool",
            Self::Mcp => "an MCP server",
            Self::Placeholder => "reads a variable or a file",
            Self::Provider => "decides where a key is sent",
            Self::Agent => "another agent",
            Self::Program => "runs a program",
            Self::Command => "a command with shell lines",
            Self::Permission => "allows without a question",
            Self::Address => "calls an address",
            Self::File => "reads a file outside of the project",
        })
    }
}

/// Reason why a part of a configuration has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WithheldReason {
    /// The user has not trusted the directory.
    Untrusted,
    /// Another user owns the file, or every user may write to it. Trust does not change that.
    Owner,
}
