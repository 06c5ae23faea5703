//! A session: a conversation with a directory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Extra, MessageId, Millis, PartId, Rest, SessionId, continuation::Continuation, number::Number,
    project::FileDiff, request::Rule,
};

/// Everything a client sees of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Its id; newest first when sorted.
    pub id: SessionId,
    /// A random adjective and noun.
    pub slug: String,
    /// The project its directory belongs to.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// Experimental workspaces of OpenCode; passed through.
    #[serde(rename = "workspaceID", default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// Absolute path; every route of the session is executed there.
    pub directory: String,
    /// The directory relative to the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Set for children started by a subagent, not for forks.
    #[serde(rename = "parentID", default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// What it is about.
    pub title: String,
    /// Last used agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Last used model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<SessionModel>,
    /// Server version at creation.
    pub version: String,
    /// Sum over all steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Number>,
    /// Sum over all steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// What changed in the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Where it was shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// Free, set by clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extra>,
    /// Rules of this session, after those of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Vec<Rule>>,
    /// A pending undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<Revert>,
    /// What is known about going on by itself (Baton's addition).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Continuation>,
    /// When things happened.
    pub time: SessionTime,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Session {
    /// Where [`Session::extra`] has what runners have noted (Baton's addition).
    pub const NOTES: &str = "notes";

    /// What a runner has noted about the session.
    pub fn note(&self, name: &str) -> Option<&str> {
        self.extra.get(Self::NOTES)?.get(name)?.as_str()
    }

    /// Notes something for later turns.
    pub fn take_note(&mut self, name: &str, note: String) {
        let notes = self.extra.entry(Self::NOTES).or_insert_with(|| serde_json::json!({}));
        if let Some(notes) = notes.as_object_mut() {
            notes.insert(name.to_owned(), note.into());
        }
    }
}

/// The model a session used last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionModel {
    /// Model id within the provider.
    pub id: String,
    /// Provider id.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Variant, `default` when none was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Token counts, exclusive of each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// The provider's own total, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Prompt tokens that were not cached.
    #[serde(default)]
    pub input: u64,
    /// Answer tokens without reasoning.
    #[serde(default)]
    pub output: u64,
    /// Reasoning tokens.
    #[serde(default)]
    pub reasoning: u64,
    /// Cached tokens.
    #[serde(default)]
    pub cache: CacheTokens,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Cached tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheTokens {
    /// Read from the cache.
    #[serde(default)]
    pub read: u64,
    /// Written to the cache.
    #[serde(default)]
    pub write: u64,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl Tokens {
    /// Adds one step's counts to a running sum. A sum has no provider total.
    pub fn add(&mut self, step: &Self) {
        self.input += step.input;
        self.output += step.output;
        self.reasoning += step.reasoning;
        self.cache.read += step.cache.read;
        self.cache.write += step.cache.write;
    }
}

/// What changed in the tree.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Lines added.
    pub additions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// Files touched.
    pub files: u64,
    /// The changes themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diffs: Option<Vec<FileDiff>>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Where a session was shared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// The address.
    pub url: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A pending undo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Revert {
    /// Everything from this message on is hidden.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// Or only from this part on.
    #[serde(rename = "partID", default, skip_serializing_if = "Option::is_none")]
    pub part_id: Option<PartId>,
    /// Tree to return to on unrevert.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What the undo changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// When things happened to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionTime {
    /// Created.
    pub created: Millis,
    /// Last changed.
    pub updated: Millis,
    /// Declared by OpenCode, not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacting: Option<Millis>,
    /// Put away by the person; any finite number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Number>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}
