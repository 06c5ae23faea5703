//! Projects, paths and file changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, Millis, Rest};

/// A worktree that sessions belong to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Project {
    /// Stable for the same repository; `global` outside any.
    pub id: String,
    /// Absolute path of the worktree; `/` for `global`.
    pub worktree: String,
    /// `git`, if it is a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcs: Option<String>,
    /// Shown name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When things happened.
    pub time: ProjectTime,
    /// Extra worktrees.
    #[serde(default)]
    pub sandboxes: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// When things happened to a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectTime {
    /// First seen.
    pub created: Millis,
    /// Last used.
    pub updated: Millis,
    /// Set up by `/init`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialized: Option<Millis>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The answer of `GET /path`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    /// The user's home.
    pub home: String,
    /// Where state is kept.
    pub state: String,
    /// Where configuration is kept.
    pub config: String,
    /// The worktree of the request's directory.
    pub worktree: String,
    /// The request's directory.
    pub directory: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// A change of one file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// Path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Lines added.
    pub additions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// `added`, `deleted` or `modified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}
