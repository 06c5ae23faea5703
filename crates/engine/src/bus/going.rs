//! What is going on: who is not idle, and which requests wait for a person.
//!
//! Whoever joins the stream is told, so that nobody has to ask for it in the moment between two calls. After a crash
//! there is more to tell: that turns are over was said when nobody could listen, and a client that is still waiting for
//! them has no other way to learn of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use protocol::{
    EventBody, SessionId,
    event::{SessionOnly, StatusChanged},
};

use super::Place;

/// The last word on each session that is not idle and on each request that is open.
#[derive(Debug, Default)]
pub(super) struct Going {
    statuses: BTreeMap<SessionId, (Place, EventBody)>,
    requests: BTreeMap<String, (Place, EventBody)>,
    /// Nobody can listen yet: what a dead process left is being closed.
    is_alone: bool,
    /// Sessions that were busy when the server started and have not become idle since.
    left_busy: BTreeSet<SessionId>,
    /// Sessions that became idle out of everybody's hearing, and have been since.
    unheard: BTreeMap<SessionId, (Place, EventBody)>,
}

impl Going {
    pub(super) fn note(&mut self, place: &Place, event: &EventBody) {
        let said = || (place.clone(), event.clone());
        match event {
            EventBody::SessionStatus(it) => self.status(it, said()),
            EventBody::PermissionAsked(it) => {
                self.requests.insert(it.id.to_string(), said());
            }
            EventBody::QuestionAsked(it) => {
                self.requests.insert(it.id.to_string(), said());
            }
            EventBody::PermissionReplied(it) => self.answered(it.request_id.as_str()),
            EventBody::QuestionReplied(it) => self.answered(it.request_id.as_str()),
            EventBody::QuestionRejected(it) => self.answered(it.request_id.as_str()),
            _ => {}
        }
    }

    /// Notes what the log has said since before the start.
    pub(super) fn remember(&mut self, place: &Place, event: &EventBody) {
        self.note(place, event);
        if let EventBody::SessionStatus(it) = event {
            self.left_busy.insert(it.session_id.clone());
        }
    }

    fn status(&mut self, change: &StatusChanged, said: (Place, EventBody)) {
        let (session, is_idle) = (&change.session_id, change.status.is_idle());
        self.statuses.remove(session);
        self.unheard.remove(session);
        if !is_idle {
            self.statuses.insert(session.clone(), said);
            return;
        }
        // A turn of a dead server may be closed only after clients came: those that come later did not hear it.
        let left_busy = self.left_busy.remove(session);
        if self.is_alone || left_busy {
            self.unheard.insert(session.clone(), said);
        }
    }

    pub(super) fn is_busy(&self, session: &SessionId) -> bool {
        self.statuses.contains_key(session)
    }

    pub(super) fn alone(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    fn answered(&mut self, id: &str) {
        self.requests.remove(id);
    }

    /// A deleted session has nothing more to say.
    pub(super) fn forget(&mut self, session: &SessionId) {
        self.statuses.remove(session);
        self.left_busy.remove(session);
        self.unheard.remove(session);
        self.requests.retain(|_, (_, asked)| asked.session_id() != Some(session));
    }

    /// All of it, of one directory or of all: statuses first, then requests, oldest first.
    pub(super) fn all(&self, directory: Option<&Arc<str>>) -> Vec<(Place, EventBody)> {
        of(directory, self.statuses.values().chain(self.requests.values()))
    }

    /// Who became idle when nobody could listen: the pair, as it was said.
    pub(super) fn unheard(&self, directory: Option<&Arc<str>>) -> Vec<(Place, EventBody)> {
        let pair = |(place, status): (Place, EventBody)| {
            let idle = status.session_id().cloned().map(|session_id| {
                let body = EventBody::SessionIdle(SessionOnly::new(session_id));
                (place.clone(), body)
            });
            std::iter::once((place, status)).chain(idle)
        };
        of(directory, self.unheard.values()).into_iter().flat_map(pair).collect()
    }
}

fn of<'a>(
    directory: Option<&Arc<str>>,
    all: impl Iterator<Item = &'a (Place, EventBody)>,
) -> Vec<(Place, EventBody)> {
    let wanted = all.filter(|(place, _)| directory.is_none_or(|directory| *directory == place.directory));
    wanted.cloned().collect()
}
