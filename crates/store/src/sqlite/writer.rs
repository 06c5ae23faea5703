//! The one thread that writes.
//!
//! Commits that wait while a transaction runs are written together in the next one: a slow disk makes the groups
//! larger, not the queue longer. Each commit of a group is a savepoint of its own, so a refused one does not affect its
//! neighbours. After the transaction the observer receives the events, then the commits are acknowledged.
//! Maintenance (retention, moving the write-ahead log into the file) comes after that.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use engine::ports::{Appended, Clock, Error, Observer};
use protocol::project::ProjectNote;
use rusqlite::{Connection, config::DbConfig};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    failure,
    lock::Lock,
    note, outbox,
    project::{self, End, Refusal},
    retention::Retention,
    space::Space,
};
use crate::{
    change::Prepared,
    stats::Stats,
    work::{Work, gather},
};

/// Size of the write-ahead log, in pages, at which it is moved into the file (4 MiB): often enough to stay small,
/// seldom enough that its two syncs do not matter.
const LOG_PAGES: i32 = 1_000;

/// Size of the write-ahead log, in pages, above which an idle writer truncates it (16 MiB).
const LOG_PAGES_LARGE: i32 = 4_096;

/// Pages after which a checkpoint is retried that a reader has blocked.
const LOG_PAGES_AGAIN: i32 = 250;

/// Interval at which an idle writer looks for expired events.
const IDLE: Duration = Duration::from_mins(10);

/// A job for the writer.
pub(super) struct Job {
    pub(super) work: Work,
    /// Limits the number of waiting jobs; released when the job is done.
    pub(super) _place: OwnedSemaphorePermit,
}

/// The state of the writer's thread.
pub(super) struct Writer {
    connection: Connection,
    path: Arc<Path>,
    observer: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    stats: Arc<Stats>,
    retention: Retention,
    space: Space,
    end: End,
    /// True if the connection currently syncs every transaction.
    flushing: bool,
    /// Pages in the write-ahead log, as of the last transaction.
    log_pages: Arc<AtomicI32>,
    /// The log is moved into the file when it has this many pages.
    log_limit: i32,
    /// Dropped last: the next server may open the database only after the connection is closed.
    lock: Lock,
}

/// The result of a job inside its transaction.
enum Outcome {
    Appended(Appended),
    Saved,
    Noted(ProjectNote),
    Forgotten(bool),
    Dropped(usize),
    Refused(Error),
}

impl Writer {
    pub(super) fn new(
        mut connection: Connection,
        lock: Lock,
        path: Arc<Path>,
        observer: Arc<dyn Observer>,
        clock: Arc<dyn Clock>,
        stats: Arc<Stats>,
        retention: Retention,
    ) -> rusqlite::Result<Self> {
        let end = project::end(&connection)?;
        let log_pages = Arc::new(AtomicI32::new(0));
        let pages = Arc::clone(&log_pages);
        connection.wal_hook(Some(move |_: &mut _, count| {
            pages.store(count, Relaxed);
            Ok(())
        }))?;
        Ok(Self {
            connection,
            path,
            observer,
            clock,
            stats,
            retention,
            space: Space::default(),
            end,
            flushing: false,
            log_pages,
            log_limit: LOG_PAGES,
            lock,
        })
    }

    /// Works until all senders are gone.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) -> Self {
        let mut more = true;
        loop {
            match jobs.recv_timeout(if more { Duration::ZERO } else { IDLE }) {
                Ok(first) => {
                    let group = gather(first, || jobs.try_recv().ok(), |job| job.work.bytes(), &self.stats);
                    self.carry_out(group);
                    more = self.tidy(false);
                }
                Err(RecvTimeoutError::Timeout) => more = self.tidy(true),
                Err(RecvTimeoutError::Disconnected) => return self,
            }
        }
    }

    fn carry_out(&mut self, group: Vec<Job>) {
        match self.transact(&group) {
            Ok(outcomes) => self.report(group, outcomes),
            // The whole transaction failed, most likely because the disk is full. Retries each job alone: small
            // ones may still fit, and the one at fault must not fail the others.
            Err(_) if group.len() > 1 => group.into_iter().for_each(|job| self.carry_out(vec![job])),
            Err(error) => {
                let refused = |_: &Job| Outcome::Refused(self.failed("writing to", &error));
                let outcomes = group.iter().map(refused).collect();
                self.report(group, outcomes);
            }
        }
    }

    /// Writes a group in one transaction. On an error, nothing of it was written.
    fn transact(&mut self, group: &[Job]) -> rusqlite::Result<Vec<Outcome>> {
        self.flush(group.iter().any(|job| must_flush(&job.work)))?;
        self.execute("BEGIN IMMEDIATE")?;
        let done = self.write_all(group).and_then(|done| {
            // A commit alone has no savepoint: a savepoint copies every page before it is changed.
            let is_refused = matches!(done.0.as_slice(), [Outcome::Refused(_)]);
            self.execute(if is_refused { "ROLLBACK" } else { "COMMIT" }).map(|()| done)
        });
        match done {
            Ok((outcomes, end)) => {
                self.end = end;
                self.stats.transaction();
                Ok(outcomes)
            }
            Err(error) => {
                // SQLite has already rolled back after some errors.
                if !self.connection.is_autocommit()
                    && let Err(error) = self.execute("ROLLBACK")
                {
                    tracing::error!(path = %self.path.display(), %error, "failed to roll back a transaction");
                }
                Err(error)
            }
        }
    }

    fn write_all(&self, group: &[Job]) -> rusqlite::Result<(Vec<Outcome>, End)> {
        let now = self.clock.now();
        let mut end = self.end;
        let mut outcomes = Vec::with_capacity(group.len());
        let is_alone = group.len() == 1;
        for job in group {
            if !is_alone {
                self.execute("SAVEPOINT one")?;
            }
            let written = match &job.work {
                Work::Append { commits, .. } => project::write_all(&self.connection, commits, end, now)
                    .map(|(appended, next)| (Outcome::Appended(appended), next)),
                Work::Checkpoint { parts, .. } => parts
                    .iter()
                    .try_for_each(|part| project::checkpoint(&self.connection, part))
                    .map(|()| (Outcome::Saved, end))
                    .map_err(Refusal::Sql),
                Work::Note { project, newer, .. } => note::amend(&self.connection, project, newer.clone())
                    .map(|note| (Outcome::Noted(note), end))
                    .map_err(Refusal::Sql),
                Work::Forget { approval, .. } => project::forget(&self.connection, approval)
                    .map(|known| (Outcome::Forgotten(known), end))
                    .map_err(Refusal::Sql),
                Work::Outbox { change, .. } => outbox::write(&self.connection, change)
                    .map(|dropped| (Outcome::Dropped(dropped), end))
                    .map_err(Refusal::Sql),
                #[cfg(test)]
                Work::LimitPages { pages, .. } => self
                    .connection
                    .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
                    .map(|()| (Outcome::Saved, end))
                    .map_err(Refusal::Sql),
            };
            match written {
                Ok((outcome, next)) => {
                    end = next;
                    outcomes.push(outcome);
                }
                Err(Refusal::Sql(error)) if self.connection.is_autocommit() => return Err(error),
                Err(refusal) => {
                    if !is_alone {
                        self.execute("ROLLBACK TO one")?;
                    }
                    outcomes.push(Outcome::Refused(match refusal {
                        Refusal::Unfit(error) => error,
                        Refusal::Sql(error) => self.failed("writing to", &error),
                    }));
                }
            }
            if !is_alone {
                self.execute("RELEASE one")?;
            }
        }
        Ok((outcomes, end))
    }

    /// Notifies the observer and the callers, in the order of the log. A commit stands even if its caller is gone.
    fn report(&mut self, group: Vec<Job>, outcomes: Vec<Outcome>) {
        for (job, outcome) in group.into_iter().zip(outcomes) {
            match (job.work, outcome) {
                (work, Outcome::Refused(error)) => work.refuse(&error, &self.stats),
                (Work::Append { commits, since, reply }, Outcome::Appended(appended)) => {
                    let events = self.publish(commits, appended);
                    self.stats.committed(events, since.elapsed());
                    let _ = reply.send(Ok(appended));
                }
                (Work::Checkpoint { reply, .. }, Outcome::Saved) => drop(reply.send(Ok(()))),
                (Work::Note { reply, .. }, Outcome::Noted(note)) => drop(reply.send(Ok(note))),
                (Work::Forget { reply, .. }, Outcome::Forgotten(known)) => drop(reply.send(Ok(known))),
                (Work::Outbox { reply, .. }, Outcome::Dropped(dropped)) => drop(reply.send(Ok(dropped))),
                #[cfg(test)]
                (Work::LimitPages { reply, .. }, Outcome::Saved) => drop(reply.send(Ok(()))),
                // An outcome that does not match its work cannot occur; the caller then gets the error of a closed
                // store.
                _ => {}
            }
        }
    }

    /// Hands stored commits to the observer and returns their number of events.
    fn publish(&mut self, commits: Vec<Prepared>, appended: Appended) -> usize {
        let events = commits.iter().map(|commit| commit.entries.len()).sum();
        let mut first = appended.position + 1 - events as u64;
        for commit in commits {
            if commit.removes() {
                self.space.removed();
            }
            if !commit.entries.is_empty() {
                let next = first + commit.entries.len() as u64;
                self.observer.committed(commit.into_logged(first));
                first = next;
            }
        }
        events
    }

    /// Does some maintenance; returns true if there is more.
    fn tidy(&mut self, idle: bool) -> bool {
        let pages = self.log_pages.load(Relaxed);
        if pages >= LOG_PAGES_LARGE {
            self.space.log_grew();
        }
        if pages >= self.log_limit {
            self.move_log("PASSIVE");
        }
        match self.retention.trim(&mut self.connection, self.end, self.clock.now(), idle) {
            Ok(trimmed) => {
                self.stats.trimmed(trimmed.events);
                if trimmed.events > 0 {
                    self.space.removed();
                }
                trimmed.more || self.give_back(idle)
            }
            Err(error) => {
                // Retried with the next commit; until then the log is a little too long.
                tracing::warn!(path = %self.path.display(), %error, "failed to remove old events; will retry");
                false
            }
        }
    }

    /// Returns space while no job waits; returns true if there is more.
    fn give_back(&mut self, idle: bool) -> bool {
        if !idle {
            return self.space.is_wanted();
        }
        self.space.give_back(&self.connection, &self.path).unwrap_or_else(|error| {
            // Retried after the next removal; until then the file is larger than necessary.
            tracing::warn!(path = %self.path.display(), %error, "failed to return free space; will retry");
            false
        })
    }

    fn flush(&mut self, wanted: bool) -> rusqlite::Result<()> {
        if wanted != self.flushing {
            let level = if wanted { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.flushing = wanted;
        }
        Ok(())
    }

    fn move_log(&mut self, how: &str) {
        let sql = format!("PRAGMA wal_checkpoint({how})");
        let pages = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i32>(1)?, row.get::<_, i32>(2)?));
        match self.connection.query_row(&sql, [], pages) {
            Ok((all, moved)) => {
                self.log_limit = if moved == all { LOG_PAGES } else { all + LOG_PAGES_AGAIN };
                // Unknown until the next transaction; it begins at the front again if everything was moved.
                self.log_pages.store(0, Relaxed);
            }
            // The log only grows until there is space in the file again.
            Err(error) => {
                self.log_limit = self.log_pages.load(Relaxed) + LOG_PAGES_AGAIN;
                tracing::warn!(path = %self.path.display(), %error, "failed to move the write-ahead log into the database file; will retry");
            }
        }
    }

    /// Moves everything into the file and releases it for the next server. The emptied write-ahead log and its
    /// shared memory stay beside it, because the next start could not create them on a full disk. If a query is
    /// still running, the lock is kept until the process ends: dropping it would take the reader's own lock away
    /// (see [`Lock`]).
    pub(super) fn close(mut self, readers_gone: bool) {
        self.move_log("TRUNCATE");
        let Self { connection, path, lock, .. } = self;
        // Only the checkpoint of the last connection to close removes the files, and ours is already done.
        if let Err(error) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
            tracing::debug!(path = %path.display(), %error, "failed to keep the write-ahead log; closing removes it");
        }
        if let Err((connection, error)) = connection.close() {
            tracing::warn!(path = %path.display(), %error, "failed to close the database cleanly");
            drop(connection);
        }
        if readers_gone {
            drop(lock);
        } else {
            std::mem::forget(lock);
        }
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn failed(&self, doing: &str, error: &rusqlite::Error) -> Error {
        failure::failed(&self.path, doing, error)
    }
}

/// Returns true if a job must survive a power cut before it is acknowledged.
fn must_flush(work: &Work) -> bool {
    match work {
        Work::Append { commits, .. } => commits.iter().any(|commit| commit.flush),
        Work::Note { .. } | Work::Forget { .. } => true,
        // Notices follow from the log: a power cut that takes a notice takes its event too.
        Work::Checkpoint { .. } | Work::Outbox { .. } => false,
        #[cfg(test)]
        Work::LimitPages { .. } => false,
    }
}
