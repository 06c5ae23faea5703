//! Sessions in the shapes of `/api`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate as v1;
use crate::{
    MessageId, Millis, PartId, Rest, SessionId,
    number::Number,
    session::{CacheTokens, SessionModel, Tokens},
};

/// A session in the shape of `/api`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Session")]
pub struct Session {
    pub id: SessionId,
    /// Set for child sessions.
    #[serde(rename = "parentID")]
    pub parent_id: Option<SessionId>,
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// Agent of the last prompt.
    pub agent: Option<String>,
    /// Model of the last prompt.
    pub model: Option<Model>,
    /// Total cost of all turns.
    pub cost: Number,
    /// Total tokens of all turns.
    pub tokens: Spent,
    pub time: Time,
    pub title: String,
    /// Directory of the session.
    pub location: Location,
    /// Directory relative to the root of the worktree.
    pub subpath: Option<String>,
    /// A pending revert. The next prompt makes it final.
    pub revert: Option<Revert>,
}

/// A directory, possibly in a workspace.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Location {
    /// Absolute path of the directory.
    pub directory: String,
    /// Id of an experimental OpenCode workspace. Baton passes it through.
    #[serde(rename = "workspaceID")]
    pub workspace_id: Option<String>,
}

/// Reference to a model.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Model")]
pub struct Model {
    /// Model id within the provider.
    pub id: String,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Absent for the default.
    pub variant: Option<String>,
}

/// Token counts of a step or a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// Input tokens without cached ones.
    pub input: u64,
    /// Output tokens without reasoning.
    pub output: u64,
    /// Reasoning tokens.
    pub reasoning: u64,
    pub cache: SpentCache,
}

/// Cached token counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpentCache {
    /// Tokens read from the cache.
    pub read: u64,
    /// Tokens written to the cache.
    pub write: u64,
}

/// Times of a session.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Time")]
pub struct Time {
    pub created: Millis,
    pub updated: Millis,
    /// Time at which the user archived the session.
    pub archived: Option<Number>,
}

/// A pending revert.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Revert")]
pub struct Revert {
    /// The first reverted message.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The first reverted part of that message; absent if the whole message is reverted.
    #[serde(rename = "partID")]
    pub part_id: Option<PartId>,
    /// Snapshot of the working tree before the revert.
    pub snapshot: Option<String>,
    /// Unified diff of the reverted changes.
    pub diff: Option<String>,
}

/// The body of `POST /api/session`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2SessionInput")]
pub struct SessionInput {
    /// Id chosen by the client. A repeated call with the same id changes nothing.
    pub id: Option<SessionId>,
    pub agent: Option<String>,
    pub model: Option<Model>,
    /// Directory of the session. Default: the directory of the call.
    pub location: Option<Location>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Activity of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Active {
    /// A turn is running.
    Running,
}

impl From<v1::Session> for Session {
    fn from(session: v1::Session) -> Self {
        Self {
            location: Location { directory: session.directory, workspace_id: session.workspace_id },
            subpath: session.path.filter(|path| !path.is_empty()),
            id: session.id,
            parent_id: session.parent_id,
            project_id: session.project_id,
            agent: session.agent,
            model: session.model.map(Model::from),
            cost: session.cost.unwrap_or(Number(0.0)),
            tokens: session.tokens.unwrap_or_default().into(),
            time: Time {
                created: session.time.created,
                updated: session.time.updated,
                archived: session.time.archived,
            },
            title: session.title,
            revert: session.revert.map(Revert::from),
        }
    }
}

impl From<SessionModel> for Model {
    fn from(model: SessionModel) -> Self {
        Self { id: model.id, provider_id: model.provider_id, variant: model.variant }
    }
}

impl From<Model> for SessionModel {
    fn from(model: Model) -> Self {
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

impl From<v1::session::Revert> for Revert {
    fn from(revert: v1::session::Revert) -> Self {
        Self {
            message_id: revert.message_id,
            part_id: revert.part_id,
            snapshot: revert.snapshot,
            diff: revert.diff,
        }
    }
}
