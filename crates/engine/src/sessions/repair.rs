//! Repairs sessions whose last owner could not end its turn: the process died, its actor panicked, or the store
//! failed to write.
//!
//! Only a commit ends a turn. A session that could not be written therefore stays busy, for the status route and
//! for the event stream alike, until a repair is stored. One task retries while any session needs repair: after a
//! growing pause, or when a commit of any session has succeeded.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use futures::{StreamExt, TryStreamExt, stream};
use protocol::{
    EventBody, MessageId, SessionId, SessionStatus, WorkspaceId, event::StatusChanged, request::Request,
};
use tokio::{sync::Notify, time::timeout};

use super::{Sessions, Shared};
use crate::{
    Error,
    bus::Place,
    limits::{MAX_REPAIR_PAUSE, REPAIRS_AT_ONCE},
    ports::{self, Appended, Commit, StoreFailure},
    session::Command,
};

/// The reason why a session needs repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The process that ran the turn died, or its actor panicked.
    Died,
    /// The store did not accept the turn's events.
    Unstored(StoreFailure),
}

/// A session that needs repair.
#[derive(Debug, Clone)]
pub(crate) struct DamagedSession {
    pub(crate) cause: Cause,
    /// A client has aborted the session since: its prompts end without a run.
    pub(crate) aborted: bool,
    /// Prompts that were accepted after that abort; they still run.
    pub(crate) spared: Vec<MessageId>,
}

impl DamagedSession {
    pub(crate) fn new(cause: Cause) -> Self {
        Self { cause, aborted: false, spared: Vec::new() }
    }
}

/// The sessions that need repair.
#[derive(Default)]
pub(crate) struct Unfinished {
    inner: Mutex<Inner>,
    /// Notified when a commit succeeds while sessions need repair.
    written: Notify,
}

#[derive(Default)]
struct Inner {
    sessions: BTreeMap<SessionId, DamagedSession>,
    /// True while the repair task runs.
    repairing: bool,
    /// The last session for which the store had no space. The next attempt begins after it, so that a session that
    /// needs much space does not block those that need little.
    refused: Option<SessionId>,
    /// The error that made an actor drop its commands most recently.
    error: Option<ports::Error>,
}

impl Unfinished {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of sessions that need repair.
    pub(crate) fn count(&self) -> usize {
        self.lock().sessions.len()
    }

    /// The damage of a session; `None` if it needs no repair.
    pub(crate) fn damage(&self, id: &SessionId) -> Option<DamagedSession> {
        self.lock().sessions.get(id).cloned()
    }

    /// Removes a session that was repaired or deleted.
    pub(crate) fn repaired(&self, id: &SessionId) {
        self.lock().sessions.remove(id);
    }

    /// Records that a client aborts a session; false if the session needs no repair.
    fn abort(&self, id: &SessionId) -> bool {
        let mut inner = self.lock();
        let Some(damage) = inner.sessions.get_mut(id) else { return false };
        (damage.aborted, damage.spared) = (true, Vec::new());
        true
    }

    /// The error to return for commands that an actor dropped.
    pub(super) fn error(&self) -> ports::Error {
        self.lock().error.clone().unwrap_or_else(|| {
            ports::Error::new(StoreFailure::Unavailable, "the session could not be written; try again")
        })
    }

    /// The sessions in the order of the next attempt.
    fn ids(&self) -> Vec<SessionId> {
        let inner = self.lock();
        let later = |id: &&SessionId| inner.refused.as_ref().is_none_or(|refused| *id > refused);
        let (later, earlier): (Vec<_>, Vec<_>) = inner.sessions.keys().partition(later);
        later.into_iter().chain(earlier).cloned().collect()
    }

    /// Adds a session. An abort that was recorded before is kept.
    fn add(&self, id: SessionId, damage: DamagedSession) {
        let mut inner = self.lock();
        let known = inner.sessions.entry(id).or_insert_with(|| damage.clone());
        if damage.aborted {
            *known = damage;
        }
    }

    /// Returns true if the caller has to start the repair task.
    fn begin(&self) -> bool {
        let mut inner = self.lock();
        !inner.sessions.is_empty() && !std::mem::replace(&mut inner.repairing, true)
    }

    /// Returns true if the repair task may end, because nothing is left to repair.
    fn end(&self, closed: bool) -> bool {
        let mut inner = self.lock();
        inner.repairing = !closed && !inner.sessions.is_empty();
        !inner.repairing
    }
}

impl Shared {
    /// Appends to the log. A success wakes the repair task, because the store can write.
    pub(crate) async fn append(&self, commit: Commit) -> Result<Appended, ports::Error> {
        self.append_all(vec![commit]).await
    }

    /// Appends the commits of several sessions in one transaction.
    pub(crate) async fn append_all(&self, commits: Vec<Commit>) -> Result<Appended, ports::Error> {
        let appended = self.log.append_all(commits).await?;
        if self.unfinished.count() > 0 {
            self.unfinished.written.notify_one();
        }
        Ok(appended)
    }
}

impl Sessions {
    /// Schedules a repair for as soon as the store can write. Callers whose commands the actor dropped get the
    /// error.
    pub(crate) fn needs_repair(&self, id: SessionId, damage: DamagedSession, error: ports::Error) {
        let unfinished = &self.shared.unfinished;
        unfinished.lock().error = Some(error);
        unfinished.add(id, damage);
        self.start_repairs();
    }

    /// Leaves a session to the node that owns its workspace. Callers whose commands the actor dropped get the error.
    pub(crate) fn leave(&self, id: &SessionId, error: ports::Error) {
        tracing::info!(session = %id, %error, "this server may not write the session any more");
        self.shared.unfinished.repaired(id);
        self.shared.unfinished.lock().error = Some(error);
        self.shared.registry.remove(id);
    }

    /// Records an abort of a session that needs repair; false if it needs none.
    pub(crate) fn abort_unfinished(&self, id: &SessionId) -> bool {
        self.shared.unfinished.abort(id)
    }

    /// Explains to the user why sessions wait for repair; `None` if no session does.
    pub fn problem(&self) -> Option<String> {
        let inner = self.shared.unfinished.lock();
        let (count, failure) = (inner.sessions.len(), inner.error.as_ref().map(|error| error.failure));
        let why = match failure {
            Some(StoreFailure::Full) => "no space is left for the database; free some".to_owned(),
            Some(failure) => format!("{failure}; the server's log has the cause"),
            None => "repairing turns that the last server left unfinished".to_owned(),
        };
        (count > 0).then(|| format!("{why} (sessions waiting for repair: {count})"))
    }

    fn start_repairs(&self) {
        if self.shared.unfinished.begin() {
            let problem = self.problem().unwrap_or_default();
            tracing::warn!(problem, "sessions need repair");
            tokio::spawn(self.clone().repair_until_done());
        }
    }

    async fn repair_until_done(self) {
        let shared = &self.shared;
        let mut pause = shared.limits.store_retry;
        loop {
            tokio::time::sleep(shared.limits.store_retry).await;
            let rest = pause.saturating_sub(shared.limits.store_retry);
            // The success of another session and the end of the pause both make an attempt worthwhile.
            let _ = timeout(rest, shared.unfinished.written.notified()).await;
            let closed = shared.registry.is_closed();
            let repaired = if closed { 0 } else { self.repair_all().await };
            if shared.unfinished.end(closed) {
                if !closed {
                    tracing::info!("all sessions are repaired");
                }
                return;
            }
            pause = if repaired > 0 { shared.limits.store_retry } else { (pause * 2).min(MAX_REPAIR_PAUSE) };
        }
    }

    /// Tries to repair every session that needs it; returns the number of repaired ones.
    async fn repair_all(&self) -> usize {
        let unfinished = &self.shared.unfinished;
        let mut ids = unfinished.ids().into_iter();
        let mut repaired = 0;
        // One at a time until the store has accepted one: while it is full, the others need not try.
        for id in ids.by_ref() {
            match timeout(self.shared.limits.recovery, self.repair(&id)).await {
                Ok(Err(Error::Store(error))) if error.failure == StoreFailure::Full => {
                    unfinished.lock().refused = Some(id);
                    return 0;
                }
                Ok(Err(_)) => {}
                Ok(Ok(())) => {
                    repaired += 1;
                    break;
                }
                // This actor does more than write, such as loading the configuration of its directory.
                Err(_) => break,
            }
        }
        // Then many concurrently, so that the store can write them in few transactions.
        let rest = stream::iter(ids).map(|id| async move { self.repair(&id).await.is_ok() });
        repaired
            + rest.buffer_unordered(REPAIRS_AT_ONCE).filter(|done| std::future::ready(*done)).count().await
    }

    /// Starts the session's actor, which repairs the session first.
    async fn repair(&self, id: &SessionId) -> Result<(), Error> {
        match self.ask(id, Command::Settle).await {
            Err(Error::NotFound { .. }) => {
                self.shared.unfinished.repaired(id);
                Ok(())
            }
            settled => settled,
        }
    }

    /// Repairs the children of a session that need it, because a turn ends after the turns that it has started.
    pub(crate) async fn repair_children(&self, id: &SessionId) -> Result<(), Error> {
        for child in self.children(id).await? {
            if self.shared.unfinished.damage(&child.id).is_some() {
                // A child that cannot be repaired now does not keep its parent open.
                let _ = timeout(self.shared.limits.recovery, self.repair(&child.id)).await;
            }
        }
        Ok(())
    }

    /// Repairs sessions that a dead server left unfinished: ends open turns as interrupted and takes up waiting
    /// prompts. Must be called once, before the first client is served. Repairs that take longer than
    /// [`crate::limits::Limits::recovery`], because there are many or the disk is full, continue while the server
    /// runs. Returns the number of sessions that needed repair.
    pub async fn recover(&self) -> Result<usize, Error> {
        let shared = &self.shared;
        let (_, newest) = shared.reads.bounds().await?;
        shared.bus.seed(newest);
        let left = self.find_left(None).await?;
        let _ = timeout(shared.limits.recovery, self.repair_all()).await;
        shared.bus.open();
        self.start_repairs();
        self.keep_deadlines(left.waiting);
        Ok(left.unfinished)
    }

    /// Claims a workspace whose last owner is gone and repairs its sessions, in the same way as [`Self::recover`] but
    /// while clients are served. Sessions that have an actor here are left alone, so it may be repeated. Returns the
    /// number of sessions that needed repair.
    pub async fn adopt(&self, workspace: &WorkspaceId) -> Result<usize, Error> {
        self.shared.bus.fleet().claim(workspace).await?;
        let left = self.find_left(Some(workspace)).await?;
        let _ = timeout(self.shared.limits.recovery, self.repair_all()).await;
        self.start_repairs();
        self.keep_deadlines(left.waiting);
        Ok(left.unfinished)
    }

    /// Finds the sessions of one workspace or of all that a dead owner left unfinished, and schedules their repair.
    async fn find_left(&self, workspace: Option<&WorkspaceId>) -> Result<Left, Error> {
        let shared = &self.shared;
        let is_left = |id: &SessionId| !shared.registry.is_live(id);
        let mut unfinished = shared.reads.unfinished(workspace).await?;
        unfinished.retain(is_left);
        let mut requests = shared.reads.requests(workspace).await?;
        requests.retain(|request| is_left(request.session_id()));
        let mut statuses = shared.reads.statuses(workspace).await?;
        statuses.retain(|(id, _)| is_left(id));
        self.remember(statuses, &requests).await?;
        for id in &unfinished {
            // If an actor of the session has started meanwhile, the next one repairs it.
            shared.unfinished.add(id.clone(), DamagedSession::new(Cause::Died));
        }
        let waiting = requests.iter().map(|request| request.session_id().clone()).collect();
        Ok(Left { unfinished: unfinished.len(), waiting })
    }

    /// Gives the bus the statuses and open requests, which it sends to new subscribers.
    pub(super) async fn remember(
        &self,
        statuses: Vec<(SessionId, SessionStatus)>,
        requests: &[Request],
    ) -> Result<(), Error> {
        let statuses = statuses.into_iter().map(|(session_id, status)| {
            let status = StatusChanged::new(session_id.clone(), status);
            (session_id, EventBody::SessionStatus(status))
        });
        let requests = requests.iter().map(|request| (request.session_id().clone(), asked(request.clone())));
        let going: Vec<_> = statuses.chain(requests).collect();
        let placed = stream::iter(going).map(|(session, event)| async move {
            let (workspace, session) = (self.workspace_of(&session).await?, self.get(&session).await?);
            let (directory, project) = (session.directory.into(), session.project_id.into());
            Ok::<_, Error>((Place { workspace, directory, project }, event))
        });
        let placed: Vec<_> = placed.buffered(REPAIRS_AT_ONCE).try_collect().await?;
        for (place, event) in placed {
            self.shared.bus.remember(&place, &event);
        }
        Ok(())
    }

    /// Starts the actors of sessions with orphaned requests, because actors keep the deadlines. Sessions that need
    /// repair are skipped: the repair starts their actors.
    fn keep_deadlines(&self, waiting: BTreeSet<SessionId>) {
        let sessions = self.clone();
        tokio::spawn(async move {
            let sessions = &sessions;
            let settle = |id: SessionId| async move {
                if sessions.shared.unfinished.damage(&id).is_none()
                    && let Err(error) = sessions.ask(&id, Command::Settle).await
                {
                    tracing::warn!(session = %id, %error, "failed to schedule the deadline of an open request");
                }
            };
            stream::iter(waiting).for_each_concurrent(REPAIRS_AT_ONCE, settle).await;
        });
    }
}

/// The sessions that a dead owner left.
struct Left {
    /// Number of sessions that need repair.
    unfinished: usize,
    /// Sessions with open requests.
    waiting: BTreeSet<SessionId>,
}

fn asked(request: Request) -> EventBody {
    match request {
        Request::Permission(request) => EventBody::PermissionAsked(request),
        Request::Question(request) => EventBody::QuestionAsked(request),
    }
}
