//! The limits of the native loop. Every wait and every repetition has one.

use std::time::Duration;

pub use supervision::limits::{COMMAND_LIVE, MAX_COMMAND, MCP_WAIT};

/// Maximum number of retries of a step after transient failures.
pub const RETRIES: u32 = 5;

/// A step keeps retrying for this long while the provider limits the rate of calls, whatever the number of retries.
pub const RATE_LIMIT: Duration = Duration::from_mins(10);

/// Consecutive steps without a finish reason after which the loop still goes on.
pub const UNFINISHED_STEPS: u32 = 3;

/// Maximum number of steps of a turn, for agents without a limit of their own.
pub const STEPS: u32 = 1000;

/// Repetitions of a call, or of a cycle of calls, before the user is asked whether to go on.
pub const REPEATED_CALLS: usize = 3;

/// Maximum number of tokens that a model may write in one step.
pub const OUTPUT_TOKENS: u64 = 32_000;

/// Timeout of a command if the model sets none.
pub const COMMAND: Duration = Duration::from_mins(2);

/// Timeout of a web page if the model sets none.
pub const FETCH: Duration = Duration::from_secs(30);

/// The longest timeout that a model may set for a web page.
pub const MAX_FETCH: Duration = Duration::from_mins(2);

/// Maximum size of a web page, in bytes.
pub const FETCH_BYTES: usize = 5 * 1024 * 1024;

/// Timeout for reading all attachments of a prompt.
pub const ATTACH_TIME: Duration = Duration::from_secs(5);

/// Maximum number of attachments of a prompt.
pub const ATTACHMENTS: usize = 100;

/// Maximum size of an attachment that is not text, in characters of base64.
pub const ATTACHMENT: usize = 5 * 1024 * 1024;

/// Maximum size of all such attachments of a prompt.
pub const ATTACHMENTS_TOTAL: usize = 4 * ATTACHMENT;

/// Maximum number of background subagents of a turn.
pub const BACKGROUND: usize = 8;

/// Tokens that stay free for the next step, unless the configuration sets a number or the model's output limit is
/// lower.
pub const RESERVED: u64 = 20_000;

/// Lower limit of the tail that a compaction keeps, in tokens. The tail is a quarter of the context between both
/// limits.
pub const MIN_TAIL: u64 = 2_000;

/// Upper limit of that tail, in tokens.
pub const MAX_TAIL: u64 = 15_000;

/// Maximum size of one request to a model, in bytes, including attachments. Providers refuse larger ones.
pub const REQUEST_BYTES: u64 = 32 * 1024 * 1024;

/// Maximum size of the stored conversation that is read for one step, in bytes.
pub const HISTORY_BYTES: u64 = 2 * REQUEST_BYTES;

/// Maximum length of a tool's output that the summarising model sees, in characters.
pub const SUMMARY_OUTPUT: usize = 2_000;

/// Consecutive compactions after which the turn ends if the conversation still does not fit.
pub const COMPACTIONS: u32 = 3;

/// Tokens of the newest tool output that are never pruned.
pub const PRUNE_PROTECTED: u64 = 40_000;

/// Tokens that pruning must free to be worth it.
pub const PRUNE_MIN: u64 = 20_000;

/// Timeout for generating a title.
pub const TITLE: Duration = Duration::from_secs(30);

/// Time that a finished turn waits for its title.
pub const TITLE_WAIT: Duration = Duration::from_secs(3);

/// Maximum length of a title, in characters.
pub const TITLE_LENGTH: usize = 100;

/// Timeout for finding the instructions of a directory.
pub const INSTRUCTIONS: Duration = Duration::from_secs(5);
