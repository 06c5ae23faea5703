//! The jobs of a store's writer.

use std::time::Instant;

use engine::ports::{Appended, Commit, Error, Fence};
use protocol::{ApprovalId, project::ProjectNote};
use tokio::sync::oneshot;

use crate::{
    change::{NoticeChange, PartRow, Prepared},
    stats::Stats,
};

/// Maximum number of jobs, and approximate maximum number of bytes, in one transaction, so that the first job does not
/// wait for all others.
const GROUP_JOBS: usize = 256;
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Receives the result of a job.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A job for the writer.
pub(crate) enum Work {
    /// Stores all commits or none.
    Append {
        commits: Vec<Prepared>,
        since: Instant,
        reply: Reply<Appended>,
    },
    Checkpoint {
        fence: Fence,
        parts: Vec<PartRow>,
        reply: Reply<()>,
    },
    Note {
        project: String,
        newer: ProjectNote,
        reply: Reply<ProjectNote>,
    },
    Forget {
        approval: ApprovalId,
        reply: Reply<bool>,
    },
    Outbox {
        change: NoticeChange,
        reply: Reply<usize>,
    },
    /// Simulates a disk of SQLite's with this many pages.
    #[cfg(test)]
    LimitPages {
        pages: u32,
        reply: Reply<()>,
    },
}

impl Work {
    /// Approximate number of bytes to write.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Append { commits, .. } => commits.iter().map(Prepared::bytes).sum(),
            Self::Checkpoint { parts, .. } => parts.iter().map(|part| part.body.len()).sum(),
            // Rare and small, because users type them.
            Self::Note { .. } | Self::Forget { .. } => 0,
            Self::Outbox { change, .. } => change.bytes(),
            #[cfg(test)]
            Self::LimitPages { .. } => 0,
        }
    }

    /// Answers with an error.
    pub(crate) fn refuse(self, error: &Error, stats: &Stats) {
        let error = error.clone();
        match self {
            Self::Append { reply, .. } => {
                stats.refused();
                drop(reply.send(Err(error)));
            }
            Self::Checkpoint { reply, .. } => drop(reply.send(Err(error))),
            Self::Note { reply, .. } => drop(reply.send(Err(error))),
            Self::Forget { reply, .. } => drop(reply.send(Err(error))),
            Self::Outbox { reply, .. } => drop(reply.send(Err(error))),
            #[cfg(test)]
            Self::LimitPages { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}

/// Encodes commits on the task of their caller.
pub(crate) fn prepare(commits: Vec<Commit>) -> Result<Vec<Prepared>, Error> {
    commits.into_iter().map(Prepared::new).collect()
}

/// Collects jobs for one transaction: the first, and those that already wait behind it.
pub(crate) fn gather<J>(
    first: J,
    mut next: impl FnMut() -> Option<J>,
    bytes: impl Fn(&J) -> usize,
    stats: &Stats,
) -> Vec<J> {
    let mut total = bytes(&first);
    let mut group = vec![first];
    while group.len() < GROUP_JOBS && total < GROUP_BYTES {
        let Some(job) = next() else { break };
        total += bytes(&job);
        group.push(job);
    }
    for _ in &group {
        stats.taken();
    }
    group
}
