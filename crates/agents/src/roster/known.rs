//! The agents that are looked for, each with the program it is and how one tells whether somebody is logged in.
//!
//! Only facts are here. Whoever may look at files and at the environment does the looking.

use protocol::agent::Abilities;

use crate::{acp, claude, codex, opencode};

/// The prefix of agents that speak the Agent Client Protocol.
pub const ACP: &str = "acp:";

/// An agent that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its name as a provider and as an agent.
    pub id: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// How it is talked to.
    pub kind: Kind,
    /// The program and the arguments that make it an agent.
    pub command: &'static [&'static str],
    /// Its models besides the default, as it calls them.
    pub models: &'static [&'static str],
    /// What shows that somebody is logged in.
    pub logins: &'static [Login],
    /// How to log in.
    pub hint: &'static str,
}

/// How an agent is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Claude Code's lines.
    Claude,
    /// Codex's app server.
    Codex,
    /// OpenCode's HTTP interface.
    OpenCode,
    /// The Agent Client Protocol.
    Acp,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::OpenCode, Self::Acp];

    /// What works with it.
    pub const fn abilities(self) -> Abilities {
        match self {
            Self::Claude => claude::ABILITIES,
            Self::Codex => codex::ABILITIES,
            Self::OpenCode => opencode::ABILITIES,
            Self::Acp => acp::Options::ABILITIES,
        }
    }
}

/// What shows that somebody is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// A variable that is not empty.
    Variable(&'static str),
    /// A file that is not empty.
    File(Place, &'static str),
}

/// Where a file is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Below the home directory.
    Home,
    /// In the directory that a variable names, else in one below the home directory.
    Named(&'static str, &'static str),
}

const CLAUDE: &[Login] = &[
    Login::Variable("ANTHROPIC_API_KEY"),
    Login::Variable("ANTHROPIC_AUTH_TOKEN"),
    Login::Variable("CLAUDE_CODE_OAUTH_TOKEN"),
    Login::File(Place::Named("CLAUDE_CONFIG_DIR", ".claude"), ".credentials.json"),
];

const CODEX: &[Login] = &[
    Login::Variable("CODEX_API_KEY"),
    Login::Variable("OPENAI_API_KEY"),
    Login::File(Place::Named("CODEX_HOME", ".codex"), "auth.json"),
];

const OPENCODE: &[Login] = &[
    Login::Variable("OPENCODE_API_KEY"),
    Login::Variable("ANTHROPIC_API_KEY"),
    Login::Variable("OPENAI_API_KEY"),
    Login::File(Place::Named("XDG_DATA_HOME", ".local/share"), "opencode/auth.json"),
];

const GEMINI: &[Login] = &[
    Login::Variable("GEMINI_API_KEY"),
    Login::Variable("GOOGLE_API_KEY"),
    Login::File(Place::Home, ".gemini/oauth_creds.json"),
];

/// Every agent that is looked for.
pub const KNOWN: [Known; 11] = [
    Known {
        id: "claude-code",
        name: "Claude Code",
        kind: Kind::Claude,
        command: &["claude"],
        models: &["sonnet", "opus", "haiku"],
        logins: CLAUDE,
        hint: "run `claude` and log in, or set ANTHROPIC_API_KEY",
    },
    Known {
        id: "codex",
        name: "Codex",
        kind: Kind::Codex,
        command: &["codex"],
        models: &[],
        logins: CODEX,
        hint: "run `codex login`, or set CODEX_API_KEY",
    },
    Known {
        id: "opencode-agent",
        name: "OpenCode",
        kind: Kind::OpenCode,
        command: &["opencode"],
        models: &[],
        logins: OPENCODE,
        hint: "run `opencode auth login`, or configure a provider for it",
    },
    acp("acp:opencode", "OpenCode (ACP)", &["opencode", "acp"], OPENCODE, "run `opencode auth login`"),
    acp("acp:claude", "Claude Code (ACP)", &["claude-agent-acp"], CLAUDE, "run `claude` and log in"),
    acp("acp:codex", "Codex (ACP)", &["codex-acp"], CODEX, "run `codex login`"),
    acp(
        "acp:gemini",
        "Gemini CLI",
        &["gemini", "--acp"],
        GEMINI,
        "run `gemini` and log in, or set GEMINI_API_KEY",
    ),
    acp(
        "acp:goose",
        "goose",
        &["goose", "acp"],
        &[
            Login::Variable("GOOSE_PROVIDER"),
            Login::File(Place::Named("XDG_CONFIG_HOME", ".config"), "goose/config.yaml"),
        ],
        "run `goose configure`",
    ),
    acp(
        "acp:qwen",
        "Qwen Code",
        &["qwen", "--acp"],
        &[Login::Variable("DASHSCOPE_API_KEY"), Login::File(Place::Home, ".qwen/oauth_creds.json")],
        "run `qwen` and log in",
    ),
    acp(
        "acp:copilot",
        "Copilot CLI",
        &["copilot", "--acp"],
        &[Login::Variable("COPILOT_GITHUB_TOKEN"), Login::File(Place::Home, ".copilot/config.json")],
        "run `copilot` and log in",
    ),
    acp(
        "acp:kimi",
        "Kimi CLI",
        &["kimi", "acp"],
        &[Login::Variable("KIMI_API_KEY"), Login::File(Place::Home, ".kimi/config.toml")],
        "run `kimi` and log in",
    ),
];

const fn acp(
    id: &'static str,
    name: &'static str,
    command: &'static [&'static str],
    logins: &'static [Login],
    hint: &'static str,
) -> Known {
    Known { id, name, kind: Kind::Acp, command, models: &[], logins, hint }
}

/// An agent that is known by this name.
pub fn find(id: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_how_an_agent_is_talked_to_and_are_no_models_provider() {
        let catalogue = llm::Catalogue::built_in().unwrap();
        for known in KNOWN {
            assert_eq!(known.id.starts_with(ACP), known.kind == Kind::Acp, "{}", known.id);
            assert!(!known.command.is_empty() && !known.id.contains('/'), "{}", known.id);
            assert!(catalogue.entries().all(|entry| entry.id != known.id), "{} is somebody else's", known.id);
            assert_eq!(KNOWN.iter().filter(|other| other.id == known.id).count(), 1);
        }
    }
}
