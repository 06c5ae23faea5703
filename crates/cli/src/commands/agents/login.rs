//! Detects logins of external agents. Reports only names, never the contents of a variable or a file.

use std::{collections::BTreeMap, path::PathBuf};

use drivers::roster::known::Login;
use project::external::own_keys::{directory, variables};
use store::files::Environment;

/// Evidence that the user is logged in: the name of a variable, or of a file below the home directory.
pub(super) fn find(
    environment: &Environment,
    configured: &BTreeMap<String, String>,
    logins: &[Login],
) -> Option<String> {
    let text = |name: &str| configured.get(name).map(String::as_str).or_else(|| environment.text(name));
    let is_set = |name: &str| text(name).is_some_and(|value| !value.trim().is_empty());
    logins.iter().find_map(|login| match *login {
        Login::Variable(name) => is_set(name).then(|| name.to_owned()),
        Login::File(place, name) => {
            let file = directory(environment, configured, place)?.join(name);
            // `{}` is the content of a key file after the last key was removed.
            let is_filled = file.metadata().is_ok_and(|about| about.is_file() && about.len() > 2);
            let shown = || match environment
                .home()
                .and_then(|home| file.strip_prefix(home).ok().map(PathBuf::from))
            {
                Some(below) => format!("~/{}", below.display()),
                None => file.display().to_string(),
            };
            is_filled.then(shown)
        }
        Login::VariableIn(place, file, key) => {
            variables(environment, configured, place, file, key).into_iter().find(|name| is_set(name))
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use drivers::roster::known::LoginDirectory;
    use tempfile::TempDir;

    use super::*;

    const LOGINS: &[Login] =
        &[Login::Variable("KEY"), Login::File(LoginDirectory::Named("ITS_HOME", ".it"), "auth.json")];

    #[test]
    fn a_login_is_a_variable_or_a_file_that_holds_something() {
        let home = TempDir::new().unwrap();
        let none = BTreeMap::new();
        let plain = Environment::of([("HOME", home.path().as_os_str())]);
        let find_in = |environment: &Environment| find(environment, &none, LOGINS);
        assert_eq!(find_in(&plain), None);
        fs::create_dir(home.path().join(".it")).unwrap();
        fs::write(home.path().join(".it/auth.json"), "{}").unwrap();
        assert_eq!(find_in(&plain), None, "a file without keys");
        fs::write(home.path().join(".it/auth.json"), r#"{"key":"sk-1"}"#).unwrap();
        assert_eq!(find_in(&plain).as_deref(), Some("~/.it/auth.json"));
        let elsewhere = TempDir::new().unwrap();
        let moved =
            Environment::of([("HOME", home.path().as_os_str()), ("ITS_HOME", elsewhere.path().as_os_str())]);
        assert_eq!(find_in(&moved), None, "the variable says where to look");
        let keyed = Environment::of([("KEY", "sk-2")]);
        assert_eq!(find_in(&keyed).as_deref(), Some("KEY"));
        assert_eq!(find_in(&Environment::of([("KEY", " ")])), None);
        let configured = BTreeMap::from([("KEY".to_owned(), "sk-3".to_owned())]);
        assert_eq!(find(&plain, &configured, &LOGINS[..1]).as_deref(), Some("KEY"));
    }

    #[test]
    fn a_variable_that_a_configuration_file_names_is_a_login() {
        let home = TempDir::new().unwrap();
        let logins = [Login::VariableIn(LoginDirectory::Named("ITS_HOME", ".it"), "config.toml", "env_key")];
        fs::create_dir(home.path().join(".it")).unwrap();
        fs::write(home.path().join(".it/config.toml"), "env_key = \"ACME_KEY\"\n").unwrap();
        let home = ("HOME", home.path().as_os_str());
        let find_in = |environment: &Environment| find(environment, &BTreeMap::new(), &logins);
        assert_eq!(find_in(&Environment::of([home])), None, "the variable is not set");
        let keyed = Environment::of([home, ("ACME_KEY", "sk-1".as_ref())]);
        assert_eq!(find_in(&keyed).as_deref(), Some("ACME_KEY"));
    }
}
