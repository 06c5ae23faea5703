//! Other people's agents: which of them can be used here, and the runners that talk to them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ::agents::{
    acp::{self, Acp},
    claude::{self, Claude},
    codex::{self, Codex},
    external::{Agent, Driver, Options},
    opencode,
    roster::{
        About, DEFAULT_MODEL, External, IDLE, Program, Watched,
        known::{self, ACP, KNOWN, Kind, Known},
    },
};
use client::Password;
use protocol::agent::Abilities;
use protocol::config::{self, Agents, Config, OpenCode, Positive};
use server::instance::Invalid;
use store::files::Environment;

pub(crate) use super::settings::site;
use super::{agents, ground::Ground, hidden, options, settings::Settings};

/// Characters of a name in `acp`, besides letters and digits.
const NAME_CHARACTERS: &str = "-_.";

/// An agent that was looked for.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// Its name as a provider and as an agent.
    pub(crate) id: String,
    /// Its name for people.
    pub(crate) name: String,
    /// How it is talked to.
    pub(crate) kind: Kind,
    /// The program and its arguments; the program is a path if it was found.
    pub(crate) command: Vec<String>,
    /// Whether there is such a program, or a server in its place.
    pub(crate) is_there: bool,
    /// What is known about it.
    pub(crate) known: Option<&'static Known>,
    /// What was configured.
    pub(crate) written: OpenCode,
}

impl Candidate {
    /// Whether it is to be used.
    pub(crate) fn is_enabled(&self) -> bool {
        self.written.enabled.unwrap_or(true)
    }

    /// Its models, the default first.
    fn models(&self) -> Vec<String> {
        let usual = self.known.map(|known| known.models).unwrap_or_default().iter().copied();
        let mut models: Vec<String> = [DEFAULT_MODEL].into_iter().chain(usual).map(str::to_owned).collect();
        for written in &self.written.models {
            if !models.contains(written) {
                models.push(written.clone());
            }
        }
        models
    }
}

/// Every agent that is known or configured, found or not.
pub(crate) fn candidates(environment: &Environment, config: &Config) -> Result<Vec<Candidate>, Invalid> {
    let nothing = Agents::default();
    let written = config.agents.as_ref().unwrap_or(&nothing);
    if let Some(name) = written.unknown.keys().next() {
        return Err(unknown(name));
    }
    let mut found = Vec::new();
    for known in &KNOWN {
        let written = match known.kind {
            Kind::Claude => written.claude_code.as_ref().map(as_opencode),
            Kind::Codex => written.codex.as_ref().map(as_opencode),
            Kind::OpenCode => written.opencode_agent.clone(),
            Kind::Acp => known.id.strip_prefix(ACP).and_then(|name| config.acp.get(name)).map(as_opencode),
        };
        found.push(candidate(environment, known.id, Some(known), written.unwrap_or_default())?);
    }
    for (name, written) in &config.acp {
        let id = format!("{ACP}{name}");
        if known::find(&id).is_none() {
            found.push(candidate(environment, &id, None, as_opencode(written))?);
        }
    }
    Ok(found)
}

/// What is told of a name in `agents` that Baton does not know.
fn unknown(name: &str) -> Invalid {
    let known: Vec<&str> = KNOWN.iter().map(|known| known.id).filter(|id| !id.starts_with(ACP)).collect();
    let message = format!(
        "agents.{name}: Baton knows no agent of that name; it knows {}. One that speaks the Agent Client Protocol goes \
         under `acp`, with its `command`",
        known.join(", ")
    );
    Invalid { path: None, message }
}

fn as_opencode(program: &config::Program) -> OpenCode {
    let config::Program { enabled, command, environment, models, permission_mode, idle_seconds } =
        program.clone();
    let (url, username, password) = (None, None, None);
    OpenCode { enabled, command, environment, url, username, password, models, permission_mode, idle_seconds }
}

fn candidate(
    environment: &Environment,
    id: &str,
    known: Option<&'static Known>,
    written: OpenCode,
) -> Result<Candidate, Invalid> {
    let invalid = |message: String| Invalid { path: None, message };
    let name = id.strip_prefix(ACP).unwrap_or(id);
    if name.is_empty() || !name.chars().all(|it| it.is_ascii_alphanumeric() || NAME_CHARACTERS.contains(it)) {
        return Err(invalid(format!(
            "acp: {name:?} cannot be the name of an agent: use letters, digits and {NAME_CHARACTERS:?}"
        )));
    }
    let usual = known.map(|known| known.command.iter().map(|&word| word.to_owned()).collect());
    let Some(mut command) = written.command.clone().or(usual) else {
        let known: Vec<&str> = KNOWN.iter().filter_map(|known| known.id.strip_prefix(ACP)).collect();
        return Err(invalid(format!(
            "acp.{name}: it has no `command`, and Baton knows none of that name; it knows {}",
            known.join(", ")
        )));
    };
    if let Some(url) = &written.url {
        if written.command.is_some() {
            return Err(invalid(format!(
                "agents.{id}: give a `command` to start or the `url` of a server, not both"
            )));
        }
        if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(invalid(format!("agents.{id}.url: an address begins with http:// or https://")));
        }
        if url.contains('@') {
            return Err(invalid(format!("agents.{id}.url: say who you are with `username` and `password`")));
        }
    }
    let Some(program) = command.first_mut().filter(|program| !program.is_empty()) else {
        return Err(invalid(format!("{id}: its `command` names no program")));
    };
    let found = find_program(environment, program);
    if let Some(path) = found.as_ref().and_then(|path| path.to_str()) {
        path.clone_into(program);
    }
    let is_there = found.is_some() || written.url.is_some();
    let (id, title) = (id.to_owned(), known.map_or(name, |known| known.name).to_owned());
    let kind = known.map_or(Kind::Acp, |known| known.kind);
    Ok(Candidate { id, name: title, kind, command, is_there, known, written })
}

/// Where a program is: as written if that is a path, else on PATH.
fn find_program(environment: &Environment, program: &str) -> Option<PathBuf> {
    let written = match program.strip_prefix("~/") {
        Some(below) => environment.home()?.join(below),
        None => PathBuf::from(program),
    };
    if program.contains('/') {
        return is_executable(&written).then_some(written);
    }
    let path = environment.get("PATH")?;
    std::env::split_paths(path).map(|directory| directory.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// The runners of all that can be used.
pub(super) fn runners(ground: &Ground, settings: &Settings) -> Result<Vec<Arc<dyn External>>, Invalid> {
    let config = &settings.loaded.config;
    let snapshots = (config.snapshot != Some(false)).then(|| Arc::clone(&ground.snapshots));
    let budget = config.budget.clone().unwrap_or_default();
    let watch =
        |runner| -> Arc<dyn External> { Arc::new(Watched::new(runner, snapshots.clone(), budget.clone())) };
    let candidates = candidates(&settings.environment, config)?;
    let usable = candidates.iter().filter(|candidate| candidate.is_there && candidate.is_enabled());
    Ok(usable.map(|candidate| watch(runner(ground, settings, candidate))).collect())
}

fn program(settings: &Settings, candidate: &Candidate) -> Program {
    let written = &candidate.written;
    Program {
        command: candidate.command.clone(),
        environment: written.environment.0.clone(),
        hidden: hidden::from_agents(settings),
        mode: written.permission_mode.unwrap_or_default(),
        rules: agents::written(&settings.environment, &settings.loaded.config),
        idle: written.idle_seconds.map_or(IDLE, Positive::seconds),
    }
}

/// The runner for an agent.
fn runner(ground: &Ground, settings: &Settings, candidate: &Candidate) -> Arc<dyn External> {
    let program = program(settings, candidate);
    match candidate.kind {
        Kind::Codex => {
            let description = "OpenAI's Codex, with the settings and the login it has on this machine.";
            let about = about(candidate, description, codex::ABILITIES);
            driver(ground, Codex::new(Options::new(about, program)))
        }
        Kind::Claude => {
            let about = about(candidate, "Claude Code, with its own tools and settings.", claude::ABILITIES);
            driver(ground, Claude::new(Options::new(about, program)))
        }
        Kind::Acp => driver(ground, acp(ground, settings, candidate, program)),
        Kind::OpenCode => {
            let about =
                about(candidate, "OpenCode, with its own agents, tools and providers.", opencode::ABILITIES);
            let about = About { has_providers: true, ..about };
            let (clock, random) = (ground.clock.clone(), ground.random.clone());
            let options = Options::new(about, program);
            driver(ground, opencode::OpenCode::new(options, remote(candidate), clock, random))
        }
    }
}

fn driver(ground: &Ground, agent: impl Agent) -> Arc<dyn External> {
    Arc::new(Driver::new(agent, Arc::clone(&ground.clock), ground.wakes.wake()))
}

fn about(candidate: &Candidate, description: &str, abilities: Abilities) -> About {
    About {
        id: candidate.id.clone(),
        name: candidate.name.clone(),
        description: description.to_owned(),
        models: candidate.models(),
        has_providers: false,
        abilities,
    }
}

/// An agent that speaks the Agent Client Protocol.
fn acp(ground: &Ground, settings: &Settings, candidate: &Candidate, program: Program) -> Acp {
    let config = &settings.loaded.config;
    let description = format!("{}, over the Agent Client Protocol.", candidate.name);
    // Many name their models with a provider, and each knows best which it has.
    let about = About { has_providers: true, ..about(candidate, &description, acp::Options::ABILITIES) };
    let program = Program { rules: agents::rules(&settings.environment, config), ..program };
    Acp::new(acp::Options {
        agent: Options::new(about, program),
        servers: config.mcp.clone(),
        sandbox: config.sandbox.and_then(options::sandbox),
        closed: ground.closed.clone(),
    })
}

/// The server that is to be called instead of one that is started.
fn remote(candidate: &Candidate) -> Option<opencode::Remote> {
    let OpenCode { url, username, password, .. } = &candidate.written;
    Some(opencode::Remote {
        address: url.clone()?,
        user: username.clone(),
        password: password.as_ref().map(|password| Password::new(password.reveal())),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    fn look(path: &Path, config: serde_json::Value) -> Result<Vec<Candidate>, String> {
        let environment = Environment::of([("PATH", path.as_os_str()), ("HOME", path.as_os_str())]);
        let config: Config = serde_json::from_value(config).unwrap();
        candidates(&environment, &config).map_err(|invalid| invalid.message)
    }

    fn install(directory: &TempDir, name: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        let file = directory.path().join(name);
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn named<'a>(candidates: &'a [Candidate], id: &str) -> &'a Candidate {
        candidates.iter().find(|candidate| candidate.id == id).unwrap()
    }

    #[test]
    fn programs_are_found_on_the_path_or_where_somebody_says() {
        let directory = TempDir::new().unwrap();
        install(&directory, "claude", 0o755);
        install(&directory, "codex", 0o644);
        install(&directory, "mine", 0o755);
        let found = look(
            directory.path(),
            json!({
                "agents": {
                    "codex": { "command": ["~/mine", "app-server"] },
                    "opencode-agent": { "url": "http://127.0.0.1:1", "enabled": false },
                },
                "acp": { "other": { "command": ["mine", "--acp"], "models": ["large", "default"] } },
            }),
        )
        .unwrap();
        let there: Vec<&str> = found
            .iter()
            .filter(|candidate| candidate.is_there)
            .map(|candidate| candidate.id.as_str())
            .collect();
        assert_eq!(there, ["claude-code", "codex", "opencode-agent", "acp:other"]);
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        assert_eq!(named(&found, "claude-code").command, [path("claude")]);
        assert_eq!(named(&found, "codex").command, [path("mine"), "app-server".into()]);
        assert!(!named(&found, "opencode-agent").is_enabled());
        let other = named(&found, "acp:other");
        assert_eq!((other.name.as_str(), other.kind), ("other", Kind::Acp));
        assert_eq!(other.models(), ["default", "large"]);
        assert_eq!(named(&found, "claude-code").models(), ["default", "sonnet", "opus", "haiku"]);
    }

    #[test]
    fn a_program_that_cannot_be_run_is_none() {
        let directory = TempDir::new().unwrap();
        install(&directory, "codex", 0o644);
        std::fs::create_dir(directory.path().join("claude")).unwrap();
        let found = look(directory.path(), json!({})).unwrap();
        assert!(found.iter().all(|candidate| !candidate.is_there));
    }

    #[test]
    fn what_makes_no_sense_is_told_with_what_would() {
        let directory = TempDir::new().unwrap();
        for (config, words) in [
            (
                json!({ "agents": { "claude": {} } }),
                ["agents.claude", "claude-code, codex, opencode-agent", "`acp`"],
            ),
            (json!({ "acp": { "mine": {} } }), ["acp.mine", "no `command`", "gemini"]),
            (json!({ "acp": { "a/b": { "command": ["x"] } } }), ["\"a/b\"", "letters", "-_."]),
            (json!({ "acp": { "": { "command": ["x"] } } }), ["\"\"", "name", "letters"]),
            (json!({ "agents": { "codex": { "command": [""] } } }), ["codex", "command", "no program"]),
            (
                json!({ "agents": { "opencode-agent": { "url": "localhost:1" } } }),
                ["url", "http://", "https://"],
            ),
            (
                json!({ "agents": { "opencode-agent": { "url": "http://ada:sk@h" } } }),
                ["agents.opencode-agent.url", "`username`", "`password`"],
            ),
            (
                json!({ "agents": { "opencode-agent": { "url": "http://h", "command": ["x"] } } }),
                ["agents.opencode-agent", "not both", "url"],
            ),
        ] {
            let error = look(directory.path(), config).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
