//! Saving what the actor says, and what to do when that fails.

use protocol::EndReason;
use tokio::time::Instant;

use super::{actor::Actor, command::Command};
use crate::{
    Error,
    limits::STORE_TRIES,
    ports::{self, Commit, Failure},
};

impl Actor {
    /// Stores the waiting events in one transaction; they are published by it. If that fails they are dropped:
    /// for changes that somebody asked for and can be told about.
    pub(super) async fn save(&mut self, flush: bool) -> Result<(), Error> {
        if self.unsaved.is_empty() {
            return Ok(());
        }
        let commit = self.commit(flush);
        self.unsaved.clear();
        let appended = self.append(commit).await;
        // Only a full disk is known to have left no trace. After anything else the next actor looks what the
        // store really holds.
        self.broken |= appended.as_ref().is_err_and(|error| error.failure != Failure::Full);
        appended.map_err(Error::from)
    }

    /// Stores the waiting events of a turn. There is nobody to complain to, so it tries again for a while; if
    /// the store stays out of order, the actor is broken.
    pub(super) async fn flush(&mut self) {
        if self.unsaved.is_empty() || self.broken {
            return;
        }
        let commit = self.commit(false);
        for attempt in 1..=STORE_TRIES {
            match self.append(commit.clone()).await {
                Ok(()) => {
                    self.unsaved.clear();
                    return;
                }
                Err(error) if error.failure == Failure::Conflict || attempt == STORE_TRIES => {
                    tracing::error!(session = %self.session.id, %error, "the turn could not be stored and is given up");
                    self.broken = true;
                }
                Err(error) => {
                    tracing::warn!(session = %self.session.id, %error, attempt, "storing failed; trying again");
                    tokio::time::sleep(self.shared().limits.store_retry).await;
                }
            }
            if self.broken {
                return;
            }
        }
    }

    fn commit(&self, flush: bool) -> Commit {
        let mint = &self.shared().mint;
        Commit {
            session: self.session.id.clone(),
            directory: self.place.directory.clone(),
            project: self.place.project.clone(),
            expected: self.head,
            events: self.unsaved.iter().map(|body| mint.encoded(body.clone())).collect(),
            flush,
        }
    }

    async fn append(&mut self, commit: Commit) -> Result<(), ports::Error> {
        let appended = self.shared().log.append(commit).await?;
        self.head = appended.head;
        Ok(())
    }

    /// Saves the text of open parts, if it is time to.
    pub(super) async fn checkpoint(&mut self, now: Instant) {
        let interval = self.shared().limits.checkpoint;
        let Some(run) = &mut self.run else { return };
        let dirty = run.take_dirty(now, interval);
        if !dirty.is_empty()
            && let Err(error) = self.shared().log.checkpoint(dirty).await
        {
            // The text is still in memory and will be stored with its part; only a crash could lose it.
            tracing::warn!(session = %self.session.id, %error, "open text could not be saved");
        }
    }

    /// The store is out of order: stop everything, tell who listens that the session is idle, and leave the
    /// rest to the next actor, which repairs the session from what was stored.
    pub(super) fn give_up(mut self) {
        self.run.take(); // dropping it stops the runner
        let shared = self.sessions.shared.clone();
        shared.registry.count_waiting(self.life.waiting(), 0);
        shared.registry.suspect(self.session.id.clone());
        if self.life.is_busy() {
            self.push_idle(EndReason::Error);
        }
        for body in std::mem::take(&mut self.unsaved) {
            shared.bus.publish(Some(&self.place), &shared.mint.event(body));
        }
        shared.registry.remove(&self.session.id);
        while let Ok(command) = self.inbox.try_recv() {
            // Whoever wanted it to stop has it stopped; the others are told to try again.
            if let Command::Abort(reply) | Command::Interrupt(reply) = command {
                self.idle_waiters.push(reply);
            }
        }
        for waiter in self.prompt_waiters.into_values().flatten() {
            let _ = waiter.send(EndReason::Error);
        }
        for waiter in self.idle_waiters {
            let _ = waiter.send(());
        }
    }
}
