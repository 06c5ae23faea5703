//! The live actors and the engine's counters.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
};

use protocol::{EndReason, SessionId};
use tokio::sync::mpsc;

use super::Sessions;
use crate::{
    Error,
    bus::BusStats,
    limits::MAX_INBOX,
    session::{self, Command, Used},
};

/// Live actors by session.
#[derive(Default)]
pub(crate) struct Registry {
    actors: Mutex<HashMap<SessionId, mpsc::Sender<Command>>>,
    /// New forks whose messages are still being copied.
    reserved: Mutex<HashSet<SessionId>>,
    closed: AtomicBool,
    ended: [AtomicU64; EndReason::ALL.len()],
    waiting: AtomicI64,
    prompts: AtomicU64,
    used: Mutex<Used>,
}

/// Counters for the metrics route.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Sessions with an actor.
    pub live: usize,
    /// Sessions that wait for repair, because the store could not write.
    pub unfinished: usize,
    pub waiting: i64,
    /// Accepted since the start.
    pub prompts: u64,
    /// Turns that ended since the start, by reason.
    pub ended: Vec<(EndReason, u64)>,
    /// Usage of all model calls since the start.
    pub used: Used,
    pub bus: BusStats,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, mpsc::Sender<Command>>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_live(&self, id: &SessionId) -> bool {
        self.lock().contains_key(id)
    }

    /// Reserves a new session for its creator: until the guard is dropped, commands to it fail as busy.
    pub(super) fn reserve(&self, id: &SessionId) -> Reserved<'_> {
        self.reserved().insert(id.clone());
        Reserved { registry: self, session: id.clone() }
    }

    fn reserved(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes an actor, unless a command reached it meanwhile. Commands are put into the inbox under the same
    /// lock, so none can be lost in between.
    pub(crate) fn retire(&self, id: &SessionId, inbox: &mpsc::Receiver<Command>) -> bool {
        let mut actors = self.lock();
        let empty = inbox.is_empty();
        if empty {
            actors.remove(id);
        }
        empty
    }

    /// Removes an actor even if commands are in its inbox, because it cannot continue.
    pub(crate) fn remove(&self, id: &SessionId) {
        self.lock().remove(id);
    }

    /// Refuses further commands and returns the sessions that were live.
    pub(super) fn close(&self) -> Vec<SessionId> {
        self.closed.store(true, Ordering::Release);
        self.lock().keys().cloned().collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn count_end(&self, reason: EndReason) {
        let index = EndReason::ALL.iter().position(|other| *other == reason).unwrap_or(0);
        if let Some(counter) = self.ended.get(index) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_prompt(&self) {
        self.prompts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_use(&self, more: Used) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.and(more);
    }

    pub(crate) fn count_waiting(&self, before: usize, after: usize) {
        let change = i64::try_from(after).unwrap_or(0) - i64::try_from(before).unwrap_or(0);
        if change != 0 {
            self.waiting.fetch_add(change, Ordering::Relaxed);
        }
    }
}

/// A session that only its creator may write to.
pub(super) struct Reserved<'a> {
    registry: &'a Registry,
    session: SessionId,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.registry.reserved().remove(&self.session);
    }
}

impl Sessions {
    pub(crate) fn send(&self, id: &SessionId, command: Command) -> Result<(), Error> {
        let registry = &self.shared.registry;
        if registry.is_closed() && !matches!(command, Command::Interrupt(_)) {
            return Err(Error::Closing);
        }
        if registry.reserved().contains(id) {
            return Err(Error::Busy(id.clone()));
        }
        let mut actors = registry.lock();
        let inbox = actors.entry(id.clone()).or_insert_with(|| {
            let (inbox, commands) = mpsc::channel(MAX_INBOX);
            session::spawn(self.clone(), id.clone(), commands, inbox.clone());
            inbox
        });
        inbox.try_send(command).map_err(|_| {
            Error::Overloaded(format!(
                "{MAX_INBOX} commands are already waiting for session {id}; try again later"
            ))
        })
    }

    pub fn stats(&self) -> Stats {
        let registry = &self.shared.registry;
        let ended = EndReason::ALL.iter().zip(&registry.ended);
        Stats {
            live: registry.lock().len(),
            unfinished: self.shared.unfinished.count(),
            waiting: registry.waiting.load(Ordering::Relaxed),
            prompts: registry.prompts.load(Ordering::Relaxed),
            ended: ended.map(|(reason, count)| (*reason, count.load(Ordering::Relaxed))).collect(),
            used: *registry.used.lock().unwrap_or_else(PoisonError::into_inner),
            bus: self.shared.bus.stats(),
        }
    }
}
