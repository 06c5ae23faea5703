//! Loads the configuration: reads its layers in order and merges them.
//!
//! The order is OpenCode's. Later layers override earlier ones: maps are merged key by key, `instructions` and
//! `plugin` are concatenated, everything else is replaced.
//!
//! 1. the user's directory, `$XDG_CONFIG_HOME/opencode`: `config.json`, `opencode.json`, `opencode.jsonc`
//! 2. the file that `OPENCODE_CONFIG` names
//! 3. `opencode.json` and `opencode.jsonc` of the project, from the worktree's root down to the directory
//! 4. configuration directories: the user's; each `.opencode` from the directory up to the worktree, so that
//!    outer ones override inner ones; `~/.opencode`; the one that `OPENCODE_CONFIG_DIR` names. Each contributes its
//!    `opencode.json` and `opencode.jsonc` (except the user's, which is already read), then its commands, agents,
//!    modes and plugins
//! 5. `OPENCODE_CONFIG_CONTENT`
//! 6. the administrator's directory, `/etc/opencode`
//! 7. `OPENCODE_PERMISSION`; `OPENCODE_DISABLE_AUTOCOMPACT`, `OPENCODE_DISABLE_PRUNE`
//!
//! `OPENCODE_DISABLE_PROJECT_CONFIG` removes the project's files from 3 and 4. Wherever `opencode.json` is read,
//! `baton.json` and `baton.jsonc` beside it come right after it. They take the same keys, and are the place for
//! keys that OpenCode would refuse.
//!
//! The project's files may be third-party. Parts of them that run programs or send secrets count only if the user
//! trusts the directory ([`TrustPolicy`]); [`Loaded::withheld`] lists those that do not count.
//!
//! Configuration that OpenCode loads over the network is not supported: the one that a `wellknown` login points to,
//! and that of an account or organisation. Neither are the managed preferences of macOS. Unlike OpenCode, reading
//! never writes anything back.
//!
//! Four keys are not merged like the others, because a project may tighten the user's settings and never loosen
//! them; see [`super::tighten`].
//!
//! A text that does not match the schema makes the whole configuration invalid, as in OpenCode, but the errors of
//! all texts are reported at once. Unknown keys only cause warnings, because a newer OpenCode may know them; the format
//! of OpenCode 2 is refused.

mod held;

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use protocol::{
    config::Config,
    trust::{Withheld, WithheldKind},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Environment, Raw, Trace,
    document::{self, Kind, Lines, Node},
    entries,
    guard::TrustPolicy,
    merge::{merge, merge_value},
    newer, normal, plugin,
    problem::{Invalid, Problem, Source},
    schema,
    substitute::{Substituted, conceal, substitute},
    tighten::{self, Claim},
    walk,
    withhold::{self, Part},
};

/// Maximum size of a file, also of one included with `{file:path}`.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;

/// Keys that OpenCode does not know.
pub(super) const OWN_KEYS: [&str; 12] = [
    "budget",
    "permission_final",
    "continuation",
    "sandbox",
    "webfetch",
    "limits",
    "sessions",
    "agents",
    "acp",
    "auto_commit",
    "webhook",
    "channels",
];

/// The names of configuration files in a directory, in order.
const NAMES: [&str; 4] = ["opencode.json", "opencode.jsonc", "baton.json", "baton.jsonc"];

/// The place of work of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The session's directory.
    pub directory: PathBuf,
    /// The root of its repository; `/` if there is none.
    pub worktree: PathBuf,
}

/// A valid configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// The merged configuration. Old and short forms are converted: `mode`, `tools`, `autoshare`, `reference` and
    /// an agent's `maxSteps` are empty, and permissions have their long form.
    pub config: Config,
    /// The merged JSON before it was read into `config`.
    pub raw: Raw,
    /// Parts of the project's files that do not count, because they need trust.
    pub withheld: Vec<Withheld>,
    /// The files that were read, in order, including those of `{file:path}`.
    pub read: Vec<PathBuf>,
    /// The configuration directories, in order; skills are searched there too.
    pub directories: Vec<PathBuf>,
    /// Files that define the user's own tools, `{tool,tools}/*.{ts,js}` of those directories.
    pub tools: Vec<PathBuf>,
    pub warnings: Vec<Problem>,
    /// All searched paths, including those that do not exist.
    pub trace: Trace,
}

/// A changed file that is not written yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draft<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

/// Reads the configuration for a site. Blocks while it reads files.
pub fn load(environment: &Environment, site: &Site, guard: &TrustPolicy) -> Result<Loaded, Invalid> {
    load_with(environment, site, guard, None)
}

/// Reads only the user's own files, which apply everywhere.
pub fn load_user(environment: &Environment) -> Result<Loaded, Invalid> {
    load_user_with(environment, None)
}

/// The paths of the user's own files, in order.
pub(super) fn user_files(environment: &Environment) -> Vec<PathBuf> {
    let Some(directory) = environment.config_dir() else { return Vec::new() };
    let names = std::iter::once("config.json").chain(NAMES);
    names.map(|name| directory.join(name)).collect()
}

/// Returns true if the files of projects are disabled.
pub(super) fn ignores_projects(environment: &Environment) -> bool {
    environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG")
}

pub(super) fn load_user_with(environment: &Environment, draft: Option<Draft<'_>>) -> Result<Loaded, Invalid> {
    let directory = environment.config_dir().unwrap_or_default();
    let site = Site { worktree: directory.clone(), directory };
    let guard = TrustPolicy::default();
    let mut loader = Loader::new(environment, &site, &guard, draft);
    loader.user();
    loader.finish()
}

pub(super) fn load_with(
    environment: &Environment,
    site: &Site,
    guard: &TrustPolicy,
    draft: Option<Draft<'_>>,
) -> Result<Loaded, Invalid> {
    let mut loader = Loader::new(environment, site, guard, draft);
    loader.layers();
    loader.finish()
}

struct Loader<'a> {
    environment: &'a Environment,
    site: &'a Site,
    guard: &'a TrustPolicy,
    /// Replaces a file on disk.
    draft: Option<Draft<'a>>,
    merged: Map<String, Value>,
    /// True while the project's layers are read.
    in_project: bool,
    /// True if the project's files are left out.
    skips_project: bool,
    /// Providers that the user's own layers configure; computed on first use.
    own_providers: OnceCell<BTreeSet<String>>,
    /// The project's values for the keys that it may only tighten.
    claims: Vec<Claim>,
    loaded: Loaded,
    wrong: Vec<Problem>,
}

impl<'a> Loader<'a> {
    fn new(
        environment: &'a Environment,
        site: &'a Site,
        guard: &'a TrustPolicy,
        draft: Option<Draft<'a>>,
    ) -> Self {
        Self {
            environment,
            site,
            guard,
            draft,
            merged: Map::new(),
            in_project: false,
            skips_project: ignores_projects(environment),
            own_providers: OnceCell::new(),
            claims: Vec::new(),
            loaded: Loaded::default(),
            wrong: Vec::new(),
        }
    }

    fn layers(&mut self) {
        self.user();
        self.chosen();
        self.project();
        self.directories();
        self.content();
        if let Some(managed) = &self.environment.managed {
            self.directory(managed);
        }
        self.permission();
    }

    fn user(&mut self) {
        for file in user_files(self.environment) {
            self.file(&file);
        }
    }

    fn chosen(&mut self) {
        const VARIABLE: &str = "OPENCODE_CONFIG";
        let Some(path) = self.environment.get(VARIABLE) else { return };
        let path = self.site.directory.join(path);
        if !self.file(&path) {
            let message = format!("there is no file {}", path.display());
            self.loaded.warnings.push(Problem::about(&Source::Variable(VARIABLE), None, message));
        }
    }

    fn project(&mut self) {
        let mut directories = self.project_directories();
        directories.reverse();
        let user = self.environment.config_dir();
        for directory in directories {
            // The site may be the directory of the user's own configuration.
            self.in_project = user.as_ref() != Some(&directory);
            self.directory(&directory);
        }
        self.in_project = false;
    }

    fn directories(&mut self) {
        let environment = self.environment;
        let own = |path: &Path| path.join(".opencode");
        let project: Vec<PathBuf> =
            self.project_directories().into_iter().map(|directory| own(&directory)).collect();
        let home = environment.home().map(|home| own(&home));
        let chosen = environment.get("OPENCODE_CONFIG_DIR").map(|path| self.site.directory.join(path));
        let users: Vec<PathBuf> =
            environment.config_dir().into_iter().chain(home.clone()).chain(chosen.clone()).collect();
        let nested: Vec<PathBuf> = project.iter().cloned().chain(home).collect();
        for directory in &nested {
            self.loaded.trace.note(directory);
        }
        let nested = nested.into_iter().filter(|path| path.is_dir());
        let mut directories: Vec<PathBuf> = Vec::new();
        for directory in environment.config_dir().into_iter().chain(nested).chain(chosen.clone()) {
            if !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        for directory in &directories {
            self.in_project = project.contains(directory) && !users.contains(directory);
            if directory.ends_with(".opencode") || chosen.as_ref() == Some(directory) {
                self.directory(directory);
            }
            self.entries(directory);
        }
        self.in_project = false;
        self.loaded.directories = directories;
    }

    fn content(&mut self) {
        const VARIABLE: &str = "OPENCODE_CONFIG_CONTENT";
        if let Some(text) = self.environment.text(VARIABLE) {
            self.text(text, &Source::Variable(VARIABLE), &self.site.directory);
        }
    }

    fn permission(&mut self) {
        const VARIABLE: &str = "OPENCODE_PERMISSION";
        let Some(text) = self.environment.text(VARIABLE) else { return };
        let source = Source::Variable(VARIABLE);
        let lines = Lines::of(text);
        let Some(node) = self.parsed(text, &|offset| lines.position(offset), &source) else { return };
        if self.fits(&node, &schema::PERMISSION, &source) {
            let mut permission = node.into_value();
            normal::full_permission(&mut permission);
            merge_value(self.merged.entry("permission").or_insert_with(|| json!({})), permission);
        }
    }

    fn finish(mut self) -> Result<Loaded, Invalid> {
        self.loaded.warnings.extend(tighten::apply(&mut self.merged, &self.claims));
        normal::finish(&mut self.merged, self.environment);
        if self.wrong.is_empty() {
            let raw = Raw(self.merged.clone());
            match Config::deserialize(Value::Object(self.merged)) {
                Ok(config) => return Ok(Loaded { config, raw, ..self.loaded }),
                // Serde's message is left out, because it might repeat a secret.
                Err(_) => {
                    self.wrong.push(Problem::about(
                        &Source::Merged,
                        None,
                        "the merged layers do not match the schema",
                    ));
                }
            }
        }
        Err(Invalid { problems: self.wrong })
    }

    /// The directories of the project, the nearest first; empty if project files are disabled.
    fn project_directories(&self) -> Vec<PathBuf> {
        if self.skips_project {
            return Vec::new();
        }
        walk::upwards(&self.site.directory, &self.site.worktree).map(Path::to_path_buf).collect()
    }

    /// Adds the configuration files of a directory.
    fn directory(&mut self, directory: &Path) {
        for name in NAMES {
            self.file(&directory.join(name));
        }
    }

    /// Adds the other files of a configuration directory.
    fn entries(&mut self, directory: &Path) {
        let mut entries = entries::read(directory);
        self.hold_back_entries(&mut entries);
        merge(&mut self.merged, entries.config);
        self.loaded.read.extend(entries.read);
        self.loaded.warnings.extend(entries.odd);
        self.loaded.trace.join(entries.trace);
        self.wrong.extend(entries.wrong);
        let plugins = self.scripts(directory, ["plugin", "plugins"], WithheldKind::Plugin);
        let plugins: Vec<Value> = plugins.iter().map(|path| plugin::address(path).into()).collect();
        if !plugins.is_empty() {
            merge(&mut self.merged, Map::from_iter([("plugin".to_owned(), plugins.into())]));
        }
        let tools = self.scripts(directory, ["tool", "tools"], WithheldKind::Tool);
        self.loaded.tools.extend(tools);
    }

    /// The trusted scripts in these folders of a directory. Withholds the others.
    fn scripts(&mut self, directory: &Path, folders: [&str; 2], kind: WithheldKind) -> Vec<PathBuf> {
        let script =
            |path: &Path| path.extension().is_some_and(|extension| extension == "ts" || extension == "js");
        let trace = &mut self.loaded.trace;
        let found = |folder: &str| walk::traced_files(&directory.join(folder), 1, &script, trace);
        let mut scripts: Vec<PathBuf> = folders.into_iter().flat_map(found).collect();
        scripts.retain(|path| {
            let Some(reason) = self.refusal(path) else { return true };
            let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.hold_back(path, reason, Part { key, kind });
            false
        });
        scripts
    }

    /// Adds a file; returns false if it does not exist.
    fn file(&mut self, path: &Path) -> bool {
        let source = Source::File(path.to_owned());
        self.loaded.trace.note(path);
        let draft = self.draft.filter(|draft| draft.path == path);
        match draft.map_or_else(|| walk::read(path, MAX_BYTES), |draft| Ok(Some(draft.text.to_owned()))) {
            Ok(None) => return false,
            Ok(Some(text)) => {
                self.loaded.read.push(path.to_owned());
                self.text(&text, &source, path.parent().unwrap_or(path));
            }
            Err(error) => {
                let message = format!("the file cannot be read: {}", walk::reason(&error));
                self.wrong.push(Problem::about(&source, None, message));
            }
        }
        true
    }

    /// Adds a text. Paths in it are relative to `from`.
    fn text(&mut self, text: &str, source: &Source, from: &Path) {
        let refusal = match source {
            Source::File(path) => self.refusal(path).map(|reason| (path.clone(), reason)),
            _ => None,
        };
        let lines = Lines::of(text);
        let filled = match refusal {
            Some(_) => conceal(text),
            None => self.filled(text, &lines, source, from),
        };
        let locate = |offset| lines.position(filled.origin(offset));
        let Some(mut node) = self.parsed(&filled.text, &locate, source) else { return };
        let held = if refusal.is_some() { withhold::placeholders(&mut node) } else { Vec::new() };
        if let Some(problem) = newer::refusal(&node, source) {
            self.wrong.push(problem);
            return;
        }
        self.warn_of_own_keys(&node, source);
        let claims = if self.in_project { tighten::claims(&node, source) } else { Vec::new() };
        if !self.fits(&node, &schema::CONFIGURATION, source) {
            return;
        }
        let Value::Object(mut layer) = node.into_value() else { return };
        if let Some((file, reason)) = refusal {
            self.split(&mut layer, held, &file, reason);
        }
        normal::layer(&mut layer, self.environment, from);
        self.hold_back_plugins(&mut layer);
        if self.in_project {
            tighten::remove(&mut layer);
            self.claims.extend(claims);
        }
        merge(&mut self.merged, layer);
    }

    /// Fills in variables and files. Records a warning or an error for each that cannot be filled in.
    fn filled(&mut self, text: &str, lines: &Lines<'_>, source: &Source, from: &Path) -> Substituted {
        let (environment, trace) = (self.environment, RefCell::new(&mut self.loaded.trace));
        let read = |path: &Path| {
            trace.borrow_mut().note(path);
            let missing = || std::io::ErrorKind::NotFound.into();
            let checked = environment.check(path);
            let text =
                checked.and_then(|()| walk::read(path, MAX_BYTES)).and_then(|text| text.ok_or_else(missing));
            text.map_err(|error| walk::reason(&error))
        };
        let filled = substitute(text, self.environment, from, &read);
        self.loaded.read.extend(filled.files.iter().cloned());
        for (offset, name) in &filled.unset {
            let message = format!("the variable {name} is not set; it is replaced by an empty text");
            self.loaded.warnings.push(Problem::about(source, Some(lines.position(*offset)), message));
        }
        for (offset, path, reason) in &filled.unread {
            let message = format!("the file {} cannot be included: {reason}", path.display());
            self.wrong.push(Problem::about(source, Some(lines.position(*offset)), message));
        }
        filled
    }

    fn parsed(
        &mut self,
        text: &str,
        locate: &dyn Fn(usize) -> super::Position,
        source: &Source,
    ) -> Option<Node> {
        document::parse(text, locate).unwrap_or_else(|error| {
            let message = format!("the text is not JSON: {}", error.message);
            self.wrong.push(Problem::about(source, Some(locate(error.offset)), message));
            None
        })
    }

    /// Returns true if a document matches the schema; records the errors otherwise.
    fn fits(&mut self, node: &Node, expected: &schema::Expected, source: &Source) -> bool {
        let findings = schema::check(node, expected, source);
        let fits = findings.wrong.is_empty();
        self.loaded.warnings.extend(findings.odd);
        self.wrong.extend(findings.wrong);
        fits
    }

    fn warn_of_own_keys(&mut self, node: &Node, source: &Source) {
        let (Source::File(path), Kind::Map(entries)) = (source, &node.kind) else { return };
        let ours = path.file_stem().is_some_and(|stem| stem == "baton");
        for entry in entries.iter().filter(|entry| !ours && OWN_KEYS.contains(&entry.name.as_str())) {
            let message =
                format!("move `{}` to baton.json: OpenCode refuses a file that contains it", entry.name);
            let problem = Problem::about(source, Some(entry.at), message);
            self.loaded.warnings.push(Problem { key: entry.name.clone(), ..problem });
        }
    }
}
