//! Limits of commands and MCP servers that hold for every agent.

use std::time::Duration;

/// The longest timeout that a model may set for a command.
pub const MAX_COMMAND: Duration = Duration::from_hours(1);

/// Maximum length of the output that clients see of a running command, in characters from its end.
pub const COMMAND_LIVE: usize = 4_000;

/// Timeout for an answer of an MCP server, unless the configuration sets one.
pub const MCP_ANSWER: Duration = Duration::from_secs(30);

/// Time that a turn, or a call for the status, waits for MCP servers that are connecting.
pub const MCP_WAIT: Duration = Duration::from_secs(2);

/// Time for an MCP server to shut down before its process is killed.
pub const MCP_CLOSE: Duration = Duration::from_secs(1);

/// Maximum number of consecutive reconnects to an MCP server that died.
pub const MCP_RECONNECTS: u32 = 5;

/// Delay before the first reconnect; it doubles with each further one.
pub const MCP_BACKOFF: Duration = Duration::from_secs(1);

/// A connection that lasts this long resets the count of reconnects.
pub const MCP_STABLE: Duration = Duration::from_mins(1);

/// Maximum number of tools, prompts or resources of one MCP server.
pub const MCP_LISTED: usize = 1_000;

/// Maximum number of pages of such a list.
pub const MCP_PAGES: usize = 100;

/// Maximum size of an MCP tool's schema, in bytes. A tool with a larger one is left out.
pub const MCP_SCHEMA: usize = 256 * 1024;

/// Maximum length of the description or instructions of an MCP server that models see, in characters.
pub const MCP_TEXT: usize = 16_000;

/// Maximum size of the structured result of an MCP tool that clients see, in bytes.
pub const MCP_STRUCTURED: usize = 64 * 1024;

/// Maximum length of a tool name. Providers refuse the whole step if a name is longer.
pub const TOOL_NAME: usize = 64;
