//! External agents: finds the installed ones and builds their runners.

pub mod own_keys;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use client::Password;
use drivers::{
    acp::{self, Acp},
    claude::{self, Claude},
    codex::{self, Codex},
    external::{Agent, Driver, Options},
    opencode,
    roster::{
        self, About, DEFAULT_MODEL, External, IDLE, Program,
        known::{self, ACP, KNOWN, Kind, Known},
    },
};
use protocol::agent::Abilities;
use protocol::config::{self, Agents, Config, OpenCode, PermissionMode, Positive};
use server::instance::Invalid;
use store::files::Environment;

use crate::{agents, hidden, providers::Providers, services::Services, settings::Settings};

/// Keys of an agent that is a server.
const SERVER_KEYS: [&str; 3] = ["url", "username", "password"];

/// Characters that a name in `acp` may have besides letters and digits.
const NAME_CHARACTERS: &str = "-_.";

/// A known or configured agent, installed or not.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The agent's id, which is also the id of its provider.
    pub id: String,
    /// The name that users see.
    pub name: String,
    pub kind: Kind,
    /// The program and its arguments. The program is a path if it was found.
    pub command: Vec<String>,
    /// True if the program was found, or a server is configured in its place.
    pub is_there: bool,
    /// A file with the program's name that is not executable, if nothing else was found.
    pub not_executable: Option<PathBuf>,
    pub known: Option<&'static Known>,
    /// The agent's configuration, in the form that has all fields.
    pub written: OpenCode,
}

impl Candidate {
    pub fn is_enabled(&self) -> bool {
        self.written.enabled.unwrap_or(true)
    }

    /// Returns the agent's models, the default first.
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

/// Returns every agent that Baton knows or that is configured, installed or not.
pub fn candidates(environment: &Environment, config: &Config) -> Result<Vec<Candidate>, Invalid> {
    let nothing = Agents::default();
    let written = config.agents.as_ref().unwrap_or(&nothing);
    if let Some(name) = written.unknown.keys().next() {
        return Err(unknown(name));
    }
    let mut found = Vec::new();
    for known in &KNOWN {
        let written = match known.kind {
            Kind::Claude => written.claude_code.as_ref().map(|it| as_opencode(known.id, it)).transpose()?,
            Kind::Codex => written.codex.as_ref().map(|it| as_opencode(known.id, it)).transpose()?,
            Kind::OpenCode => written.opencode_agent.clone(),
            Kind::Acp => {
                let written = known.id.strip_prefix(ACP).and_then(|name| config.acp.get(name));
                written.map(|it| as_opencode(known.id, it)).transpose()?
            }
        };
        found.push(candidate(environment, known.id, Some(known), written.unwrap_or_default())?);
    }
    for (name, written) in &config.acp {
        let id = format!("{ACP}{name}");
        if known::find(&id).is_none() {
            found.push(candidate(environment, &id, None, as_opencode(&id, written)?)?);
        }
    }
    Ok(found)
}

/// The error for a name in `agents` that Baton does not know.
fn unknown(name: &str) -> Invalid {
    let known: Vec<&str> = KNOWN.iter().map(|known| known.id).filter(|id| !id.starts_with(ACP)).collect();
    let message = format!(
        "agents.{name}: unknown agent; known agents are {}. Configure an agent that speaks the Agent Client Protocol under \
         `acp`, with its `command`",
        known.join(", ")
    );
    Invalid { path: None, message }
}

/// Converts the configuration of a program. Refuses keys that only a server has, because they would have no effect.
fn as_opencode(id: &str, program: &config::Program) -> Result<OpenCode, Invalid> {
    let config::Program { enabled, command, environment, models, permission_mode, idle_seconds, unknown } =
        program.clone();
    if let Some(key) = SERVER_KEYS.iter().find(|key| unknown.contains(**key)) {
        let entry = match id.strip_prefix(ACP) {
            Some(name) => format!("acp.{name}"),
            None => format!("agents.{id}"),
        };
        let message = format!(
            "{entry}.{key}: Baton starts this agent as a program and cannot use a server; set `command`. Only \
             agents.opencode-agent has `{key}`"
        );
        return Err(Invalid { path: None, message });
    }
    let (url, username, password) = (None, None, None);
    Ok(OpenCode {
        enabled,
        command,
        environment,
        url,
        username,
        password,
        models,
        permission_mode,
        idle_seconds,
    })
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
            "acp: {name:?} is not a valid agent name; use letters, digits and {NAME_CHARACTERS:?}"
        )));
    }
    let usual = known.map(|known| known.command.iter().map(|&word| word.to_owned()).collect());
    let Some(mut command) = written.command.clone().or(usual) else {
        let known: Vec<&str> = KNOWN.iter().filter_map(|known| known.id.strip_prefix(ACP)).collect();
        return Err(invalid(format!(
            "acp.{name}: no `command` is set; only these agents have a built-in one: {}",
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
            return Err(invalid(format!("agents.{id}.url: the address must begin with http:// or https://")));
        }
        if url.contains('@') {
            return Err(invalid(format!(
                "agents.{id}.url: the address must not contain a user name; set `username` and `password`"
            )));
        }
    }
    let Some(program) = command.first_mut().filter(|program| !program.is_empty()) else {
        return Err(invalid(format!("{id}: `command` must begin with a program")));
    };
    let found = find_program(environment, program, is_executable);
    if let Some(path) = found.as_ref().and_then(|path| path.to_str()) {
        path.clone_into(program);
    }
    let is_there = found.is_some() || written.url.is_some();
    let not_executable = if is_there { None } else { find_program(environment, program, Path::is_file) };
    let (id, title) = (id.to_owned(), known.map_or(name, |known| known.name).to_owned());
    let kind = known.map_or(Kind::Acp, |known| known.kind);
    Ok(Candidate { id, name: title, kind, command, is_there, not_executable, known, written })
}

/// Finds a program: a path is used as it is, a name is searched on PATH.
fn find_program(environment: &Environment, program: &str, fits: fn(&Path) -> bool) -> Option<PathBuf> {
    let written = match program.strip_prefix("~/") {
        Some(below) => environment.home()?.join(below),
        None => PathBuf::from(program),
    };
    if program.contains('/') {
        return fits(&written).then_some(written);
    }
    let path = environment.get("PATH")?;
    std::env::split_paths(path).map(|directory| directory.join(program)).find(|file| fits(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Builds a runner for each agent that is installed and enabled.
pub(crate) fn runners(
    services: &Services,
    settings: &Settings,
    providers: &Providers,
) -> Result<Vec<Arc<dyn External>>, Invalid> {
    let config = &settings.loaded.config;
    let candidates = candidates(&settings.environment, config)?;
    let usable = candidates.iter().filter(|candidate| candidate.is_there && candidate.is_enabled());
    let build = |candidate: &Candidate| {
        if let Some(warning) = unenforced(&settings.environment, config, candidate) {
            tracing::warn!(agent = candidate.id, "{warning}");
        }
        runner(services, settings, providers, candidate)
    };
    Ok(usable.map(build).collect())
}

/// Returns a warning if the configuration has rules that the agent cannot enforce.
pub fn unenforced(environment: &Environment, config: &Config, candidate: &Candidate) -> Option<String> {
    let rules = agents::written(environment, config);
    let mode = candidate.written.permission_mode.unwrap_or_default();
    let rules = roster::unenforced(candidate.kind, mode, &rules);
    let shown: Vec<String> =
        rules.iter().map(|rule| format!("{} \"{}\"", rule.permission, rule.pattern)).collect();
    (!shown.is_empty()).then(|| {
        let why = if mode == PermissionMode::Bypass {
            "does not ask with the permission mode `bypass`"
        } else {
            "asks only if a rule with the pattern \"*\" restricts all of them"
        };
        format!(
            "these permission rules have no effect on {}, which {why}: {}",
            candidate.name,
            shown.join(", ")
        )
    })
}

fn program(settings: &Settings, providers: &Providers, candidate: &Candidate) -> Program {
    let written = &candidate.written;
    let named =
        candidate.known.map(|known| own_keys::named(&settings.environment, &written.environment.0, known));
    let named = named.unwrap_or_default();
    let is_own = |variable: &str| own_keys::is_own(candidate.known, &named, variable);
    Program {
        command: candidate.command.clone(),
        environment: written.environment.0.clone(),
        hidden: hidden::from_agent(settings, providers, is_own),
        mode: written.permission_mode.unwrap_or_default(),
        rules: agents::written(&settings.environment, &settings.loaded.config),
        idle: written.idle_seconds.map_or(IDLE, Positive::seconds),
    }
}

/// The runner for an agent.
fn runner(
    services: &Services,
    settings: &Settings,
    providers: &Providers,
    candidate: &Candidate,
) -> Arc<dyn External> {
    let program = program(settings, providers, candidate);
    match candidate.kind {
        Kind::Codex => {
            let description = "OpenAI's Codex, with the settings and the login it has on this machine.";
            let about = about(candidate, description, codex::ABILITIES);
            driver(services, Codex::new(options(services, settings, about, program)))
        }
        Kind::Claude => {
            let about = about(candidate, "Claude Code, with its own tools and settings.", claude::ABILITIES);
            driver(services, Claude::new(options(services, settings, about, program)))
        }
        Kind::Acp => driver(services, acp(services, settings, candidate, program)),
        Kind::OpenCode => {
            let about =
                about(candidate, "OpenCode, with its own agents, tools and providers.", opencode::ABILITIES);
            let about = About { has_providers: true, ..about };
            let (clock, random) = (services.clock.clone(), services.random.clone());
            let options = options(services, settings, about, program);
            driver(services, opencode::OpenCode::new(options, remote(candidate), clock, random))
        }
    }
}

/// The settings of an agent. Its idle processes count together with those of all other agents.
fn options(services: &Services, settings: &Settings, about: About, program: Program) -> Options {
    let pool = services.idle.with_limit(settings.resolved.idle_agents);
    Options { pool, ..Options::new(about, program) }
}

fn driver(services: &Services, agent: impl Agent) -> Arc<dyn External> {
    Arc::new(Driver::new(agent, Arc::clone(&services.clock), services.wakes.wake()))
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
fn acp(services: &Services, settings: &Settings, candidate: &Candidate, program: Program) -> Acp {
    let config = &settings.loaded.config;
    let description = format!("{}, over the Agent Client Protocol.", candidate.name);
    // Many agents name models as provider/model, and only the agent knows its models.
    let about = About { has_providers: true, ..about(candidate, &description, acp::Options::ABILITIES) };
    let program = Program { rules: agents::rules(&settings.environment, config), ..program };
    Acp::new(acp::Options {
        agent: options(services, settings, about, program),
        servers: config.mcp.clone(),
        sandbox: settings.resolved.sandbox.clone(),
        command: config.limits.as_ref().and_then(|limits| limits.command_seconds).map(Positive::seconds),
        closed: services.closed.clone(),
    })
}

/// Returns the configured server, which is called in place of starting a process.
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

    #[test]
    fn no_agent_has_the_id_of_a_model_provider() {
        let catalogue = llm::Catalogue::built_in().unwrap();
        for known in KNOWN {
            assert!(catalogue.entries().all(|entry| entry.id != known.id), "{}", known.id);
        }
    }

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
    fn programs_are_found_on_the_path_or_where_the_configuration_says() {
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
    fn a_program_that_is_not_executable_is_not_found() {
        let directory = TempDir::new().unwrap();
        install(&directory, "codex", 0o644);
        std::fs::create_dir(directory.path().join("claude")).unwrap();
        let found = look(directory.path(), json!({})).unwrap();
        assert!(found.iter().all(|candidate| !candidate.is_there));
        let file = |id| named(&found, id).not_executable.clone();
        assert_eq!(file("codex"), Some(directory.path().join("codex")));
        assert_eq!((file("claude-code"), file("acp:goose")), (None, None));
    }

    #[test]
    fn rules_that_an_agent_cannot_enforce_are_named() {
        let directory = TempDir::new().unwrap();
        install(&directory, "codex", 0o755);
        install(&directory, "claude", 0o755);
        let config = json!({ "permission": { "bash": { "*": "allow", "rm *": "deny" } } });
        let found = look(directory.path(), config.clone()).unwrap();
        let environment = Environment::of([("HOME", directory.path().as_os_str())]);
        let config: Config = serde_json::from_value(config).unwrap();
        let warning = |id| unenforced(&environment, &config, named(&found, id));
        let codex = warning("codex").unwrap();
        assert!(codex.contains("no effect on Codex") && codex.contains("bash \"rm *\""), "{codex}");
        assert_eq!(warning("claude-code"), None);
    }

    #[test]
    fn an_invalid_configuration_is_refused_with_the_valid_values() {
        let directory = TempDir::new().unwrap();
        for (config, words) in [
            (
                json!({ "agents": { "claude": {} } }),
                ["agents.claude", "claude-code, codex, opencode-agent", "`acp`"],
            ),
            (json!({ "acp": { "mine": {} } }), ["acp.mine", "no `command`", "gemini"]),
            (json!({ "acp": { "a/b": { "command": ["x"] } } }), ["\"a/b\"", "letters", "-_."]),
            (json!({ "acp": { "": { "command": ["x"] } } }), ["\"\"", "name", "letters"]),
            (
                json!({ "agents": { "claude-code": { "url": "http://h" } } }),
                ["agents.claude-code.url", "`command`", "opencode-agent"],
            ),
            (
                json!({ "agents": { "codex": { "command": [""] } } }),
                ["codex", "command", "must begin with a program"],
            ),
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
