//! Environment variables about passwords and the user's surroundings. `store::files` reads those that concern
//! the configuration; everything else comes from the command line.
//!
//! [`Environment::capture`] is the only access to the environment. It also serves the secrets that `handover`
//! removed from it.

use std::path::PathBuf;
#[cfg(target_os = "linux")]
use std::{collections::BTreeMap, ffi::OsString};

use client::{Client, Password};
use server::security::Credentials;
use store::files::Environment;
#[cfg(target_os = "linux")]
use workspace::process::{self, Inherited};

use crate::exit::Failure;
pub(crate) use project::hidden::{FLEET_KEY, PASSWORDS, SECRETS, STORE};

const USER: &str = "OPENCODE_SERVER_USERNAME";
pub(crate) const DEFAULT_USER: &str = "opencode";

/// Section of `--help` about environment variables.
pub(crate) const VARIABLES: &str = "\
Environment:
  BATON_PASSWORD, OPENCODE_SERVER_PASSWORD  the server's password
  OPENCODE_SERVER_USERNAME                  its user name (default: opencode)
  BATON_STORE                               the Postgres database to use, as --store
  BATON_FLEET_KEY                           a secret that all nodes of a fleet share
  OPENCODE_CONFIG, OPENCODE_CONFIG_DIR      an additional configuration file or directory
  OPENCODE_CONFIG_CONTENT                   a configuration as JSON
  OPENCODE_PERMISSION                       permissions as JSON; they override all others
  OPENCODE_DISABLE_PROJECT_CONFIG           1: ignore the project's configuration
  OPENCODE_AUTH_CONTENT                     keys in the format of auth.json
  ANTHROPIC_API_KEY, OPENAI_API_KEY, ...    keys of providers
  NO_COLOR                                  no colours";

/// Section of `--help` about files.
pub(crate) const PLACES: &str = "\
Files:
  ~/.config/opencode/opencode.json    the user's configuration; also baton.json
  ~/.local/share/baton/               sessions, keys and trusted projects
  ~/.local/state/baton/log/baton.log  the log, as JSON lines
  XDG_CONFIG_HOME, XDG_DATA_HOME and XDG_STATE_HOME move them; --data-dir holds data and log";

/// Reads a variable from the environment or from the secrets that `handover` removed from it.
pub(crate) fn read(name: &str) -> Option<String> {
    Environment::capture().text(name).map(str::to_owned)
}

/// Serves these variables as if they were in the environment, to this program and to the programs it starts.
/// Programs it starts do not inherit `mark`.
#[cfg(target_os = "linux")]
pub(crate) fn adopt(variables: BTreeMap<String, OsString>, mark: &str) {
    let inherited = variables.iter().map(|(name, value)| (name.into(), value.clone())).collect();
    process::inherit(Inherited { added: inherited, removed: vec![mark.into()] });
    Environment::adopt(variables);
}

fn password() -> Option<String> {
    PASSWORDS.into_iter().find_map(read)
}

/// The variable that holds the password, if one is set.
pub(crate) fn password_variable() -> Option<&'static str> {
    PASSWORDS.into_iter().find(|name| read(name).is_some())
}

/// Credentials that clients of this server must send; `None` without a password.
pub(crate) fn credentials() -> Option<Credentials> {
    Credentials::new(read(USER).as_deref(), &password()?)
}

/// A client for the server at `address`, with the password from the environment if one is set.
pub(crate) fn client(address: &str) -> Result<Client, Failure> {
    let client = Client::new(address).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(match password() {
        Some(password) => {
            client.with_login(read(USER).unwrap_or_else(|| DEFAULT_USER.into()), Password::new(password))
        }
        None => client,
    })
}

/// The user's shell.
pub(crate) fn shell() -> Option<String> {
    read("SHELL")
}

/// The current directory.
pub(crate) fn here() -> Result<String, Failure> {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let here = here.map_err(|error| Failure::usage(format!("cannot use the current directory: {error}")))?;
    here.into_os_string()
        .into_string()
        .map_err(|_| Failure::usage("the current directory's name is not UTF-8"))
}

/// The user's home directory.
pub(crate) fn home() -> PathBuf {
    std::env::home_dir().unwrap_or_default()
}
