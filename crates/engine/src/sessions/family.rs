//! The family of a session: its root and all sessions below.

use std::collections::{HashMap, VecDeque};

use protocol::{
    Rest, Session, SessionId, SessionStatus,
    family::{Family, FamilyMember},
};

use super::Sessions;
use crate::{Error, limits::MAX_FAMILY, ports::Listing};

impl Sessions {
    /// The root of a session's family and all sessions below it, with their statuses and totals.
    pub async fn family(&self, id: &SessionId) -> Result<Family, Error> {
        let session = self.get(id).await?;
        let root = match self.root(&session).await? {
            Some(root) => self.get(&root).await?,
            None => session,
        };
        let root_id = root.id.clone();
        let statuses = self.shared.reads.statuses(None).await?;
        let mut statuses: HashMap<SessionId, SessionStatus> = statuses.into_iter().collect();
        let mut waiting = VecDeque::from([root]);
        let mut members = Vec::new();
        while let Some(session) = waiting.pop_front() {
            if members.len() == MAX_FAMILY {
                return Ok(Family::new(root_id, members, true));
            }
            let parent = Some(session.id.clone());
            let children = Listing { parent, limit: Some(MAX_FAMILY), ..Listing::default() };
            let mut children: Vec<Session> = self.list(children).await?;
            children.sort_by_key(|child| child.time.created);
            waiting.extend(children);
            let status = statuses.remove(&session.id);
            members.push(FamilyMember::new(session, status.unwrap_or(IDLE)));
        }
        Ok(Family::new(root_id, members, false))
    }
}

const IDLE: SessionStatus = SessionStatus::Idle { reason: None, extra: Rest::NONE };
