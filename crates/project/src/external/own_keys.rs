//! The keys of providers that an external agent inherits: those of the providers that it can use, and no others.

use std::{collections::BTreeMap, fs, path::PathBuf};

use drivers::roster::known::{Keys, Known, Login, LoginDirectory};
use store::files::Environment;

/// Largest configuration file of an agent that is searched for the names of variables, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// Returns true if an agent may inherit the variable with a provider's key. An agent that Baton does not know inherits none.
pub(super) fn is_own(known: Option<&Known>, named: &[String], variable: &str) -> bool {
    let own = match known.map(|known| known.keys) {
        Some(Keys::All) => true,
        Some(Keys::Of(names)) => names.contains(&variable),
        None => false,
    };
    own || named.iter().any(|name| name == variable)
}

/// Returns the variables that the agent's own configuration files name, see [`Login::VariableIn`].
pub(super) fn named(
    environment: &Environment,
    configured: &BTreeMap<String, String>,
    known: &Known,
) -> Vec<String> {
    let named = known.logins.iter().filter_map(|login| match *login {
        Login::VariableIn(place, file, key) => Some(variables(environment, configured, place, file, key)),
        Login::Variable(_) | Login::File(..) => None,
    });
    named.flatten().collect()
}

/// Returns the variables that lines such as `env_key = "ACME_KEY"` of a TOML file name.
pub fn variables(
    environment: &Environment,
    configured: &BTreeMap<String, String>,
    place: LoginDirectory,
    file: &str,
    key: &str,
) -> Vec<String> {
    let Some(file) = directory(environment, configured, place).map(|directory| directory.join(file)) else {
        return Vec::new();
    };
    if !file.metadata().is_ok_and(|about| about.is_file() && about.len() <= MAX_FILE) {
        return Vec::new();
    }
    let text = fs::read_to_string(file).unwrap_or_default();
    let values =
        text.lines().filter_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix('='));
    let quoted = values.filter_map(|value| {
        let value = value.trim_start();
        let quote = value.chars().next().filter(|it| matches!(it, '"' | '\''))?;
        Some(value.get(1..)?.split(quote).next()?.to_owned())
    });
    quoted.filter(|name| !name.is_empty()).collect()
}

/// Returns the directory in which an agent keeps its files.
pub fn directory(
    environment: &Environment,
    configured: &BTreeMap<String, String>,
    place: LoginDirectory,
) -> Option<PathBuf> {
    let text = |name: &str| configured.get(name).map(String::as_str).or_else(|| environment.text(name));
    match place {
        LoginDirectory::Home => environment.home(),
        LoginDirectory::Named(variable, below) => match text(variable).filter(|value| !value.is_empty()) {
            Some(named) => Some(PathBuf::from(named)),
            None => Some(environment.home()?.join(below)),
        },
    }
}

#[cfg(test)]
mod tests {
    use drivers::roster::known;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn an_agent_inherits_the_keys_of_its_own_providers_only() {
        let own = |id: &str, variable: &str| is_own(known::find(id), &[], variable);
        assert!(own("claude-code", "ANTHROPIC_API_KEY") && !own("claude-code", "OPENAI_API_KEY"));
        assert!(own("codex", "OPENAI_API_KEY") && !own("codex", "ANTHROPIC_API_KEY"));
        assert!(own("opencode-agent", "ANTHROPIC_API_KEY") && own("opencode-agent", "OPENAI_API_KEY"));
        assert!(!own("acp:mine", "OPENAI_API_KEY"), "an unknown agent has no provider");
    }

    #[test]
    fn a_variable_that_codex_reads_for_its_own_provider_is_its_own() {
        let home = TempDir::new().unwrap();
        fs::create_dir(home.path().join(".codex")).unwrap();
        let text = "[model_providers.acme]\nname = \"Acme\"\nenv_key = \"ACME_KEY\" # its key\n  env_key='OTHER'\nenv_key_x = \"NO\"\n";
        fs::write(home.path().join(".codex/config.toml"), text).unwrap();
        let environment = Environment::of([("HOME", home.path().as_os_str())]);
        let codex = known::find("codex").unwrap();
        let named = named(&environment, &BTreeMap::new(), codex);
        assert_eq!(named, ["ACME_KEY", "OTHER"]);
        assert!(is_own(Some(codex), &named, "ACME_KEY"));
    }
}
