//! Timeouts of calls.

use std::time::Duration;

/// Timeout of a connection, including TLS.
pub(super) const CONNECT: Duration = Duration::from_secs(15);

/// Longest timeout that can be configured. "No limit" means this.
const LONGEST: Duration = Duration::from_hours(24);

/// Timeouts of a call. Only content resets one: comments, pings and empty deltas keep a connection open, but
/// prove nothing about the model behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From the call to the response headers. Long prompts are processed before the response begins.
    pub headers: Duration,
    /// From the headers to the first event.
    pub first_chunk: Duration,
    /// From one event to the next. Models with hidden reasoning are silent for minutes.
    pub next_chunk: Duration,
    /// The whole call.
    pub total: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            headers: Duration::from_mins(5),
            first_chunk: Duration::from_mins(5),
            next_chunk: Duration::from_mins(5),
            total: Duration::from_hours(1),
        }
    }
}

impl Deadlines {
    /// Converts configured milliseconds; `None` means the longest timeout.
    pub(crate) fn wait(millis: Option<u64>) -> Duration {
        millis.map_or(LONGEST, |millis| Duration::from_millis(millis).min(LONGEST))
    }
}
