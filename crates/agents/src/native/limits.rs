//! The bounds of the native loop. Every wait and every repetition has one.

use std::time::Duration;

/// How often a step is tried again after a transient failure.
pub const RETRIES: u32 = 5;

/// How often in a row the loop goes on after a model that stopped for no known reason.
pub const REPEATS: u32 = 3;

/// Steps of one turn, for agents that do not set their own bound.
pub const STEPS: u32 = 1000;

/// How often a model may make the same call, or go round the same circle of calls, before a person is asked whether
/// that is sensible.
pub const DOOM: usize = 3;

/// The most a model may write in one step, in tokens.
pub const OUTPUT_TOKENS: u64 = 32_000;

/// How long a command may run when the model sets no time.
pub const COMMAND: Duration = Duration::from_mins(2);

/// The longest time a model may set for a command.
pub const LONGEST_COMMAND: Duration = Duration::from_hours(1);

/// How long a page of the web may take when the model sets no time.
pub const FETCH: Duration = Duration::from_secs(30);

/// The longest time a model may set for a page.
pub const LONGEST_FETCH: Duration = Duration::from_mins(2);

/// Largest page of the web, in bytes.
pub const FETCH_BYTES: usize = 5 * 1024 * 1024;

/// Output of a running command that is shown, in characters from its end.
pub const COMMAND_LIVE: usize = 4_000;

/// How long the files that come with a prompt may take to read, all together.
pub const ATTACH: Duration = Duration::from_secs(5);

/// Files that may come with one prompt.
pub const ATTACHMENTS: usize = 100;

/// Largest attachment that is not text, in characters of its text form.
pub const ATTACHMENT: usize = 5 * 1024 * 1024;

/// The same for all attachments of a prompt together.
pub const ATTACHED: usize = 4 * ATTACHMENT;

/// Subagents that may work in the background of one turn.
pub const BACKGROUND: usize = 8;

/// Tokens that are left free for the next step, unless the configuration says otherwise or the model writes less.
pub const RESERVED: u64 = 20_000;

/// Tokens at the end of a conversation that a summary leaves as they are: a quarter of what fits, at least these
pub const LEAST_KEPT: u64 = 2_000;

/// and at most these.
pub const MOST_KEPT: u64 = 15_000;

/// Bytes of one request to a model, attachments included; providers refuse larger ones.
pub const REQUEST_BYTES: u64 = 32 * 1024 * 1024;

/// Stored bytes of a conversation that are read for one step.
pub const HISTORY_BYTES: u64 = 2 * REQUEST_BYTES;

/// Output of a tool that is shown to who summarises, in characters.
pub const SUMMARY_OUTPUT: usize = 2_000;

/// Summaries in a row after which the conversation still does not fit; then the turn ends.
pub const COMPACTIONS: u32 = 3;

/// Tokens of the newest tool output that are never dropped from a model's view.
pub const PRUNE_PROTECTED: u64 = 40_000;

/// Tokens that have to be gained for it to be worth dropping any.
pub const PRUNE_LEAST: u64 = 20_000;

/// How long a title may take.
pub const TITLE: Duration = Duration::from_secs(30);

/// How long a title that is not ready at the end of the turn's work is still waited for.
pub const TITLE_LINGER: Duration = Duration::from_secs(3);

/// Longest title, in characters.
pub const TITLE_LENGTH: usize = 100;

/// How long finding the instructions of a directory may take.
pub const GUIDANCE: Duration = Duration::from_secs(5);

/// How long an MCP server may take to answer, unless the configuration says otherwise.
pub const MCP_ANSWER: Duration = Duration::from_secs(30);

/// How long a turn, or somebody who asks for their status, waits for MCP servers that are still connecting.
pub const MCP_PATIENCE: Duration = Duration::from_secs(2);

/// How long an MCP server may take to say goodbye before it is ended.
pub const MCP_GOODBYE: Duration = Duration::from_secs(1);

/// How often in a row an MCP server that died is connected to again.
pub const MCP_RECONNECTS: u32 = 5;

/// How long is waited before the first of these; it doubles from one to the next.
pub const MCP_BACKOFF: Duration = Duration::from_secs(1);

/// How long a connection has to last for its death not to be counted with those before.
pub const MCP_STEADY: Duration = Duration::from_mins(1);

/// Tools, prompts or resources that are taken from one MCP server.
pub const MCP_LISTED: usize = 1_000;

/// Pages they may come in.
pub const MCP_PAGES: usize = 100;

/// Largest schema of an MCP server's tool, in bytes; a tool with a larger one is left out.
pub const MCP_SCHEMA: usize = 256 * 1024;

/// Longest description or instructions of an MCP server that models are told, in characters.
pub const MCP_WORDS: usize = 16_000;

/// Largest structured result of an MCP server's tool that clients are shown, in bytes.
pub const MCP_STRUCTURED: usize = 64 * 1024;

/// Longest name of a tool: providers refuse longer ones, and with them the whole step.
pub const TOOL_NAME: usize = 64;
