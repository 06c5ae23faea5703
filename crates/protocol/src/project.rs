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
    /// How it looks in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<ProjectIcon>,
    /// What to run for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<ProjectCommands>,
    /// When things happened.
    pub time: ProjectTime,
    /// Extra worktrees.
    #[serde(default)]
    pub sandboxes: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// How a project looks in lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectIcon {
    /// Where a picture is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A picture that a person chose instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#override: Option<String>,
    /// Its colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
}

/// What to run for a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectCommands {
    /// In every new worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
}

/// What a person said about a project; also the body of `PATCH /project/{id}`. Everything else about a project
/// follows from its directory and its sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectNote {
    /// Shown name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How it looks in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<ProjectIcon>,
    /// What to run for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<ProjectCommands>,
}

impl ProjectNote {
    /// Takes over what was said anew. Empty text takes back what was said before.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn note(value: serde_json::Value) -> ProjectNote {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_note_is_amended_field_by_field_and_empty_text_takes_back() {
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
