//! How long to wait, and for what.

use std::time::Duration;

/// To a connection, TLS included.
pub(super) const CONNECT: Duration = Duration::from_secs(15);

/// The longest wait anybody can ask for. "No limit" means this.
const LONGEST: Duration = Duration::from_hours(24);

/// How long each wait of a call may be. Only what says something ends one: comments, pings and empty deltas
/// keep a connection open and prove nothing about the model behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// From the call to the response headers. Long prompts are read before anything is answered.
    pub headers: Duration,
    /// From the headers to the first event.
    pub first_chunk: Duration,
    /// From one event to the next. Models that reason in secret are silent for minutes.
    pub next_chunk: Duration,
    /// For everything.
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
    /// A wait in milliseconds as people configure it; nothing means as long as possible.
    pub(crate) fn wait(millis: Option<u64>) -> Duration {
        millis.map_or(LONGEST, |millis| Duration::from_millis(millis).min(LONGEST))
    }
}
