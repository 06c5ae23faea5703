//! The configuration: which texts it is made of, in which order, and what they amount to.
//!
//! The order is OpenCode's. Later ones go on top of earlier ones: maps are merged key by key, `instructions` and
//! `plugin` grow, everything else is replaced.
//!
//! 1. the user's directory, `$XDG_CONFIG_HOME/opencode`: `config.json`, `opencode.json`, `opencode.jsonc`
//! 2. the file that `OPENCODE_CONFIG` names
//! 3. `opencode.json` and `opencode.jsonc` of the project, from the worktree's root down to the directory
//! 4. configuration directories: the user's; each `.opencode` from the directory up to the worktree, so that
//!    outer ones go on top of inner ones; `~/.opencode`; the one that `OPENCODE_CONFIG_DIR` names. Of each its
//!    `opencode.json` and `opencode.jsonc` (of the user's not again), then its commands, agents, modes and
//!    plugins
//! 5. `OPENCODE_CONFIG_CONTENT`
//! 6. the administrator's directory, `/etc/opencode`
//! 7. `OPENCODE_PERMISSION`; `OPENCODE_DISABLE_AUTOCOMPACT`, `OPENCODE_DISABLE_PRUNE`
//!
//! `OPENCODE_DISABLE_PROJECT_CONFIG` takes the project's out of 3 and 4. Wherever `opencode.json` is looked
//! for, `baton.json` and `baton.jsonc` beside it come right after it and take the same keys; they are the place
//! for those that OpenCode would refuse.
//!
//! The project's files may be somebody else's. Those of their parts that run programs or send secrets count only if the
//! user trusts the directory ([`Guard`]); [`Loaded::withheld`] lists those that do not.
//!
//! What OpenCode loads over the network is left out: configuration that a `wellknown` login points to, and that
//! of an account or organisation. So are the managed preferences of macOS. Unlike OpenCode, nothing is ever
//! written back while it is read.
//!
//! Four keys are not merged like the others, because a project may tighten what the user set and never loosen it; see
//! [`super::tighten`].
//!
//! A text that does not fit the schema makes the whole configuration unusable, as in OpenCode; but all that is
//! wrong with all texts is told at once. Keys that are unknown deeper down are only warned about, because
//! OpenCode ignores them.

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
    guard::Guard,
    merge::{merge, merge_value},
    normal, plugin,
    problem::{Invalid, Problem, Source},
    schema,
    substitute::{Substituted, conceal, substitute},
    tighten::{self, Claim},
    walk,
    withhold::{self, Part},
};

/// The largest file that is read, also for a `{file:path}`.
pub(super) const MAX_BYTES: u64 = 1024 * 1024;

/// Keys that OpenCode does not know.
pub(super) const OWN_KEYS: [&str; 11] = [
    "budget",
    "permission_final",
    "continuation",
    "sandbox",
    "webfetch",
    "limits",
    "agents",
    "acp",
    "auto_commit",
    "webhook",
    "channels",
];

/// The names of the files in a directory, and their order.
const NAMES: [&str; 4] = ["opencode.json", "opencode.jsonc", "baton.json", "baton.jsonc"];

/// Where somebody works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The directory of the session.
    pub directory: PathBuf,
    /// The root of its repository; `/` if there is none.
    pub worktree: PathBuf,
}

/// A configuration that can be used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// What everything amounts to. Old and short forms are gone: `mode`, `tools`, `autoshare`, `reference` and
    /// an agent's `maxSteps` are empty, and permissions have their long form.
    pub config: Config,
    /// The same, as it was written.
    pub raw: Raw,
    /// Parts of the project's files that do not count, because they need trust.
    pub withheld: Vec<Withheld>,
    /// The files it was read from, in order. Files that `{file:path}` put in are among them.
    pub read: Vec<PathBuf>,
    /// The configuration directories, in order; also where skills are looked for.
    pub directories: Vec<PathBuf>,
    /// Files with tools of the user's own making, `{tool,tools}/*.{ts,js}` of those directories.
    pub tools: Vec<PathBuf>,
    /// What is odd, but no reason to refuse.
    pub warnings: Vec<Problem>,
    /// Where it was looked for, also in vain.
    pub trace: Trace,
}

/// What a file would hold if it were changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draft<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

/// Reads the configuration for a place of work. It reads files and so may block for a moment.
pub fn load(environment: &Environment, site: &Site, guard: &Guard) -> Result<Loaded, Invalid> {
    load_with(environment, site, guard, None)
}

/// Reads the user's own files only: what counts everywhere.
pub fn load_user(environment: &Environment) -> Result<Loaded, Invalid> {
    load_user_with(environment, None)
}

/// Whether the files of projects are not to be looked at.
pub(super) fn ignores_projects(environment: &Environment) -> bool {
    environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG")
}

pub(super) fn load_user_with(environment: &Environment, draft: Option<Draft<'_>>) -> Result<Loaded, Invalid> {
    let directory = environment.config_dir().unwrap_or_default();
    let site = Site { worktree: directory.clone(), directory };
    let guard = Guard::default();
    let mut loader = Loader::new(environment, &site, &guard, draft);
    loader.user();
    loader.finish()
}

pub(super) fn load_with(
    environment: &Environment,
    site: &Site,
    guard: &Guard,
    draft: Option<Draft<'_>>,
) -> Result<Loaded, Invalid> {
    let mut loader = Loader::new(environment, site, guard, draft);
    loader.layers();
    loader.finish()
}

struct Loader<'a> {
    environment: &'a Environment,
    site: &'a Site,
    guard: &'a Guard,
    /// Stands for a file.
    draft: Option<Draft<'a>>,
    merged: Map<String, Value>,
    /// Whether what is read is the project's.
    in_project: bool,
    /// Whether the project's files are left out.
    skips_project: bool,
    /// Providers that the user's own layers configure, once that was asked for.
    own_providers: OnceCell<BTreeSet<String>>,
    /// The project's values for the keys that it may only tighten.
    claims: Vec<Claim>,
    loaded: Loaded,
    wrong: Vec<Problem>,
}

impl<'a> Loader<'a> {
    fn new(environment: &'a Environment, site: &'a Site, guard: &'a Guard, draft: Option<Draft<'a>>) -> Self {
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

    /// Reads every layer.
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
        if let Some(user) = self.environment.config_dir() {
            self.file(&user.join("config.json"));
            self.directory(&user);
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
            // Somebody may work in the directory with their own configuration.
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
                // What serde has to say might repeat a secret.
                Err(_) => {
                    self.wrong.push(Problem::about(&Source::Merged, None, "the layers do not fit together"));
                }
            }
        }
        Err(Invalid { problems: self.wrong })
    }

    /// The directories of the project, the nearest first; none if they are not to be looked at.
    fn project_directories(&self) -> Vec<PathBuf> {
        if self.skips_project {
            return Vec::new();
        }
        walk::upwards(&self.site.directory, &self.site.worktree).map(Path::to_path_buf).collect()
    }

    /// The configuration files of a directory.
    fn directory(&mut self, directory: &Path) {
        for name in NAMES {
            self.file(&directory.join(name));
        }
    }

    /// The other files of a configuration directory.
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

    /// The scripts in folders of a directory.
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

    /// Adds a file, and tells whether there is one.
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

    /// A text with variables and files put in. What cannot be put in is remembered.
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
            let message = format!("the variable {name} is not set, so nothing is put in for it");
            self.loaded.warnings.push(Problem::about(source, Some(lines.position(*offset)), message));
        }
        for (offset, path, reason) in &filled.unread {
            let message = format!("the file {} cannot be put in: {reason}", path.display());
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

    /// Whether a document can be used; remembers why not.
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
                format!("`{}` belongs into baton.json: OpenCode refuses a file that has it", entry.name);
            let problem = Problem::about(source, Some(entry.at), message);
            self.loaded.warnings.push(Problem { key: entry.name.clone(), ..problem });
        }
    }
}
