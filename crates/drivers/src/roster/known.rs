//! The external agents that Baton looks for, each with its program and the signs of a login.
//!
//! This module contains only data. The caller looks at files and at the environment.

use protocol::agent::Abilities;

use crate::{acp, claude, codex, opencode};

/// The prefix of agents that speak the Agent Client Protocol.
pub const ACP: &str = "acp:";

/// An external agent that needs no configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The id as a provider and as an agent.
    pub id: &'static str,
    /// The display name.
    pub name: &'static str,
    pub kind: Kind,
    /// The program with the arguments that make it work as an agent.
    pub command: &'static [&'static str],
    /// The agent's own names of its models besides the default.
    pub models: &'static [&'static str],
    /// The signs of a login, any one of which is enough.
    pub logins: &'static [Login],
    /// Instructions to log in.
    pub hint: &'static str,
}

/// The protocol of an external agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Claude Code's lines of JSON.
    Claude,
    /// JSON-RPC of `codex app-server`.
    Codex,
    /// OpenCode's HTTP API.
    OpenCode,
    /// The Agent Client Protocol.
    Acp,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::OpenCode, Self::Acp];

    pub const fn abilities(self) -> Abilities {
        match self {
            Self::Claude => claude::ABILITIES,
            Self::Codex => codex::ABILITIES,
            Self::OpenCode => opencode::ABILITIES,
            Self::Acp => acp::Options::ABILITIES,
        }
    }
}

/// A sign that the user is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// An environment variable that is not empty.
    Variable(&'static str),
    /// A file that is not empty.
    File(Place, &'static str),
}

/// The directory of a login file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The home directory.
    Home,
    /// The directory that a variable names, or else this directory below the home directory.
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

/// Every agent that Baton looks for.
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

/// The known agent with this id.
pub fn find(id: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_show_the_protocol() {
        for known in KNOWN {
            assert_eq!(known.id.starts_with(ACP), known.kind == Kind::Acp, "{}", known.id);
            assert!(!known.command.is_empty() && !known.id.contains('/'), "{}", known.id);
            assert_eq!(KNOWN.iter().filter(|other| other.id == known.id).count(), 1);
        }
    }
}
