//! Stores the actor's events, and handles failures of the store.

use protocol::{EventBody, MessageError, event::SessionFailed};
use tokio::time::Instant;

use super::{actor::Actor, command::Command};
use crate::{
    Error,
    lifecycle::{Effect, Input, Stop},
    limits::STORE_TRIES,
    ports::{self, Commit, StoreFailure},
    sessions::{Cause, DamagedSession},
};

impl Actor {
    /// Stores the waiting events in one transaction, which publishes them. If that fails the events are dropped:
    /// for changes whose caller receives the error.
    pub(super) async fn save(&mut self, flush: bool) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            // Events of a turn that could not be stored are still waiting, and must not be stored together with
            // these.
            return Err(error.clone().into());
        }
        if self.unsaved.is_empty() {
            return Ok(());
        }
        let appended = self.append(flush).await;
        self.unsaved.clear();
        // Only a full disk is known to have written nothing. After any other error the next actor checks what the
        // store contains.
        self.broken = appended.as_ref().err().filter(|error| error.failure != StoreFailure::Full).cloned();
        appended.map_err(Error::from)
    }

    /// Stores the waiting events of a turn. No caller waits for an error, so it retries for a while; if the store
    /// keeps failing, the actor is broken.
    pub(super) async fn flush(&mut self) {
        if self.unsaved.is_empty() || self.broken.is_some() {
            return;
        }
        for attempt in 1..=STORE_TRIES {
            match self.append(false).await {
                Ok(()) => return,
                Err(error) if error.failure == StoreFailure::Fenced => {
                    self.broken = Some(error);
                    return;
                }
                Err(error) if error.failure == StoreFailure::Conflict || attempt == STORE_TRIES => {
                    tracing::error!(session = %self.session.id, %error, "failed to store the turn's events; giving the turn up");
                    self.broken = Some(error);
                    return;
                }
                Err(error) => {
                    tracing::warn!(session = %self.session.id, %error, attempt, "failed to store the turn's events; retrying");
                    tokio::time::sleep(self.shared().limits.store_retry).await;
                }
            }
        }
    }

    pub(super) fn commit(&self, flush: bool) -> Commit {
        let mint = &self.shared().mint;
        Commit {
            session: self.session.id.clone(),
            fence: self.fence.clone(),
            directory: self.place.directory.clone(),
            project: self.place.project.clone(),
            expected: self.head,
            events: self.unsaved.iter().map(|body| mint.encoded(body.clone())).collect(),
            flush,
        }
    }

    /// Stores the waiting events. They go on waiting if that fails.
    async fn append(&mut self, flush: bool) -> Result<(), ports::Error> {
        let (commit, before) = (self.commit(flush), self.version());
        let sizes: Vec<usize> = commit.events.iter().map(|event| event.json.len()).collect();
        self.head = self.shared().append(commit).await?.head;
        let stored = std::mem::take(&mut self.unsaved).into_iter().zip(sizes);
        self.shared().histories.committed(&self.session.id, (before, self.version()), stored);
        Ok(())
    }

    /// Saves the text of open parts, if it is time to.
    pub(super) async fn checkpoint(&mut self, now: Instant) {
        let interval = self.shared().limits.checkpoint;
        let Some(run) = &mut self.run else { return };
        let dirty = run.take_dirty(now, interval);
        if dirty.is_empty() {
            return;
        }
        match self.shared().log.checkpoint(self.fence.clone(), dirty).await {
            Ok(()) => {}
            Err(error) if error.failure == StoreFailure::Fenced => self.broken = Some(error),
            // The text is still in memory and will be stored with its part; only a crash could lose it.
            Err(error) => tracing::warn!(session = %self.session.id, %error, "failed to save open text"),
        }
    }

    /// Gives the session up after a failed commit: stops everything and leaves the session to a repair, which ends
    /// the turn from what was stored. No idle is published before it is stored, so waiting callers get the error
    /// instead.
    pub(super) fn give_up(mut self, error: ports::Error) {
        // Dropping the run stops the runner. A turn that had no run yet is not stopped: the repair begins it.
        let has_begun = self.run.take().is_some() || self.last.is_some();
        let (sessions, id) = (self.sessions.clone(), self.session.id.clone());
        let shared = &sessions.shared;
        shared.registry.count_waiting(self.life.waiting(), 0);
        if error.failure == StoreFailure::Fenced {
            // The new owner ends the turn. Anything published here could contradict it.
            return sessions.leave(&id, error);
        }
        // The actor cannot know whether its last commit was stored; the bus does.
        if has_begun && shared.bus.is_busy(&id) {
            let error = Some(unstored(error.failure));
            let failed = SessionFailed::new(Some(id.clone()), error);
            shared.bus.publish(Some(&self.place), &shared.mint.event(EventBody::SessionError(failed)));
        }
        let (aborted, spared) = (self.aborting.is_some(), self.aborting.take().unwrap_or_default());
        let damage = DamagedSession { cause: Cause::Unstored(error.failure), aborted, spared };
        for effect in self.life.step(Input::Stop(Stop::Abort)) {
            if let Effect::StopChild((child, _)) = effect {
                self.stop_child(child);
            }
        }
        sessions.needs_repair(id.clone(), damage, error);
        shared.registry.remove(&id);
        while let Ok(command) = self.inbox.try_recv() {
            if matches!(command, Command::Abort(_) | Command::Delete(None, _)) {
                sessions.abort_unfinished(&id);
            }
        }
    }
}

/// The error of a turn that was stopped because its events could not be stored.
pub(super) fn unstored(failure: StoreFailure) -> MessageError {
    MessageError::unknown(match failure {
        StoreFailure::Full => {
            "The turn was stopped because no space is left for the database; the session can be used again as soon as \
             some is free"
        }
        _ => {
            "The turn was stopped because the database could not be written (the server's log has the cause); the \
             session can be used again as soon as it can"
        }
    })
}
