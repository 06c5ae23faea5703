//! Skills: instructions in `SKILL.md` files that an agent reads when it needs them.
//!
//! They are looked for in these places; of two with one name the later counts:
//!
//! 1. `~/.claude/skills` and `~/.agents/skills`
//! 2. the same two in the directory and those above it, up to the worktree
//! 3. `skill` and `skills` of the configuration directories
//! 4. the directories in `skills.paths`
//!
//! Those of 1 and 2 are passed by with `OPENCODE_DISABLE_EXTERNAL_SKILLS`, and Claude's of them with
//! `OPENCODE_DISABLE_CLAUDE_CODE` or `OPENCODE_DISABLE_CLAUDE_CODE_SKILLS`. What `skills.urls` lists is for
//! somebody with a network to fetch. A file that is not understood is no reason to refuse the others.

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

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    /// By name.
    pub skills: BTreeMap<String, Skill>,
    /// Files and directories that are not understood.
    pub warnings: Vec<Problem>,
    /// Where they were looked for.
    pub trace: Trace,
}

/// Finds the skills for a place of work.
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
        let message = "the front matter needs a `name`, so this skill is left out";
        return Err(Problem::about(&Source::File(path.to_owned()), Some(at), message));
    };
    let location = path.to_string_lossy().into_owned();
    Ok(Skill { name, description: text("description"), location, content: page.body })
}
