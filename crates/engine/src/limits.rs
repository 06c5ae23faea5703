//! The engine's limits. Every wait has a deadline and every list a bound; docs/limits.md lists them for users.

use std::time::Duration;

use protocol::request::PermissionReply;

/// Limits that the configuration can change.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Time for a runner to return after its cancellation; then the actor drops it.
    pub runner_grace: Duration,
    /// Time for completing a prompt before it is stored; then the prompt is refused.
    pub prepare: Duration,
    /// Time for one hook, as a backstop to the plugin host's own deadlines; then its changes are ignored.
    pub hook: Duration,
    /// Time that a permission or question waits for an answer before it is withdrawn.
    pub request: Duration,
    /// The automatic reply to a permission that was not answered in that time; `None` withdraws it.
    pub request_reply: Option<PermissionReply>,
    /// Interval for saving the text of open parts. A crash loses at most this much.
    pub checkpoint: Duration,
    /// Pause before retrying when the store cannot write.
    pub store_retry: Duration,
    /// Time that the start waits for the repair of sessions left by a dead server; the rest is repaired while
    /// serving.
    pub recovery: Duration,
    /// Time that a shutdown waits for turns to end.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            runner_grace: Duration::from_millis(750),
            prepare: Duration::from_secs(10),
            hook: Duration::from_mins(1),
            request: Duration::from_hours(1),
            request_reply: None,
            checkpoint: Duration::from_millis(500),
            store_retry: Duration::from_millis(250),
            recovery: Duration::from_millis(500),
            shutdown: Duration::from_secs(4),
        }
    }
}

/// Attempts to store a turn's events before the actor gives the turn up.
pub const STORE_TRIES: u32 = 4;
/// Longest pause between two attempts to repair sessions that could not be written.
pub const MAX_REPAIR_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of sessions that are repaired concurrently. Their commits share transactions of the store.
pub const REPAIRS_AT_ONCE: usize = 64;
/// Maximum number of waiting prompts in one session.
pub const MAX_WAITING: usize = 256;
/// Maximum number of parts in one prompt.
pub const MAX_PARTS: usize = 1_000;
/// Capacity of a session actor's inbox, in commands.
pub const MAX_INBOX: usize = 1_024;
/// Capacity of the queue between a runner and its session actor, in reports.
pub const MAX_CALLS: usize = 256;
/// Maximum number of a runner's reports that one commit stores, so that a command does not wait for all that are queued.
pub const MAX_EVENTS_PER_COMMIT: usize = 64;
/// Maximum nesting depth of child sessions.
pub const MAX_DEPTH: usize = 8;
/// Maximum number of sessions in the listing of a family.
pub const MAX_FAMILY: usize = 1_000;
/// Maximum number of words in a search over all sessions; further ones are ignored.
pub const MAX_WORDS: usize = 16;
/// Maximum number of texts that one search over all sessions returns.
pub const MAX_FOUND: usize = 100;
/// Maximum number of stored approvals in one workspace; the oldest are dropped.
pub const MAX_APPROVALS: usize = 500;
/// Maximum size of the text with which a hook continues a turn, in bytes.
pub const MAX_NEXT: usize = 64 * 1024;
/// Messages per page when the engine reads a session's history.
pub const HISTORY_PAGE: usize = 100;
/// Stored bytes per page of history; a single larger message still fits.
pub const HISTORY_BYTES: usize = 1024 * 1024;
/// Decoded messages that are kept for further turns, in bytes of their JSON. Turns with a longer history read it from the
/// store.
pub const HISTORY_CACHE_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of sessions whose newest messages are kept decoded.
pub const HISTORY_CACHE_SESSIONS: usize = 256;
/// Time after which the decoded messages of a session are dropped if no turn has read them.
pub const HISTORY_CACHE_IDLE: Duration = Duration::from_mins(5);
/// Events per page when a client resumes and the log is replayed.
pub const REPLAY_PAGE: usize = 500;
/// Maximum size of a project note in bytes; a small icon fits.
pub const MAX_NOTE: usize = 256 * 1024;
/// Maximum number of notices that wait for one receiver; the oldest are dropped.
pub const MAX_NOTICES: usize = 10_000;
