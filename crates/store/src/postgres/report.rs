//! Tells the observer and the callers of a group that it is stored, or why it is not.

use std::{sync::Arc, time::Duration};

use engine::ports::{Appended, Error, Logged};
use tokio::time::{Instant, sleep};

use super::{
    failure,
    query::Found,
    tail::Tail,
    writer::{Work, Writer},
};
use crate::change::Prepared;

/// Pause between two attempts to publish a commit that follows those of other nodes.
const RETRY: Duration = Duration::from_millis(250);

impl Writer {
    /// Answers the callers of a group in doubt, and keeps its commits in case they turn out to be stored.
    pub(super) fn give_up(&mut self, jobs: Vec<Work>, error: &Error) {
        let mut commits = Vec::new();
        for job in jobs {
            if let Work::Append { commit, reply, .. } = job {
                self.ports.stats.refused();
                let _ = reply.send(Err(error.clone()));
                commits.push(*commit);
            } else {
                job.refuse(error);
            }
        }
        if self.doubt.events > 0 {
            self.doubt.commits = commits;
        }
    }

    pub(super) fn refuse(&self, jobs: Vec<Work>, error: &Error) {
        for job in jobs {
            if matches!(job, Work::Append { .. }) {
                self.ports.stats.refused();
            }
            job.refuse(error);
        }
    }

    /// Notifies the observer and the callers, in the order of the log. A commit stands even if its caller is gone.
    pub(super) async fn report(&mut self, jobs: Vec<Work>, before: u64) {
        self.position = before;
        if let Some(tail) = self.ports.tail.clone() {
            return self.report_to_fleet(&tail, jobs, before).await;
        }
        for job in jobs {
            match job {
                Work::Append { commit, since, reply } => {
                    let events = commit.entries.len();
                    let head = commit.expected + events as u64;
                    self.publish(*commit);
                    self.ports.stats.committed(events, since.elapsed());
                    let _ = reply.send(Ok(Appended { head, position: self.position }));
                }
                Work::Checkpoint { reply, .. } => {
                    let _ = reply.send(Ok(()));
                }
                Work::Note { .. } | Work::Forget { .. } | Work::Outbox { .. } => {}
            }
        }
    }

    pub(super) fn publish(&mut self, commit: Prepared) {
        let first = self.position + 1;
        self.position += commit.entries.len() as u64;
        if !commit.entries.is_empty() {
            self.ports.observer.committed(commit.into_logged(first));
        }
    }

    /// Publishes the group after everything that other nodes have committed before it, then notifies the callers. If the
    /// log cannot be read meanwhile, the callers receive an error; the tail publishes the group later.
    async fn report_to_fleet(&mut self, tail: &Arc<Tail>, jobs: Vec<Work>, before: u64) {
        let mut events: Vec<Logged> = Vec::new();
        let mut answers = Vec::new();
        for job in jobs {
            match job {
                Work::Append { commit, since, reply } => {
                    let head = commit.expected + commit.entries.len() as u64;
                    events.extend(commit.into_logged(self.position + 1));
                    let position = before + events.len() as u64;
                    let count = position - self.position;
                    self.position = position;
                    answers.push((reply, Appended { head, position }, since, count));
                }
                Work::Checkpoint { reply, .. } => {
                    let _ = reply.send(Ok(()));
                }
                Work::Note { .. } | Work::Forget { .. } | Work::Outbox { .. } => {}
            }
        }
        let published = self.publish_to_fleet(tail, before, events).await;
        for (reply, appended, since, count) in answers {
            self.ports.stats.committed(usize::try_from(count).unwrap_or(usize::MAX), since.elapsed());
            let _ = reply.send(published.clone().map(|()| appended));
        }
    }

    async fn publish_to_fleet(&self, tail: &Tail, before: u64, events: Vec<Logged>) -> Result<(), Error> {
        let (since, upto) = (Instant::now(), before + events.len() as u64);
        let mut published: Found<()> = tail.publish(before, events).await;
        while let Err(fault) = &published {
            if since.elapsed() >= self.ports.patience {
                return Err(failure::failed(&self.target.server, "publishing a commit of", fault));
            }
            sleep(RETRY).await;
            published = tail.reach(upto).await;
        }
        Ok(())
    }
}
