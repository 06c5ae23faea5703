//! What the environment says about who may call whom. What it says about the configuration is read by
//! `store::files`; everything else is said on the command line.
//!
//! [`Environment::capture`] is the one door to it. It also serves the secrets that `handover` took out of the
//! environment.

use std::path::PathBuf;
#[cfg(target_os = "linux")]
use std::{collections::BTreeMap, ffi::OsString};

use client::{Client, Password};
use server::security::Credentials;
use store::files::Environment;
#[cfg(target_os = "linux")]
use workspace::process::{self, Inherited};

use crate::exit::Failure;
pub(crate) use project::hidden::{PASSWORDS, SECRETS};

const USER: &str = "OPENCODE_SERVER_USERNAME";
pub(crate) const DEFAULT_USER: &str = "opencode";

/// The table for `--help`.
pub(crate) const VARIABLES: &str = "\
Environment:
  BATON_PASSWORD, OPENCODE_SERVER_PASSWORD  the server's password
  OPENCODE_SERVER_USERNAME                  its user name (default: opencode)
  OPENCODE_CONFIG, OPENCODE_CONFIG_DIR      a configuration file or directory besides the usual ones
  OPENCODE_CONFIG_CONTENT                   a configuration, as JSON
  OPENCODE_PERMISSION                       permissions on top of all others, as JSON
  OPENCODE_DISABLE_PROJECT_CONFIG           1: the project's configuration is not read
  OPENCODE_AUTH_CONTENT                     keys, as in auth.json
  ANTHROPIC_API_KEY, OPENAI_API_KEY, ...    the keys of providers
  NO_COLOR                                  no colours";

/// A variable that is set, in the environment or in what the program was handed instead.
pub(crate) fn read(name: &str) -> Option<String> {
    Environment::capture().text(name).map(str::to_owned)
}

/// Serves these variables as if they were in the environment, to this program and to the programs it starts. Nobody
/// but this program has any use for `mark`.
#[cfg(target_os = "linux")]
pub(crate) fn adopt(variables: BTreeMap<String, OsString>, mark: &str) {
    let inherited = variables.iter().map(|(name, value)| (name.into(), value.clone())).collect();
    process::inherit(Inherited { added: inherited, removed: vec![mark.into()] });
    Environment::adopt(variables);
}

fn password() -> Option<String> {
    PASSWORDS.into_iter().find_map(read)
}

/// What callers of our server have to know.
pub(crate) fn credentials() -> Option<Credentials> {
    Credentials::new(read(USER).as_deref(), &password()?)
}

/// A client for somebody else's server, with the password if there is one.
pub(crate) fn client(address: &str) -> Result<Client, Failure> {
    let client = Client::new(address).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(match password() {
        Some(password) => {
            client.with_login(read(USER).unwrap_or_else(|| DEFAULT_USER.into()), Password::new(password))
        }
        None => client,
    })
}

/// The person's shell.
pub(crate) fn shell() -> Option<String> {
    read("SHELL")
}

/// The person's home directory.
pub(crate) fn home() -> PathBuf {
    std::env::home_dir().unwrap_or_default()
}
