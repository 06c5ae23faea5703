//! Instructions for agents: `AGENTS.md` and similar files, and the entries of `instructions`.
//!
//! The search order is OpenCode's: first the user's `AGENTS.md`, or else `~/.claude/CLAUDE.md`. Then the first of
//! the names `AGENTS.md`, `CLAUDE.md` and `CONTEXT.md` that exists between the directory and the worktree, in all
//! directories on that way. Then the entries of `instructions`: paths and patterns, relative to each of those
//! directories unless they are absolute, and addresses, which the caller has to fetch.
//!
//! `OPENCODE_DISABLE_CLAUDE_CODE` and `OPENCODE_DISABLE_CLAUDE_CODE_PROMPT` skip Claude's files;
//! `OPENCODE_DISABLE_PROJECT_CONFIG` skips the project's.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use protocol::config::Config;

use super::{
    Environment, Site,
    problem::{Problem, Source},
    walk,
};

/// Maximum number of bytes to use of one file.
pub const MAX_FILE: usize = 256 * 1024;

/// Maximum number of bytes to use of all files.
pub const MAX_TOTAL: usize = 1024 * 1024;

/// Maximum number of files to use.
pub const MAX_FILES: usize = 100;

/// Characters that make a path a pattern.
const WILD: [char; 6] = ['*', '?', '[', ']', '{', '}'];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions {
    /// In the order of the search.
    pub files: Vec<Instruction>,
    /// In the order of the configuration.
    pub urls: Vec<String>,
    /// Files that were left out or cut, and entries without a match.
    pub warnings: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    pub path: PathBuf,
    pub text: String,
}

/// Finds the instructions for a site.
pub fn find(environment: &Environment, site: &Site, config: &Config) -> Instructions {
    let mut found = Instructions::default();
    let mut paths = named(environment, site);
    for written in &config.instructions {
        if written.starts_with("https://") || written.starts_with("http://") {
            found.urls.push(written.clone());
            continue;
        }
        match matching(environment, site, written) {
            Ok(matches) if matches.is_empty() => found.warn(format!("no file matches `{written}`")),
            Ok(matches) => paths.extend(matches),
            Err(error) => found.warn(format!("`{written}` is not a pattern: {error}")),
        }
    }
    let mut left = MAX_TOTAL;
    for path in paths {
        if !found.files.iter().any(|file| file.path == path) {
            found.add(environment, path, &mut left);
        }
    }
    found
}

/// Instruction files between a file that is being read and the session's directory, the nearest first. The
/// directory itself is excluded, because [`find`] has already found its files.
pub fn near(environment: &Environment, site: &Site, file: &Path) -> Vec<PathBuf> {
    let file = walk::clean(file);
    let root = walk::clean(&site.directory);
    let within = file.ancestors().skip(1).take_while(|path| path.starts_with(&root) && *path != root);
    let first = |directory: &Path| {
        let candidates = names(environment).into_iter().map(|name| directory.join(name));
        candidates.into_iter().find(|path| path.is_file() && *path != file)
    };
    within.filter_map(first).collect()
}

impl Instructions {
    fn add(&mut self, environment: &Environment, path: PathBuf, left: &mut usize) {
        let source = Source::File(path.clone());
        let most = MAX_FILE.min(*left);
        if most == 0 || self.files.len() == MAX_FILES {
            let message =
                format!("left out: more than {MAX_FILES} files or {MAX_TOTAL} bytes of instructions");
            return self.warnings.push(Problem::about(&source, None, message));
        }
        match environment.check(&path).and_then(|()| walk::read_beginning(&path, most)) {
            Ok((text, _)) if text.trim().is_empty() => {}
            Ok((text, cut)) => {
                if cut {
                    let message = format!("only the first {} bytes are used", text.len());
                    self.warnings.push(Problem::about(&source, None, message));
                }
                *left -= text.len().min(*left);
                self.files.push(Instruction { path, text });
            }
            Err(error) => {
                let message = format!("the file cannot be read: {}", walk::reason(&error));
                self.warnings.push(Problem::about(&source, None, message));
            }
        }
    }

    fn warn(&mut self, message: String) {
        let problem = Problem::about(&Source::Merged, None, message);
        self.warnings.push(Problem { key: "instructions".into(), ..problem });
    }
}

fn without_claude(environment: &Environment) -> bool {
    environment.is_on("OPENCODE_DISABLE_CLAUDE_CODE")
        || environment.is_on("OPENCODE_DISABLE_CLAUDE_CODE_PROMPT")
}

fn without_project(environment: &Environment) -> bool {
    environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG")
}

fn names(environment: &Environment) -> Vec<&'static str> {
    let mut names = vec!["AGENTS.md", "CLAUDE.md", "CONTEXT.md"];
    if without_claude(environment) {
        names.retain(|name| *name != "CLAUDE.md");
    }
    names
}

/// Files with the standard names: the user's, then the project's.
fn named(environment: &Environment, site: &Site) -> Vec<PathBuf> {
    let own = environment.config_dir().map(|directory| directory.join("AGENTS.md"));
    let claude = environment.home().filter(|_| !without_claude(environment));
    let claude = claude.map(|home| home.join(".claude/CLAUDE.md"));
    let mut paths: Vec<PathBuf> =
        own.into_iter().chain(claude).find(|path| path.is_file()).into_iter().collect();
    if !without_project(environment) {
        let on_the_way = |name: &str| -> Vec<PathBuf> {
            let directories = walk::upwards(&site.directory, &site.worktree);
            directories.map(|directory| directory.join(name)).filter(|path| path.is_file()).collect()
        };
        let found = names(environment).into_iter().map(on_the_way).find(|found| !found.is_empty());
        paths.extend(found.unwrap_or_default());
    }
    paths
}

/// Files that match an entry of `instructions`.
fn matching(environment: &Environment, site: &Site, written: &str) -> Result<Vec<PathBuf>, globset::Error> {
    let full = environment.resolve(written, Path::new(""));
    if full.is_absolute() {
        return below(Path::new("/"), &full.to_string_lossy());
    }
    let user = environment.config_dir();
    let directories: Vec<&Path> = if without_project(environment) {
        user.as_deref().into_iter().collect()
    } else {
        walk::upwards(&site.directory, &site.worktree).collect()
    };
    let mut found = Vec::new();
    for directory in directories {
        found.extend(below(directory, written)?);
    }
    Ok(found)
}

/// Files below a directory that match a pattern. Searches only below the pattern's fixed prefix.
fn below(directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, globset::Error> {
    let steps: Vec<&str> = pattern.split('/').filter(|step| !step.is_empty()).collect();
    let fixed = steps.iter().take_while(|step| !step.contains(WILD)).count();
    let start = steps.iter().take(fixed).fold(directory.to_owned(), |path, step| path.join(step));
    let start = walk::clean(&start);
    let open: Vec<&str> = steps.into_iter().skip(fixed).collect();
    if open.is_empty() {
        return Ok(Some(start).filter(|path| path.is_file()).into_iter().collect());
    }
    let depth = if open.iter().any(|step| step.contains("**")) { walk::MAX_DEPTH } else { open.len() };
    let matcher = GlobBuilder::new(&open.join("/")).literal_separator(true).build()?.compile_matcher();
    let wanted = |path: &Path| path.strip_prefix(&start).is_ok_and(|path| matcher.is_match(path));
    Ok(walk::files(&start, depth, &wanted))
}
