//! The engine's bounds. Every wait ends and every list is finite; docs/limits.md lists them for users.

use std::time::Duration;

use protocol::request::PermissionReply;

/// Bounds that a configuration may change.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long a runner may take to return after it was cancelled; then it is dropped.
    pub runner_grace: Duration,
    /// How long completing a prompt may take before it is stored; then it is refused.
    pub prepare: Duration,
    /// How long a hook may take, whatever it was promised elsewhere; then it is as if nobody had listened.
    pub hook: Duration,
    /// How long a permission or question waits for a person before it is withdrawn.
    pub request: Duration,
    /// The reply to a permission that nobody answered in that time, if it is not to be withdrawn.
    pub request_reply: Option<PermissionReply>,
    /// How often the text of open parts is saved: what a crash may lose.
    pub checkpoint: Duration,
    /// How long to wait between tries when the store cannot write.
    pub store_retry: Duration,
    /// How long a start waits for the repair of what a dead server left; the rest is repaired while it serves.
    pub recovery: Duration,
    /// How long a shutdown waits for turns to end.
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

/// Tries to store what a turn said before the turn is given up.
pub const STORE_TRIES: u32 = 4;
/// The longest pause between two tries to repair sessions that could not be written.
pub const MAX_REPAIR_PAUSE: Duration = Duration::from_secs(5);
/// Sessions that are repaired at the same time. Their commits share transactions of the store.
pub const REPAIRS_AT_ONCE: usize = 64;
/// Prompts that may wait in one session.
pub const MAX_WAITING: usize = 256;
/// Parts of one prompt.
pub const MAX_PARTS: usize = 1_000;
/// Commands a session actor may be behind.
pub const MAX_INBOX: usize = 1_024;
/// Reports a runner may be ahead of its session actor.
pub const MAX_CALLS: usize = 256;
/// How deep child sessions may nest.
pub const MAX_DEPTH: usize = 8;
/// Things that are allowed for good in one directory; the oldest are forgotten.
pub const MAX_APPROVALS: usize = 500;
/// Bytes that a hook may let a turn go on with.
pub const MAX_NEXT: usize = 64 * 1024;
/// Messages read at a time when a session is looked back through.
pub const HISTORY_PAGE: usize = 100;
/// Stored bytes read at a time then, unless one message has more.
pub const HISTORY_BYTES: usize = 1024 * 1024;
/// Events read from the log at a time when a client resumes.
pub const REPLAY_PAGE: usize = 500;
/// Bytes that may be said about a project at once; a small picture fits.
pub const MAX_NOTE: usize = 256 * 1024;
/// Notices that may wait for one receiver; the oldest are forgotten.
pub const MAX_NOTICES: usize = 10_000;
