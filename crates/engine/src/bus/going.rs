//! What is going on: who is not idle, and which requests wait for a person.
//!
//! Whoever joins the stream is told, so that nobody has to ask for it in the moment between two calls.

use std::{collections::BTreeMap, sync::Arc};

use protocol::{EventBody, SessionId};

use super::Place;

/// The last word on each session that is not idle and on each request that is open.
#[derive(Debug, Default)]
pub(super) struct Going {
    statuses: BTreeMap<SessionId, (Place, EventBody)>,
    requests: BTreeMap<String, (Place, EventBody)>,
}

impl Going {
    pub(super) fn note(&mut self, place: &Place, event: &EventBody) {
        let said = || (place.clone(), event.clone());
        match event {
            EventBody::SessionStatus(it) if it.status.is_idle() => {
                self.statuses.remove(&it.session_id);
            }
            EventBody::SessionStatus(it) => {
                self.statuses.insert(it.session_id.clone(), said());
            }
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

    fn answered(&mut self, id: &str) {
        self.requests.remove(id);
    }

    /// A deleted session has nothing more to say.
    pub(super) fn forget(&mut self, session: &SessionId) {
        self.statuses.remove(session);
        self.requests.retain(|_, (_, asked)| asked.session_id() != Some(session));
    }

    /// All of it, of one directory or of all: statuses first, then requests, oldest first.
    pub(super) fn all(&self, directory: Option<&Arc<str>>) -> Vec<(Place, EventBody)> {
        let all = self.statuses.values().chain(self.requests.values());
        let wanted = all.filter(|(place, _)| directory.is_none_or(|directory| *directory == place.directory));
        wanted.cloned().collect()
    }
}
