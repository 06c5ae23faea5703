//! Projects, paths and file changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{Extra, Millis, Rest};

/// A project: the worktree that sessions belong to.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Project {
    /// Stable for the same repository; `global` outside any.
    pub id: String,
    /// Absolute path of the worktree; `/` for `global`.
    pub worktree: String,
    /// `git` for a repository.
    pub vcs: Option<String>,
    /// Name that clients display.
    pub name: Option<String>,
    pub icon: Option<ProjectIcon>,
    pub commands: Option<ProjectCommands>,
    pub time: ProjectTime,
    /// Directories of additional worktrees.
    #[serde(default)]
    pub sandboxes: Vec<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Icon of a project.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectIcon {
    /// URL of the icon.
    pub url: Option<String>,
    /// Icon that the user chose instead.
    pub r#override: Option<String>,
    pub color: Option<String>,
}

/// Commands of a project.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectCommands {
    /// Command that runs in every new worktree.
    pub start: Option<String>,
}

/// Settings of a project that the user can change; also the body of `PATCH /project/{id}`. All other fields of a
/// project follow from its directory and sessions.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectNote {
    /// Name that clients display.
    pub name: Option<String>,
    pub icon: Option<ProjectIcon>,
    pub commands: Option<ProjectCommands>,
}

impl ProjectNote {
    /// Applies the fields that `newer` sets. An empty text removes the old value.
    pub fn amend(&mut self, newer: Self) {
        fn text(old: &mut Option<String>, new: Option<String>) {
            if let Some(new) = new {
                *old = Some(new).filter(|new| !new.is_empty());
            }
        }
        text(&mut self.name, newer.name);
        if let Some(newer) = newer.icon {
            let mut icon = self.icon.take().unwrap_or_default();
            text(&mut icon.url, newer.url);
            text(&mut icon.r#override, newer.r#override);
            text(&mut icon.color, newer.color);
            self.icon = Some(icon).filter(|icon| *icon != ProjectIcon::default());
        }
        if let Some(newer) = newer.commands {
            let mut commands = self.commands.take().unwrap_or_default();
            text(&mut commands.start, newer.start);
            self.commands = Some(commands).filter(|commands| *commands != ProjectCommands::default());
        }
    }
}

/// Times of a project.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectTime {
    pub created: Millis,
    /// Time of the last use.
    pub updated: Millis,
    /// Time at which `/init` ran.
    pub initialized: Option<Millis>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The answer of `GET /path`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    /// Home directory of the user.
    pub home: String,
    /// Directory of Baton's state.
    pub state: String,
    /// Directory of the user's configuration.
    pub config: String,
    /// Worktree of the call's directory.
    pub worktree: String,
    /// Directory of the call.
    pub directory: String,
    #[serde(flatten)]
    pub extra: Rest,
}

/// A change of one file.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    pub file: Option<String>,
    /// Unified diff of the change.
    pub patch: Option<String>,
    /// Number of added lines.
    pub additions: u64,
    /// Number of removed lines.
    pub deletions: u64,
    /// `added`, `deleted` or `modified`.
    pub status: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn note(value: serde_json::Value) -> ProjectNote {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_note_is_amended_by_field_and_an_empty_text_removes_a_value() {
        let mut said = ProjectNote::default();
        said.amend(note(json!({ "name": "Thing", "icon": { "color": "red", "url": "a" } })));
        said.amend(note(json!({ "icon": { "url": "" }, "commands": { "start": "make" } })));
        let expected =
            json!({ "name": "Thing", "icon": { "color": "red" }, "commands": { "start": "make" } });
        assert_eq!(said, note(expected));
        said.amend(note(json!({ "name": "", "icon": { "color": "" }, "commands": { "start": "" } })));
        assert_eq!(said, ProjectNote::default());
    }
}
