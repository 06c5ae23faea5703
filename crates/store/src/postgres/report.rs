//! Tells the observer and the callers of a group that it is stored, or why it is not.

use std::{sync::Arc, time::Duration};

use engine::ports::{Appended, Error, Logged};
use tokio::time::{Instant, sleep};

use super::{failure, query::Found, tail::Tail, writer::Writer};
use crate::{change::Prepared, work::Work};

/// Pause between two attempts to publish a commit that follows those of other nodes.
const RETRY: Duration = Duration::from_millis(250);

impl Writer {
    /// Answers the callers of a group in doubt, and keeps its commits in case they turn out to be stored.
    pub(super) fn give_up(&mut self, jobs: Vec<Work>, error: &Error) {
        let mut doubted = Vec::new();
        for mut job in jobs {
            if let Work::Append { commits, .. } = &mut job {
                doubted.append(commits);
            }
            job.refuse(error, &self.ports.stats);
        }
        if self.doubt.events > 0 {
            self.doubt.commits = doubted;
        }
    }

    pub(super) fn refuse(&self, jobs: Vec<Work>, error: &Error) {
        for job in jobs {
            job.refuse(error, &self.ports.stats);
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
                Work::Append { commits, since, reply } => {
                    let (mut head, mut events) = (0, 0);
                    for commit in commits {
                        head = commit.expected + commit.entries.len() as u64;
                        events += commit.entries.len();
                        self.publish(commit);
                    }
                    self.ports.stats.committed(events, since.elapsed());
                    let _ = reply.send(Ok(Appended { head, position: self.position }));
                }
                Work::Checkpoint { reply, .. } => drop(reply.send(Ok(()))),
                // A group has no other jobs.
                _ => {}
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
                Work::Append { commits, since, reply } => {
                    let (mut head, count) = (0, events.len());
                    for commit in commits {
                        head = commit.expected + commit.entries.len() as u64;
                        events.extend(commit.into_logged(before + events.len() as u64 + 1));
                    }
                    self.position = before + events.len() as u64;
                    let appended = Appended { head, position: self.position };
                    answers.push((reply, appended, since, events.len() - count));
                }
                Work::Checkpoint { reply, .. } => drop(reply.send(Ok(()))),
                // A group has no other jobs.
                _ => {}
            }
        }
        let published = self.publish_to_fleet(tail, before, events).await;
        for (reply, appended, since, count) in answers {
            self.ports.stats.committed(count, since.elapsed());
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
