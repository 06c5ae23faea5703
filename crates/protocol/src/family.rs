//! A session with all sessions below it (Baton's addition).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{
    Rest, Session, SessionId, SessionStatus,
    number::Number,
    session::{SessionTime, Tokens},
};

/// The answer of `GET /session/{id}/family`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Family {
    /// The session at the root.
    #[serde(rename = "rootID")]
    pub root_id: SessionId,
    /// The root and all sessions below it; a parent comes before its children.
    pub sessions: Vec<FamilyMember>,
    /// Total tokens of the sessions that report them.
    pub tokens: Tokens,
    /// Total cost of the sessions that report it.
    pub cost: Number,
    /// True if the family has more sessions than are listed.
    pub truncated: Option<bool>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// A session of a family.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FamilyMember {
    pub id: SessionId,
    /// Absent for the root.
    #[serde(rename = "parentID")]
    pub parent_id: Option<SessionId>,
    pub title: String,
    /// Agent of the last prompt.
    pub agent: Option<String>,
    pub status: SessionStatus,
    /// Absent if the session's agent reports none.
    pub tokens: Option<Tokens>,
    /// Absent if the session's agent reports none.
    pub cost: Option<Number>,
    pub time: SessionTime,
    #[serde(flatten)]
    pub extra: Rest,
}

impl FamilyMember {
    /// Describes a session with its current status.
    pub fn new(session: Session, status: SessionStatus) -> Self {
        let Session { id, parent_id, title, agent, tokens, cost, time, .. } = session;
        Self { id, parent_id, title, agent, status, tokens, cost, time, extra: Rest::NONE }
    }
}

impl Family {
    /// Adds the totals to the sessions of a family.
    pub fn new(root_id: SessionId, sessions: Vec<FamilyMember>, is_truncated: bool) -> Self {
        let (mut tokens, mut cost) = (Tokens::default(), Number(0.0));
        for session in &sessions {
            if let Some(used) = &session.tokens {
                tokens.add(used);
            }
            if let Some(paid) = session.cost {
                cost += paid;
            }
        }
        let truncated = is_truncated.then_some(true);
        Self { root_id, sessions, tokens, cost, truncated, extra: Rest::NONE }
    }
}
