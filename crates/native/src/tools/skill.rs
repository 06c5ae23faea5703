//! `skill`: loads instructions for a kind of work.

use std::path::{Path, PathBuf};

use protocol::Extra;
use serde::Deserialize;
use serde_json::{Value, json};
use supervision::permission::{Pattern, PermissionCheck};
use workspace::files;
use workspace::search::{self, SearchScope};

use super::{BuiltIn, Call, Output, Skill as Known, ToolFailure, object, paths};

/// The most files beside a skill that are named.
const MAX_FILES: usize = 10;

#[derive(Deserialize)]
pub(super) struct Input {
    name: String,
}

/// The tool with the list of available skills.
pub(super) struct Skill {
    skills: Vec<Known>,
}

impl Skill {
    pub(super) fn new(skills: Vec<Known>) -> Self {
        Self { skills }
    }

    fn find(&self, name: &str) -> Result<&Known, String> {
        self.skills.iter().find(|skill| skill.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.skills.iter().map(|skill| skill.name.as_str()).collect();
            format!("there is no skill `{name}`; known skills: {}", known.join(", "))
        })
    }
}

impl BuiltIn for Skill {
    const NAME: &'static str = "skill";

    type Input = Input;

    fn is_available(&self) -> bool {
        !self.skills.is_empty()
    }

    fn description(&self) -> String {
        let skills: Vec<String> =
            self.skills.iter().map(|skill| format!("- {}: {}", skill.name, skill.description)).collect();
        format!(
            "Loads a skill: instructions for a kind of work, with files that belong to it. Load one as soon as a task \
             fits its description, and then follow it.\n\nSkills:\n{}",
            skills.join("\n")
        )
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": { "name": { "type": "string", "description": "The skill, from the list" } },
            "required": ["name"],
            "additionalProperties": false,
        })
    }

    fn check(&self, input: &Input) -> Result<(), String> {
        self.find(&input.name).map(drop)
    }

    async fn run(&self, call: &Call<'_>, Input { name }: Input) -> Result<Output, ToolFailure> {
        let skill = self.find(&name).map_err(ToolFailure::Error)?.clone();
        let check = PermissionCheck {
            permission: "skill".into(),
            patterns: vec![Pattern::plain(name.clone())],
            always: vec![name],
            metadata: Extra::new(),
        };
        call.permissions.require(call.turn, check, Some(call.id)).await?;
        let scope = call.scope(skill.path.parent().unwrap_or(&skill.path));
        paths::blocking(move || load(&skill, &scope)).await?
    }
}

fn load(skill: &Known, scope: &SearchScope) -> Result<Output, ToolFailure> {
    let gone = || {
        ToolFailure::Error(format!(
            "cannot read the skill's file {}: it does not exist any more",
            skill.path.display()
        ))
    };
    // Skills are often links to the directory where they are stored.
    let path = skill.path.canonicalize().map_err(|_| gone())?;
    scope.closed.check(&path)?;
    let content = files::current(&path)?.ok_or_else(gone)?;
    let mut beside: Vec<PathBuf> = search::glob("**/*", scope)?.paths;
    beside.retain(|path| path.file_name() != skill.path.file_name());
    beside.sort();
    let name = &skill.name;
    let mut text = format!("<skill name=\"{name}\">\n{}\n", body(&content).trim());
    if !beside.is_empty() {
        text.push_str(&list(&scope.path, &beside));
    }
    text.push_str("</skill>");
    let metadata = object(json!({ "name": name, "dir": scope.path.to_string_lossy() }));
    Ok(Output::new(format!("Loaded skill: {name}"), text, metadata))
}

fn list(directory: &Path, beside: &[PathBuf]) -> String {
    let shown: Vec<String> =
        beside.iter().take(MAX_FILES).map(|path| path.to_string_lossy().into_owned()).collect();
    let more = if beside.len() > MAX_FILES { "\n(and more)" } else { "" };
    format!(
        "\nRelative paths in this skill start at {}. Files beside it:\n{}{more}\n",
        directory.display(),
        shown.join("\n")
    )
}

/// Returns the text after the front matter, whose contents the model already has from the tool's description.
fn body(content: &str) -> &str {
    let after = content.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---"));
    after.map_or(content, |(_, body)| body.trim_start_matches('-').trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_matter_is_left_out() {
        assert_eq!(body("---\nname: a\n---\n\n# A\ntext"), "# A\ntext");
        assert_eq!(body("# A\n---\ntext"), "# A\n---\ntext");
    }

    #[test]
    fn a_skill_comes_with_a_few_of_its_files() {
        let directory = tempfile::TempDir::new().unwrap();
        let top = directory.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("scripts")).unwrap();
        for number in 0..12 {
            std::fs::write(top.join(format!("scripts/{number:02}.sh")), "").unwrap();
        }
        let path = top.join("SKILL.md");
        std::fs::write(&path, "---\nname: forms\n---\nFill them in.\n").unwrap();
        let skill = Known { name: "forms".to_owned(), description: String::new(), path };
        let output = load(&skill, &SearchScope::new(&top)).unwrap();
        assert_eq!(output.title, "Loaded skill: forms");
        assert!(output.text.starts_with("<skill name=\"forms\">\nFill them in.\n"), "{}", output.text);
        assert!(
            output.text.contains("scripts/09.sh\n(and more)\n") && !output.text.contains("10.sh"),
            "{}",
            output.text
        );
    }
}
