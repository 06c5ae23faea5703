//! Sessions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    MessageId, Millis, PartId, Rest, Session, SessionId,
    number::Number,
    session::{CacheTokens, Revert, SessionModel, Tokens},
};

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextSession {
    /// Its id.
    pub id: SessionId,
    /// Set for children.
    #[serde(rename = "parentID", default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// Its project.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// The last agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The last model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<NextModel>,
    /// What it has cost.
    pub cost: Number,
    /// What it has used.
    pub tokens: Spent,
    /// When.
    pub time: NextTime,
    /// What it is about.
    pub title: String,
    /// Where it works.
    pub location: Location,
    /// The directory as seen from the top of the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subpath: Option<String>,
    /// An undo that was not settled yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<NextRevert>,
}

/// A place to work in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Location {
    /// The directory.
    pub directory: String,
    /// Experimental workspaces of OpenCode; passed through.
    #[serde(rename = "workspaceID", default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextModel {
    /// The model's id at its provider.
    pub id: String,
    /// The provider.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// Tokens, always complete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// Read by the model, without what came out of a cache.
    pub input: u64,
    /// Written by the model, without its thoughts.
    pub output: u64,
    /// Its thoughts.
    pub reasoning: u64,
    /// The cache.
    pub cache: SpentCache,
}

/// Tokens that went through a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpentCache {
    /// Came out of it.
    pub read: u64,
    /// Went into it.
    pub write: u64,
}

/// Times of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextTime {
    /// When it was created.
    pub created: Millis,
    /// When it last changed.
    pub updated: Millis,
    /// When it was put away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Number>,
}

/// An undo that was not settled yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextRevert {
    /// The first message that is undone.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The first part of it, if not all of it is.
    #[serde(rename = "partID", default, skip_serializing_if = "Option::is_none")]
    pub part_id: Option<PartId>,
    /// The tree before the undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What the undo changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// The body of `POST /api/session`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextSessionInput {
    /// Chosen by the client; sending the same one again changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SessionId>,
    /// Its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<NextModel>,
    /// Where it is to work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// What an active session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Active {
    /// It works on something.
    Running,
}

impl From<Session> for NextSession {
    fn from(session: Session) -> Self {
        Self {
            location: Location { directory: session.directory, workspace_id: session.workspace_id },
            subpath: session.path.filter(|path| !path.is_empty()),
            id: session.id,
            parent_id: session.parent_id,
            project_id: session.project_id,
            agent: session.agent,
            model: session.model.map(NextModel::from),
            cost: session.cost.unwrap_or(Number(0.0)),
            tokens: session.tokens.unwrap_or_default().into(),
            time: NextTime {
                created: session.time.created,
                updated: session.time.updated,
                archived: session.time.archived,
            },
            title: session.title,
            revert: session.revert.map(NextRevert::from),
        }
    }
}

impl From<SessionModel> for NextModel {
    fn from(model: SessionModel) -> Self {
        Self { id: model.id, provider_id: model.provider_id, variant: model.variant }
    }
}

impl From<NextModel> for SessionModel {
    fn from(model: NextModel) -> Self {
        Self { id: model.id, provider_id: model.provider_id, variant: model.variant, extra: Rest::NONE }
    }
}

impl From<Tokens> for Spent {
    fn from(tokens: Tokens) -> Self {
        let CacheTokens { read, write, .. } = tokens.cache;
        Self {
            input: tokens.input,
            output: tokens.output,
            reasoning: tokens.reasoning,
            cache: SpentCache { read, write },
        }
    }
}

impl From<Revert> for NextRevert {
    fn from(revert: Revert) -> Self {
        Self {
            message_id: revert.message_id,
            part_id: revert.part_id,
            snapshot: revert.snapshot,
            diff: revert.diff,
        }
    }
}
