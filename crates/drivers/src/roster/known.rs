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
    /// The keys of providers that it inherits.
    pub keys: Keys,
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

/// The environment variables with keys of providers that an agent inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The agent can use any provider, so it inherits all keys.
    All,
    /// The keys of the providers that the agent can use.
    Of(&'static [&'static str]),
}

/// A sign that the user is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// An environment variable that is not empty.
    Variable(&'static str),
    /// A file that is not empty.
    File(LoginDirectory, &'static str),
    /// A variable that a TOML file names with this key, and that is not empty.
    VariableIn(LoginDirectory, &'static str, &'static str),
}

/// The directory of a login file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginDirectory {
    /// The home directory.
    Home,
    /// The directory that a variable names, or else this directory below the home directory.
    Named(&'static str, &'static str),
}

const CLAUDE: &[Login] = &[
    Login::Variable("ANTHROPIC_API_KEY"),
    Login::Variable("ANTHROPIC_AUTH_TOKEN"),
    Login::Variable("CLAUDE_CODE_OAUTH_TOKEN"),
    Login::File(LoginDirectory::Named("CLAUDE_CONFIG_DIR", ".claude"), ".credentials.json"),
];

/// Claude Code calls Claude at Anthropic, Amazon or Google.
const CLAUDE_KEYS: Keys = Keys::Of(&[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "GOOGLE_APPLICATION_CREDENTIALS",
]);

const CODEX: &[Login] = &[
    Login::Variable("CODEX_API_KEY"),
    Login::Variable("OPENAI_API_KEY"),
    Login::File(LoginDirectory::Named("CODEX_HOME", ".codex"), "auth.json"),
    Login::VariableIn(LoginDirectory::Named("CODEX_HOME", ".codex"), "config.toml", "env_key"),
];

const CODEX_KEYS: Keys =
    Keys::Of(&["CODEX_API_KEY", "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_API_KEY"]);

const OPENCODE: &[Login] = &[
    Login::Variable("OPENCODE_API_KEY"),
    Login::Variable("ANTHROPIC_API_KEY"),
    Login::Variable("OPENAI_API_KEY"),
    Login::File(LoginDirectory::Named("XDG_DATA_HOME", ".local/share"), "opencode/auth.json"),
];

const GEMINI: &[Login] = &[
    Login::Variable("GEMINI_API_KEY"),
    Login::Variable("GOOGLE_API_KEY"),
    Login::File(LoginDirectory::Home, ".gemini/oauth_creds.json"),
];

const GEMINI_KEYS: Keys = Keys::Of(&[
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
]);

/// Every agent that Baton looks for.
pub const KNOWN: [Known; 11] = [
    Known {
        id: "claude-code",
        name: "Claude Code",
        kind: Kind::Claude,
        command: &["claude"],
        models: &["sonnet", "opus", "haiku"],
        logins: CLAUDE,
        keys: CLAUDE_KEYS,
        hint: "run `claude` and log in, or set ANTHROPIC_API_KEY",
    },
    Known {
        id: "codex",
        name: "Codex",
        kind: Kind::Codex,
        command: &["codex"],
        models: &[],
        logins: CODEX,
        keys: CODEX_KEYS,
        hint: "run `codex login`, or set CODEX_API_KEY",
    },
    Known {
        id: "opencode-agent",
        name: "OpenCode",
        kind: Kind::OpenCode,
        command: &["opencode"],
        models: &[],
        logins: OPENCODE,
        keys: Keys::All,
        hint: "run `opencode auth login`, or configure a provider for it",
    },
    acp(
        "acp:opencode",
        "OpenCode (ACP)",
        &["opencode", "acp"],
        OPENCODE,
        Keys::All,
        "run `opencode auth login`",
    ),
    acp(
        "acp:claude",
        "Claude Code (ACP)",
        &["claude-agent-acp"],
        CLAUDE,
        CLAUDE_KEYS,
        "run `claude` and log in",
    ),
    acp("acp:codex", "Codex (ACP)", &["codex-acp"], CODEX, CODEX_KEYS, "run `codex login`"),
    acp(
        "acp:gemini",
        "Gemini CLI",
        &["gemini", "--acp"],
        GEMINI,
        GEMINI_KEYS,
        "run `gemini` and log in, or set GEMINI_API_KEY",
    ),
    acp(
        "acp:goose",
        "goose",
        &["goose", "acp"],
        &[
            Login::Variable("GOOSE_PROVIDER"),
            Login::File(LoginDirectory::Named("XDG_CONFIG_HOME", ".config"), "goose/config.yaml"),
        ],
        Keys::All,
        "run `goose configure`",
    ),
    acp(
        "acp:qwen",
        "Qwen Code",
        &["qwen", "--acp"],
        &[Login::Variable("DASHSCOPE_API_KEY"), Login::File(LoginDirectory::Home, ".qwen/oauth_creds.json")],
        Keys::Of(&["DASHSCOPE_API_KEY", "OPENAI_API_KEY"]),
        "run `qwen` and log in",
    ),
    acp(
        "acp:copilot",
        "Copilot CLI",
        &["copilot", "--acp"],
        &[Login::Variable("COPILOT_GITHUB_TOKEN"), Login::File(LoginDirectory::Home, ".copilot/config.json")],
        Keys::Of(&["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"]),
        "run `copilot` and log in",
    ),
    acp(
        "acp:kimi",
        "Kimi CLI",
        &["kimi", "acp"],
        &[Login::Variable("KIMI_API_KEY"), Login::File(LoginDirectory::Home, ".kimi/config.toml")],
        Keys::Of(&["KIMI_API_KEY", "MOONSHOT_API_KEY"]),
        "run `kimi` and log in",
    ),
];

const fn acp(
    id: &'static str,
    name: &'static str,
    command: &'static [&'static str],
    logins: &'static [Login],
    keys: Keys,
    hint: &'static str,
) -> Known {
    Known { id, name, kind: Kind::Acp, command, models: &[], logins, keys, hint }
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
