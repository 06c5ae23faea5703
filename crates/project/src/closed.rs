//! Paths that no client and no model may read: Baton's own data and the key files of agents.

use std::path::PathBuf;

use store::files::{Environment, Places};
use workspace::files::Closed;

use crate::services::{OUTPUTS, WORKTREES};

/// Key files of other agents: the variable that moves the agent's directory, the directory below the user's home, and the
/// file in it.
const KEYS: [(&str, &str, &str); 3] = [
    ("CODEX_HOME", ".codex", "auth.json"),
    ("CLAUDE_CONFIG_DIR", ".claude", ".credentials.json"),
    ("GEMINI_CLI_HOME", ".gemini", "oauth_creds.json"),
];

/// Key files in OpenCode's data directory.
const OPENCODE: [&str; 2] = ["auth.json", "mcp-auth.json"];

/// Closes Baton's own data (database, keys, logs) and the key files of other agents. Worktrees stay open because they are
/// projects, tool outputs because models read them, and plugin packages because they are public.
pub(crate) fn closed(environment: &Environment, places: &Places) -> Closed {
    let own = [&places.data, &places.state, &places.log].map(PathBuf::clone);
    let opencode = environment.opencode_data_dir();
    let opencode = opencode.iter().flat_map(|directory| OPENCODE.map(|name| directory.join(name)));
    let others = KEYS.into_iter().filter_map(|(variable, below_home, name)| {
        environment.base(variable, below_home).map(|directory| directory.join(name))
    });
    let open = [places.data.join(WORKTREES), places.data.join(OUTPUTS), places.cache.clone()];
    Closed::new(own.into_iter().chain(opencode).chain(others), open)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn data_and_keys_are_closed_and_projects_are_not() {
        let environment = Environment::of([("HOME", "/no-such-home"), ("CODEX_HOME", "/no-such-codex")]);
        let places = Places::resolve(None, &environment).unwrap();
        let closed = closed(&environment, &places);
        for path in [
            "/no-such-home/.local/share/baton",
            "/no-such-home/.local/share/baton/auth.json",
            "/no-such-home/.local/share/baton/baton.db-wal",
            "/no-such-home/.local/share/opencode/auth.json",
            "/no-such-home/.local/state/baton/log/baton.log",
            "/no-such-home/.claude/.credentials.json",
            "/no-such-codex/auth.json",
            "/proc/self/environ",
        ] {
            assert!(closed.covers(Path::new(path)), "{path}");
        }
        for path in [
            "/no-such-home",
            "/no-such-home/.local/share/baton/worktrees/p/one/src/main.rs",
            "/no-such-home/.local/share/baton/tool-output/call_1",
            "/no-such-home/.local/share/opencode/log",
            "/no-such-home/.claude/CLAUDE.md",
            "/no-such-home/.codex/auth.json",
        ] {
            assert!(!closed.covers(Path::new(path)), "{path}");
        }
    }
}
