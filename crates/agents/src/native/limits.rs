//! The bounds of the native loop. Every wait and every repetition has one.

use std::time::Duration;

/// From asking a model to its first sign of life.
pub const FIRST_CHUNK: Duration = Duration::from_mins(5);

/// From one sign of life to the next. Only what says something counts; a provider's keep-alives do not.
pub const NEXT_CHUNK: Duration = Duration::from_mins(2);

/// How often a step is tried again after a transient failure.
pub const RETRIES: u32 = 5;

/// How often in a row the loop goes on after a model that stopped for no known reason.
pub const REPEATS: u32 = 3;

/// Steps of one turn, for agents that do not set their own bound.
pub const STEPS: u32 = 1000;

/// Equal calls in a row from which on a person is asked whether that is sensible.
pub const DOOM: u32 = 3;

/// The most a model may write in one step, in tokens.
pub const OUTPUT_TOKENS: u64 = 32_000;

/// How long a command may run when the model sets no time.
pub const COMMAND: Duration = Duration::from_mins(2);

/// The longest time a model may set for a command.
pub const LONGEST_COMMAND: Duration = Duration::from_hours(1);

/// Output of a command that is kept: so many bytes of its beginning,
pub const COMMAND_HEAD: usize = 10 * 1024;

/// and so many of its end.
pub const COMMAND_TAIL: usize = 40 * 1024;

/// Output of a running command that is shown, in characters from its end.
pub const COMMAND_LIVE: usize = 4_000;

/// Output of any tool that is given to the model, in bytes.
pub const TOOL_OUTPUT: usize = 51_200;

/// Rules of `always` replies that are remembered for one directory; the oldest are forgotten.
pub const APPROVALS: usize = 500;
