//! Trust in a directory, and the parts of its configuration that do not count without it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Rest;

/// Whether the user trusts a directory. The answer of `GET`, `POST` and `DELETE /trust`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trust {
    /// The directory.
    pub directory: String,
    /// Whether it is trusted.
    pub trusted: bool,
    /// The trusted directory that covers it: the directory itself or one above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The command that trusts the directory.
    pub command: String,
    /// The parts of the project's configuration that do not count.
    pub withheld: Vec<Withheld>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// A part of a project's configuration that does not count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Withheld {
    /// The file that holds it.
    pub file: String,
    /// Its key, as a path such as `mcp.db`. Of a plugin or tool, its specifier or the name of its file.
    pub key: String,
    /// Why it needs trust.
    pub kind: WithheldKind,
    /// Why it does not count.
    pub reason: WithheldReason,
}

/// Why a part of a configuration needs trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WithheldKind {
    /// A plugin runs with the rights of the user.
    Plugin,
    /// A custom tool runs with the rights of the user.
    Tool,
    /// An MCP server is a program to start or an address to call.
    Mcp,
    /// A placeholder such as `{env:NAME}` or `{file:path}` reads a variable or a file.
    Placeholder,
    /// A provider's address, headers or key variables decide where a key is sent.
    Provider,
    /// An agent of another vendor is a program to start or an address to call.
    Agent,
    /// A formatter, a language server, a shell or a git hook is a program.
    Program,
    /// A command contains shell lines.
    Command,
    /// A rule allows something without a question.
    Permission,
    /// An address is called.
    Address,
    /// A file outside of the project is read.
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

/// Why a part of a configuration does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WithheldReason {
    /// The user has not trusted the directory.
    Untrusted,
    /// Its file belongs to another user, or every user may write to it. Trust does not change that.
    Owner,
}
