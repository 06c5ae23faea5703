//! Skills: instructions in `SKILL.md` files that an agent reads when it needs them.
//!
//! They are searched in these places; of two skills with one name the later counts:
//!
//! 1. `~/.claude/skills` and `~/.agents/skills`
//! 2. the same two in the directory and those above it, up to the worktree
//! 3. `skill` and `skills` of the configuration directories
//! 4. the directories in `skills.paths`
//!
//! `OPENCODE_DISABLE_EXTERNAL_SKILLS` skips 1 and 2. `OPENCODE_DISABLE_CLAUDE_CODE` and
//! `OPENCODE_DISABLE_CLAUDE_CODE_SKILLS` skip Claude's directories in them. The caller has to fetch the addresses
//! in `skills.urls`. An invalid file is skipped with a warning.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use protocol::config::Skill;
use serde_json::Value;

use super::{
    Environment, Loaded, Site, Trace, markdown,
    problem::{Problem, Source},
    walk,
};

/// The file that makes a directory a skill.
const FILE: &str = "SKILL.md";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    pub skills: BTreeMap<String, Skill>,
    /// Invalid files and missing directories.
    pub warnings: Vec<Problem>,
    /// The searched files and directories.
    pub trace: Trace,
}

/// Finds the skills for a site.
pub fn find(environment: &Environment, site: &Site, loaded: &Loaded) -> Skills {
    let mut found = Skills::default();
    for directory in places(environment, site, loaded) {
        let is_skill = |path: &Path| path.ends_with(FILE);
        for path in walk::traced_files(&directory, walk::MAX_DEPTH, &is_skill, &mut found.trace) {
            found.trace.note(&path);
            match read(&path) {
                Ok(skill) => {
                    found.skills.insert(skill.name.clone(), skill);
                }
                Err(problem) => found.warnings.push(problem),
            }
        }
    }
    for written in loaded.config.skills.iter().flat_map(|skills| &skills.paths) {
        let path = environment.resolve(written, &site.directory);
        if !path.is_dir() {
            let message = format!("`skills.paths` names {}, which is not a directory", path.display());
            let problem = Problem::about(&Source::Merged, None, message);
            found.warnings.push(Problem { key: "skills.paths".into(), ..problem });
        }
    }
    found
}

fn places(environment: &Environment, site: &Site, loaded: &Loaded) -> Vec<PathBuf> {
    let mut external = Vec::new();
    let without_claude = ["OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_SKILLS"];
    if !without_claude.iter().any(|variable| environment.is_on(variable)) {
        external.push(".claude/skills");
    }
    external.push(".agents/skills");
    if environment.is_on("OPENCODE_DISABLE_EXTERNAL_SKILLS") {
        external.clear();
    }
    let home = environment.home();
    let project = walk::upwards(&site.directory, &site.worktree);
    let outside = home.as_deref().into_iter().chain(project);
    let outside = outside.flat_map(|directory| external.iter().map(|below| directory.join(below)));
    let own = loaded
        .directories
        .iter()
        .flat_map(|directory| ["skill", "skills"].map(|below| directory.join(below)));
    let more = loaded.config.skills.iter().flat_map(|skills| &skills.paths);
    let more = more.map(|written| environment.resolve(written, &site.directory));
    outside.chain(own).chain(more).collect()
}

fn read(path: &Path) -> Result<Skill, Problem> {
    let page = markdown::read(path)?;
    let at = page.data.at;
    let data = page.data.into_value();
    let text = |name: &str| data.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    let Some(name) = text("name").filter(|name| !name.is_empty()) else {
        let message = "the front matter has no `name`; ignoring this skill";
        return Err(Problem::about(&Source::File(path.to_owned()), Some(at), message));
    };
    let location = path.to_string_lossy().into_owned();
    Ok(Skill { name, description: text("description"), location, content: page.body })
}
