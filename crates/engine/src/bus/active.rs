//! The state that a new subscriber receives: sessions that are not idle, countdowns to continuations, and open requests.
//!
//! Sending it with the subscription spares clients a separate call and the race between the two. After a crash
//! there is one more piece: recovery ends turns before any client can connect, so clients that still wait for those
//! turns also receive their idle events.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    EventBody, SessionId, WorkspaceId,
    event::{SessionOnly, StatusChanged},
};

use super::Place;

/// The last status event of each session that is not idle, and the events of running countdowns and open requests.
#[derive(Debug, Default)]
pub(super) struct ActiveSessions {
    statuses: BTreeMap<SessionId, (Place, EventBody)>,
    countdowns: BTreeMap<SessionId, (Place, EventBody)>,
    requests: BTreeMap<String, (Place, EventBody)>,
    /// True while recovery runs and no client can be connected.
    is_alone: bool,
    /// Sessions that were busy when the server started and have not become idle since.
    left_busy: BTreeSet<SessionId>,
    /// Sessions that became idle while no client could be connected, and that are still idle.
    unheard: BTreeMap<SessionId, (Place, EventBody)>,
}

impl ActiveSessions {
    pub(super) fn note(&mut self, place: &Place, event: &EventBody) {
        let entry = || (place.clone(), event.clone());
        match event {
            EventBody::SessionStatus(it) => self.status(it, entry()),
            EventBody::ContinuationCountdown(it) => {
                self.countdowns.insert(it.session_id.clone(), entry());
            }
            EventBody::ContinuationStarted(it) => self.end_countdown(&it.session_id),
            EventBody::ContinuationStopped(it) => self.end_countdown(&it.session_id),
            EventBody::PermissionAsked(it) => {
                self.requests.insert(it.id.to_string(), entry());
            }
            EventBody::QuestionAsked(it) => {
                self.requests.insert(it.id.to_string(), entry());
            }
            EventBody::PermissionReplied(it) => self.answered(it.request_id.as_str()),
            EventBody::QuestionReplied(it) => self.answered(it.request_id.as_str()),
            EventBody::QuestionRejected(it) => self.answered(it.request_id.as_str()),
            _ => {}
        }
    }

    /// Records a status or request that was in the log before the server started.
    pub(super) fn remember(&mut self, place: &Place, event: &EventBody) {
        self.note(place, event);
        if let EventBody::SessionStatus(it) = event {
            self.left_busy.insert(it.session_id.clone());
        }
    }

    fn status(&mut self, change: &StatusChanged, entry: (Place, EventBody)) {
        let (session, is_idle) = (&change.session_id, change.status.is_idle());
        self.statuses.remove(session);
        self.unheard.remove(session);
        if !is_idle {
            self.statuses.insert(session.clone(), entry);
            return;
        }
        self.countdowns.remove(session);
        // Recovery may end a turn of a dead server after the first clients have connected. Clients that connect
        // later have missed that idle, so it counts as unheard too.
        let left_busy = self.left_busy.remove(session);
        if self.is_alone || left_busy {
            self.unheard.insert(session.clone(), entry);
        }
    }

    pub(super) fn is_busy(&self, session: &SessionId) -> bool {
        self.statuses.contains_key(session)
    }

    pub(super) fn alone(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    fn end_countdown(&mut self, session: &SessionId) {
        self.countdowns.remove(session);
    }

    fn answered(&mut self, id: &str) {
        self.requests.remove(id);
    }

    pub(super) fn forget(&mut self, session: &SessionId) {
        self.statuses.remove(session);
        self.countdowns.remove(session);
        self.left_busy.remove(session);
        self.unheard.remove(session);
        self.requests.retain(|_, (_, asked)| asked.session_id() != Some(session));
    }

    /// Statuses, then countdowns, then requests by id, of one workspace or of all.
    pub(super) fn all(&self, workspace: Option<&WorkspaceId>) -> Vec<(Place, EventBody)> {
        of(workspace, self.statuses.values().chain(self.countdowns.values()).chain(self.requests.values()))
    }

    /// Status and idle events of sessions that became idle while no client could be connected.
    pub(super) fn unheard(&self, workspace: Option<&WorkspaceId>) -> Vec<(Place, EventBody)> {
        let pair = |(place, status): (Place, EventBody)| {
            let idle = status.session_id().cloned().map(|session_id| {
                let body = EventBody::SessionIdle(SessionOnly::new(session_id));
                (place.clone(), body)
            });
            std::iter::once((place, status)).chain(idle)
        };
        of(workspace, self.unheard.values()).into_iter().flat_map(pair).collect()
    }
}

fn of<'a>(
    workspace: Option<&WorkspaceId>,
    all: impl Iterator<Item = &'a (Place, EventBody)>,
) -> Vec<(Place, EventBody)> {
    let wanted = all.filter(|(place, _)| workspace.is_none_or(|workspace| *workspace == place.workspace));
    wanted.cloned().collect()
}
