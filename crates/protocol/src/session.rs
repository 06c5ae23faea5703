//! A session: a conversation about one directory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{
    Extra, MessageId, Millis, PartId, Rest, SessionId, continuation::Continuation, number::Number,
    project::FileDiff, request::Rule,
};

/// A session, as clients see it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Id. Ascending order puts the newest session first.
    pub id: SessionId,
    /// A random adjective and noun.
    pub slug: String,
    /// Project of the directory.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// Id of an experimental OpenCode workspace. Baton passes it through.
    #[serde(rename = "workspaceID")]
    pub workspace_id: Option<String>,
    /// Absolute path of the directory in which all calls of the session run.
    pub directory: String,
    /// Directory relative to the worktree.
    pub path: Option<String>,
    /// Set for child sessions, not for forks.
    #[serde(rename = "parentID")]
    pub parent_id: Option<SessionId>,
    pub title: String,
    /// Agent of the last prompt.
    pub agent: Option<String>,
    /// Model of the last prompt.
    pub model: Option<SessionModel>,
    /// Server version at creation.
    pub version: String,
    /// Total cost of all steps.
    pub cost: Option<Number>,
    /// Total tokens of all steps.
    pub tokens: Option<Tokens>,
    /// Changes to the working tree.
    pub summary: Option<Summary>,
    /// Public link; absent if the session is not shared.
    pub share: Option<Share>,
    /// Free-form data of clients.
    pub metadata: Option<Extra>,
    /// Permission rules of the session, applied after those of the agent.
    pub permission: Option<Vec<Rule>>,
    /// A pending revert. The next prompt makes it final.
    pub revert: Option<Revert>,
    /// State of automatic continuation (Baton's addition).
    pub continuation: Option<Continuation>,
    /// Position in the log up to which the user has seen the session; a later end of a turn is unread (Baton's
    /// addition).
    pub seen: Option<u64>,
    pub time: SessionTime,
    #[serde(flatten)]
    pub extra: Extra,
}

impl Session {
    /// Field of [`Session::extra`] with the notes of runners (Baton's addition).
    pub const NOTES: &str = "notes";

    /// Returns the top of the session's worktree.
    pub fn worktree(&self) -> &str {
        let path = self.path.as_deref().unwrap_or_default();
        let top = self.directory.strip_suffix(path).map(|top| top.trim_end_matches('/'));
        top.filter(|top| !path.is_empty() && !top.is_empty()).unwrap_or(&self.directory)
    }

    /// Returns true if the session still has the title that it was created with, because no caller named one.
    pub fn has_default_title(&self) -> bool {
        self.title.strip_prefix("New session - ").is_some_and(crate::time::is_iso8601)
    }

    /// Returns the note that a runner stored under this name.
    pub fn note(&self, name: &str) -> Option<&str> {
        self.extra.get(Self::NOTES)?.get(name)?.as_str()
    }

    /// Stores a note for later turns.
    pub fn take_note(&mut self, name: &str, note: String) {
        let notes = self.extra.entry(Self::NOTES).or_insert_with(|| serde_json::json!({}));
        if let Some(notes) = notes.as_object_mut() {
            notes.insert(name.to_owned(), note.into());
        }
    }
}

/// Model of a session's last prompt.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionModel {
    /// Model id within the provider.
    pub id: String,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Variant; `default` if none was chosen.
    pub variant: Option<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Token counts. No token counts in two fields.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// The provider's own total, if it reports one.
    pub total: Option<u64>,
    /// Input tokens that were not cached.
    #[serde(default)]
    pub input: u64,
    /// Output tokens without reasoning.
    #[serde(default)]
    pub output: u64,
    #[serde(default)]
    pub reasoning: u64,
    #[serde(default)]
    pub cache: CacheTokens,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Cached token counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheTokens {
    /// Tokens read from the cache.
    #[serde(default)]
    pub read: u64,
    /// Tokens written to the cache.
    #[serde(default)]
    pub write: u64,
    #[serde(flatten)]
    pub extra: Rest,
}

impl Tokens {
    /// Adds one step's counts to a sum. A sum has no provider total.
    pub fn add(&mut self, step: &Self) {
        self.input += step.input;
        self.output += step.output;
        self.reasoning += step.reasoning;
        self.cache.read += step.cache.read;
        self.cache.write += step.cache.write;
    }
}

/// Changes to the working tree.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Number of added lines.
    pub additions: u64,
    /// Number of removed lines.
    pub deletions: u64,
    /// Number of changed files.
    pub files: u64,
    pub diffs: Option<Vec<FileDiff>>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Public link of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    pub url: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A pending revert.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Revert {
    /// The first reverted message. Clients hide it and all later ones.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The first reverted part of that message; absent if the whole message is reverted.
    #[serde(rename = "partID")]
    pub part_id: Option<PartId>,
    /// Snapshot of the working tree to restore when the revert is undone.
    pub snapshot: Option<String>,
    /// Unified diff of the reverted changes.
    pub diff: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Times of a session.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionTime {
    pub created: Millis,
    pub updated: Millis,
    /// Declared by OpenCode, never written.
    pub compacting: Option<Millis>,
    /// Time at which the user archived the session; any finite number.
    pub archived: Option<Number>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(title: &str, directory: &str, path: &str) -> Session {
        serde_json::from_value(serde_json::json!({
            "id": "ses_1", "slug": "s", "projectID": "global", "directory": directory, "path": path, "title": title,
            "version": "0", "time": { "created": 1, "updated": 1 },
        }))
        .unwrap()
    }

    #[test]
    fn only_a_title_of_the_engine_is_a_default_title() {
        let is_default = |title: &str| session(title, "/", "").has_default_title();
        assert!(is_default("New session - 2026-11-15T09:00:00.000Z"));
        assert!(!is_default("New session - mine"));
        assert!(!is_default("Child session - 2026-11-15T09:00:00.000Z"));
        assert!(!is_default("Fix the build"));
    }

    #[test]
    fn a_session_in_a_subdirectory_has_its_worktree() {
        let worktree = |directory: &str, path: &str| session("t", directory, path).worktree().to_owned();
        assert_eq!(worktree("/project/crates/one", "crates/one"), "/project");
        assert_eq!(worktree("/project", ""), "/project");
        assert_eq!(worktree("/project", "elsewhere"), "/project");
    }
}
