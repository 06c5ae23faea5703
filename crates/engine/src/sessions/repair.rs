//! Repairing sessions whose last owner could not end its turn: the process died, its actor panicked, or the store
//! refused to write.
//!
//! Only a commit ends a turn. So a session that could not be written stays busy, for the status route and for the
//! event stream alike, until a repair is stored. One task tries for as long as any session needs it: after a growing
//! pause, or when a commit of any session has succeeded.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{StreamExt, TryStreamExt, stream};
use protocol::{EventBody, MessageId, SessionId, SessionStatus, event::StatusChanged, request::Request};
use tokio::{sync::Notify, time::timeout};

use super::{Sessions, Shared};
use crate::{
    Error,
    bus::Place,
    limits::{MAX_REPAIR_PAUSE, REPAIRS_AT_ONCE},
    ports::{self, Appended, Commit, Failure},
    session::Command,
};

/// Why a session needs repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The process that ran its turn is gone, or its actor panicked.
    Died,
    /// The store did not take what the turn said.
    Unstored(Failure),
}

/// A session that needs repair.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    pub(crate) cause: Cause,
    /// A client has aborted the session since: its prompts are ended and not run.
    pub(crate) aborted: bool,
    /// Prompts that were accepted after that abort, which are run.
    pub(crate) spared: Vec<MessageId>,
}

impl Damage {
    pub(crate) fn new(cause: Cause) -> Self {
        Self { cause, aborted: false, spared: Vec::new() }
    }
}

/// The sessions that need repair.
#[derive(Default)]
pub(crate) struct Unfinished {
    inner: Mutex<Inner>,
    /// A commit has succeeded while sessions needed repair.
    written: Notify,
}

#[derive(Default)]
struct Inner {
    sessions: BTreeMap<SessionId, Damage>,
    /// Whether the task that repairs them runs.
    repairing: bool,
    /// The session that the store had no space for when it was tried last. The next try begins after it: one that
    /// needs much space must not stand in the way of those that need little.
    refused: Option<SessionId>,
    /// The last error that made an actor drop its commands.
    error: Option<ports::Error>,
}

impl Unfinished {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many sessions need repair.
    pub(crate) fn count(&self) -> usize {
        self.lock().sessions.len()
    }

    /// What is wrong with a session; none if nothing is.
    pub(crate) fn damage(&self, id: &SessionId) -> Option<Damage> {
        self.lock().sessions.get(id).cloned()
    }

    /// Notes that a session is in order, or gone.
    pub(crate) fn repaired(&self, id: &SessionId) {
        self.lock().sessions.remove(id);
    }

    /// Notes that a client aborts a session; false if the session needs no repair.
    fn abort(&self, id: &SessionId) -> bool {
        let mut inner = self.lock();
        let Some(damage) = inner.sessions.get_mut(id) else { return false };
        (damage.aborted, damage.spared) = (true, Vec::new());
        true
    }

    /// Why an actor dropped its commands.
    pub(super) fn error(&self) -> ports::Error {
        self.lock().error.clone().unwrap_or_else(|| {
            ports::Error::new(Failure::Unavailable, "the session could not be written; try again")
        })
    }

    /// The sessions, in the order in which they are to be tried.
    fn ids(&self) -> Vec<SessionId> {
        let inner = self.lock();
        let later = |id: &&SessionId| inner.refused.as_ref().is_none_or(|refused| *id > refused);
        let (later, earlier): (Vec<_>, Vec<_>) = inner.sessions.keys().partition(later);
        later.into_iter().chain(earlier).cloned().collect()
    }

    /// Adds a session. An abort that was noted before is kept.
    fn add(&self, id: SessionId, damage: Damage) {
        let mut inner = self.lock();
        let known = inner.sessions.entry(id).or_insert_with(|| damage.clone());
        if damage.aborted {
            *known = damage;
        }
    }

    /// Whether a task has to be started, which runs from now on.
    fn begin(&self) -> bool {
        let mut inner = self.lock();
        !inner.sessions.is_empty() && !std::mem::replace(&mut inner.repairing, true)
    }

    /// Whether the task may end, because nothing is left to repair.
    fn end(&self, closed: bool) -> bool {
        let mut inner = self.lock();
        inner.repairing = !closed && !inner.sessions.is_empty();
        !inner.repairing
    }
}

impl Shared {
    /// Appends to the log. A success tells the repair task that the store can write.
    pub(crate) async fn append(&self, commit: Commit) -> Result<Appended, ports::Error> {
        let appended = self.log.append(commit).await?;
        if self.unfinished.count() > 0 {
            self.unfinished.written.notify_one();
        }
        Ok(appended)
    }
}

impl Sessions {
    /// Has a session repaired as soon as the store can write. Callers whose commands its actor dropped are told the
    /// error.
    pub(crate) fn needs_repair(&self, id: SessionId, damage: Damage, error: ports::Error) {
        let unfinished = &self.shared.unfinished;
        unfinished.lock().error = Some(error);
        unfinished.add(id, damage);
        self.start_repairs();
    }

    /// Notes an abort of a session that needs repair; false if it needs none.
    pub(crate) fn abort_unfinished(&self, id: &SessionId) -> bool {
        self.shared.unfinished.abort(id)
    }

    /// Why sessions wait for repair, for people; none if none does.
    pub fn problem(&self) -> Option<String> {
        let inner = self.shared.unfinished.lock();
        let (count, failure) = (inner.sessions.len(), inner.error.as_ref().map(|error| error.failure));
        let why = match failure {
            Some(Failure::Full) => "no space is left for the database; free some".to_owned(),
            Some(failure) => format!("{failure}; the server's log has the cause"),
            None => "what the last server left unfinished is being repaired".to_owned(),
        };
        (count > 0).then(|| format!("{why} (sessions that wait for repair: {count})"))
    }

    fn start_repairs(&self) {
        if self.shared.unfinished.begin() {
            let problem = self.problem().unwrap_or_default();
            tracing::warn!(problem, "sessions wait for repair");
            tokio::spawn(self.clone().repair_until_done());
        }
    }

    async fn repair_until_done(self) {
        let shared = &self.shared;
        let mut pause = shared.limits.store_retry;
        loop {
            tokio::time::sleep(shared.limits.store_retry).await;
            let rest = pause.saturating_sub(shared.limits.store_retry);
            // A success of another session and the end of the pause mean the same: it is worth a try.
            let _ = timeout(rest, shared.unfinished.written.notified()).await;
            let closed = shared.registry.is_closed();
            let repaired = if closed { 0 } else { self.repair_all().await };
            if shared.unfinished.end(closed) {
                if !closed {
                    tracing::info!("no session waits for repair any more");
                }
                return;
            }
            pause = if repaired > 0 { shared.limits.store_retry } else { (pause * 2).min(MAX_REPAIR_PAUSE) };
        }
    }

    /// Tries to repair every session that needs it; how many are in order now.
    async fn repair_all(&self) -> usize {
        let unfinished = &self.shared.unfinished;
        let mut ids = unfinished.ids().into_iter();
        let mut repaired = 0;
        // One at a time until the store has taken one: as long as it is full, the others need not try.
        for id in ids.by_ref() {
            match timeout(self.shared.limits.recovery, self.repair(&id)).await {
                Ok(Err(Error::Store(error))) if error.failure == Failure::Full => {
                    unfinished.lock().refused = Some(id);
                    return 0;
                }
                Ok(Err(_)) => {}
                Ok(Ok(())) => {
                    repaired += 1;
                    break;
                }
                // Its actor has more to do than to write, such as to read the configuration of its directory.
                Err(_) => break,
            }
        }
        // Then many at once, so that the store can write them in few transactions.
        let rest = stream::iter(ids).map(|id| async move { self.repair(&id).await.is_ok() });
        repaired
            + rest.buffer_unordered(REPAIRS_AT_ONCE).filter(|done| std::future::ready(*done)).count().await
    }

    /// Starts the session's actor, which repairs it first.
    async fn repair(&self, id: &SessionId) -> Result<(), Error> {
        match self.ask(id, Command::Settle).await {
            Err(Error::NotFound { .. }) => {
                self.shared.unfinished.repaired(id);
                Ok(())
            }
            settled => settled,
        }
    }

    /// Repairs what a dead owner left: closes open turns as interrupted and takes up waiting prompts. To be called
    /// once, before the first request is served. What cannot be repaired in [`crate::limits::Limits::recovery`],
    /// because there is too much of it or the disk is full, is repaired while the server runs. Tells how many
    /// sessions needed repair.
    pub async fn recover(&self) -> Result<usize, Error> {
        let shared = &self.shared;
        let (_, newest) = shared.reads.bounds().await?;
        shared.bus.seed(newest);
        let unfinished = shared.reads.unfinished().await?;
        let requests = shared.reads.requests().await?;
        self.remember(shared.reads.statuses().await?, &requests).await?;
        for id in &unfinished {
            shared.unfinished.add(id.clone(), Damage::new(Cause::Died));
        }
        let _ = timeout(shared.limits.recovery, self.repair_all()).await;
        shared.bus.open();
        self.start_repairs();
        self.keep_deadlines(requests.iter().map(|(_, request)| request.session_id().clone()).collect());
        Ok(unfinished.len())
    }

    /// Tells the bus what a client that joins has to know: which sessions are not idle, and which requests wait.
    async fn remember(
        &self,
        statuses: Vec<(SessionId, Arc<str>, SessionStatus)>,
        requests: &[(Arc<str>, Request)],
    ) -> Result<(), Error> {
        let statuses = statuses.into_iter().map(|(session_id, directory, status)| {
            let status = StatusChanged::new(session_id.clone(), status);
            (directory, session_id, EventBody::SessionStatus(status))
        });
        let requests = requests.iter().map(|(directory, request)| {
            (directory.clone(), request.session_id().clone(), asked(request.clone()))
        });
        let placed = stream::iter(statuses.chain(requests)).map(|(directory, session, event)| async move {
            let project = self.get(&session).await?.project_id.into();
            Ok::<_, Error>((Place { directory, project }, event))
        });
        let placed: Vec<_> = placed.buffered(REPAIRS_AT_ONCE).try_collect().await?;
        for (place, event) in placed {
            self.shared.bus.remember(&place, &event);
        }
        Ok(())
    }

    /// Starts the actors of sessions whose requests outlived their turn: they keep the deadlines. A repair and an
    /// answer start the actor by themselves.
    fn keep_deadlines(&self, waiting: BTreeSet<SessionId>) {
        let sessions = self.clone();
        tokio::spawn(async move {
            let sessions = &sessions;
            let settle = |id: SessionId| async move {
                if sessions.shared.unfinished.damage(&id).is_none()
                    && let Err(error) = sessions.ask(&id, Command::Settle).await
                {
                    tracing::warn!(session = %id, %error, "the deadline of a waiting request is not kept");
                }
            };
            stream::iter(waiting).for_each_concurrent(REPAIRS_AT_ONCE, settle).await;
        });
    }
}

fn asked(request: Request) -> EventBody {
    match request {
        Request::Permission(request) => EventBody::PermissionAsked(request),
        Request::Question(request) => EventBody::QuestionAsked(request),
    }
}
